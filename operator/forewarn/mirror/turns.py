"""When each write may begin, so that no second holds more than a settable number of them. Pure."""

from __future__ import annotations

from collections import deque


class Turns:
    """Turns at most ``rate`` a second (below one: one each ``1 / rate`` seconds), handed out in order.

    They are not spaced evenly: whoever was held up for a moment may catch up within the rate. Spaced, each moment's
    delay would last until the rate has spare time again.
    """

    def __init__(self, rate: float) -> None:
        self._last: deque[float] = deque(maxlen=max(int(rate), 1))
        self._window = max(1.0, 1.0 / rate)

    def take(self, now: float) -> float:
        """Take the next turn at the monotonic clock's ``now``; return the seconds until it begins."""
        full = len(self._last) == self._last.maxlen
        turn = max(self._last[0] + self._window, now) if full else now
        self._last.append(turn)
        return turn - now
