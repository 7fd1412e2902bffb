"""How an instant and a span of time are written for a person. Pure; standard library only, Python 3.9+."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.contract import UTC

if TYPE_CHECKING:
    from datetime import datetime


def span(seconds: float) -> str:
    """Write a length of time in its two coarsest units, e.g. ``45 s``, ``14 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = round(abs(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    big, small, names = (*divmod(minutes, 60), ("h", "min"))
    if big >= 48:
        big, small, names = (*divmod(round(minutes / 60), 24), ("d", "h"))
    return f"{big} {names[0]} {small} {names[1]}" if small else f"{big} {names[0]}"


def distance(instant: datetime, now: datetime) -> str:
    """Write how far ``instant`` is from ``now``: ``in 14 min``, ``3 min ago``, ``now`` (within half a second)."""
    seconds = (instant - now).total_seconds()
    if abs(seconds) < 0.5:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(seconds)} ago"


def utc(instant: datetime) -> str:
    """Write an aware instant as ``2026-11-29 19:30:00 UTC``."""
    return instant.astimezone(UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")
