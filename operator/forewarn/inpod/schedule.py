"""How often to save when nothing is announced, from what a save costs. Pure: time comes as an argument."""

from __future__ import annotations

import math
import numbers
from typing import Any

OVERHEAD = 0.05
"""Share of the time that saves may take: an interval of 20 costs."""
FIRST_SECONDS = 60.0
"""When the first save is made while its cost is unknown: soon, since guesses of the cost are too low."""
SHORTEST_SECONDS = 10.0
"""No interval is shorter: a home on NFS serves others too."""
OVERSTAY_FACTOR = 0.5
"""Past ``guaranteed-until`` a stop may come at any time, so the interval is cut to this part."""
LEAD_MARGIN_SECONDS = 60.0
"""Added to the lead: the kubelet may show a warning that much later than the controller wrote it."""
MEASURED = 5
"""Costs remembered; the largest of them counts."""


def number(name: str, value: Any) -> float:
    """Return a value that must be a number (numpy's too); raises ``TypeError`` for anything else."""
    if type(value) is bool or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


class SaveSchedule:
    """Says when a periodic save is due, and how long before a stop to begin one.

    ``cost``: seconds of one save, if known; real saves replace it. ``mtbf``: mean seconds between interruptions that
    nobody announces; given, the interval is Young/Daly's ``sqrt(2 · cost · mtbf)``, else ``cost / overhead``.
    ``shortest``: seconds, 0 or more. Raises ``ValueError`` and ``TypeError``.
    """

    def __init__(
        self,
        cost: float | None = None,
        *,
        overhead: float = OVERHEAD,
        mtbf: float | None = None,
        shortest: float = SHORTEST_SECONDS,
    ) -> None:
        for name, value in (("cost", cost), ("overhead", overhead), ("mtbf", mtbf)):
            if not (value is None and name != "overhead") and not 0 < number(name, value) < math.inf:
                raise ValueError(f"{name} must be above 0, not {value!r}")
        if not 0 <= number("shortest", shortest) < math.inf:
            raise ValueError(f"shortest must be 0 or more, not {shortest!r}")
        self.overhead, self.mtbf, self.shortest = overhead, mtbf, shortest
        self._given = cost
        self._blocked: list[float] = []
        self._durable: list[float] = []
        self._since: float | None = None

    @property
    def cost(self) -> float | None:
        """Seconds until one save is durable: the largest of the last few measured, else what was given."""
        return max(self._durable, default=self._given)

    @property
    def lead(self) -> float:
        """Seconds before a stop at which to save: twice the cost and a minute."""
        return 2 * (self.cost or 0.0) + LEAD_MARGIN_SECONDS

    def interval(self, overstay: bool = False) -> float:
        """Return the seconds between two periodic saves; ``overstay``: the guarantee is over."""
        blocked = max(self._blocked, default=self._given)
        if blocked is None:
            return FIRST_SECONDS
        seconds = math.sqrt(2 * blocked * self.mtbf) if self.mtbf else blocked / self.overhead
        # A save that is still being written in the background is no reason to begin the next.
        return max(seconds * (OVERSTAY_FACTOR if overstay else 1.0), self.cost or 0.0, self.shortest)

    def due(self, now: float, overstay: bool = False) -> bool:
        """Whether a periodic save is due; ``now``: seconds of a monotonic clock, whose first value starts the wait."""
        if self._since is None:
            self._since = now
        return now - self._since >= self.interval(overstay)

    def saved(self, now: float, blocked: float, durable: float | None = None) -> None:
        """Note a save that held the loop for ``blocked`` seconds and was durable after ``durable`` (if later)."""
        self._since = now
        self._blocked = [*self._blocked, blocked][-MEASURED:]
        self._durable = [*self._durable, max(blocked, durable or 0.0)][-MEASURED:]

    def restart(self, now: float) -> None:
        """Begin a new interval: a save has begun, or failed and is not to be tried again at once."""
        self._since = now
