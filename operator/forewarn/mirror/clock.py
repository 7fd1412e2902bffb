"""The API server's clock: how far ours is off, learnt from the Date of its answers."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from forewarn.contract import UTC

if TYPE_CHECKING:
    from collections.abc import Callable

DRIFT = 200e-6
"""Seconds by which two clocks may part in each second: the bounds widen by it, so that old samples lose their say."""

RESOLUTION = 1.0
"""A Date header has whole seconds, rounded down."""


@lru_cache(maxsize=1)
def _seconds(date: str | None) -> float | None:
    """Read a Date header. Hundreds of answers carry the same one."""
    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError):
        return None


class Clock:
    """The time by the API server, advanced by our monotonic clock: a step of our own wall clock does nothing.

    Each answer bounds the difference: the server wrote its Date between the request and the answer. The bounds of all
    answers are intersected, which soon gives a few milliseconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._difference = self._low = self._high = wall() - monotonic()
        self._at: float | None = None
        self._told = 0.0

    def monotonic(self) -> float:
        """Return our monotonic clock, in seconds."""
        return self._monotonic()

    def answered(self, date: str | None, asked: float, answered: float) -> None:
        """Take one answer: its Date header and our monotonic clock when it was asked for and when it came."""
        served = _seconds(date)
        if served is None:
            return
        low, high = served - answered, served + RESOLUTION - asked
        if self._at is not None:
            spread = DRIFT * max(answered - self._at, 0.0)
            both = max(low, self._low - spread), min(high, self._high + spread)
            # Bounds that exclude each other: one of the clocks was set. The newest answer counts.
            low, high = both if both[0] <= both[1] else (low, high)
        self._low, self._high, self._at = low, high, answered
        # A wall clock that agrees is more exact than any bound, so it is only corrected as far as it must be.
        self._difference = min(max(self._difference, low), high)

    @property
    def measured(self) -> bool:
        """Whether an answer was seen; until then it is our own wall clock."""
        return self._at is not None

    def now(self) -> datetime:
        """Return the time by the API server."""
        now = self._monotonic() + self._difference
        if now < self._told < now + 2 * RESOLUTION:
            # A correction never takes back what was said: Events would seem to come in another order.
            return datetime.fromtimestamp(self._told, UTC)
        self._told = now
        return datetime.fromtimestamp(now, UTC)

    def until(self, instant: datetime) -> float:
        """Return the seconds until an instant, negative if it is past."""
        return (instant - self.now()) / timedelta(seconds=1)

    @property
    def offset(self) -> float:
        """By how many seconds our own wall clock is ahead of the API server's."""
        return self._wall() - self.now().timestamp()
