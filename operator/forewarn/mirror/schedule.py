"""One timer for every deadline: a heap, not a poll for each pod."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from forewarn.mirror.clock import Clock

LONGEST_SLEEP = 10.0
"""The clock's measured offset can change, so that no sleep may be longer than this."""
SHORTEST_SLEEP = 0.002


class Schedule:
    """At most one deadline for each key; ``due`` is called with a key whose deadline is past."""

    def __init__(self, clock: Clock, due: Callable[[str], None]) -> None:
        self._clock, self._due = clock, due
        self._heap: list[tuple[datetime, str]] = []
        self._deadlines: dict[str, datetime] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: str, deadline: datetime | None) -> None:
        """Set the key's deadline, or none."""
        if deadline is None:
            self._deadlines.pop(key, None)
            return
        if self._deadlines.get(key) == deadline:
            return
        self._deadlines[key] = deadline
        heapq.heappush(self._heap, (deadline, key))
        if self._heap[0][1] == key or self._timer is None:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._deadlines.get(self._heap[0][1]) != self._heap[0][0]:
            # Moved or taken back since it was pushed.
            heapq.heappop(self._heap)
        if self._heap:
            wait = min(max(self._clock.until(self._heap[0][0]), SHORTEST_SLEEP), LONGEST_SLEEP)
            self._timer = asyncio.get_running_loop().call_later(wait, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            deadline, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                del self._deadlines[key]
                self._due(key)
        self._arm()
