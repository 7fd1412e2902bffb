"""A Jupyter line magic that shows the state of the session: ``%load_ext forewarn.inpod.jupyter``, ``%forewarn``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from forewarn import wording
from forewarn.contract import UTC
from forewarn.inpod.reader import PodInfo
from forewarn.session import Guarantee, WarningState, guarantee_at, warning_state_at

if TYPE_CHECKING:
    from forewarn.session import Facts

STALE_AFTER = timedelta(seconds=60)

_STATES = {
    WarningState.NONE: "no warning",
    WarningState.QUEUED: "warned, but not to be stopped before the guarantee ends",
    WarningState.AT_RISK: "warned: may be stopped soon",
    WarningState.STALE: "warned, its time is past: may be stopped at any time",
}


def describe(facts: Facts, now: datetime) -> str:
    """Return the state of a session in a few lines, for a person."""
    lines = [_STATES[warning_state_at(facts, now, STALE_AFTER)]]
    if facts.warning_at is not None:
        at = f"{wording.utc(facts.warning_at)} ({wording.distance(facts.warning_at, now)})"
        lines.append(f"  earliest stop  {at}, {facts.band.value}")
        message = "".join(c if c.isprintable() else " " for c in facts.warning_message or "")
        lines += [f"  message        {message}"] if message else []
    if facts.guaranteed_until is not None:
        until = f"{wording.utc(facts.guaranteed_until)} ({wording.distance(facts.guaranteed_until, now)})"
        over = guarantee_at(facts, now) is Guarantee.OVERSTAY
        lines.append(f"  guarantee      {'ended' if over else 'until'} {until}")
    if facts.idle_status is not None or facts.idle_cull_deadline is not None:
        deadline = facts.idle_cull_deadline
        when = f", cull {wording.utc(deadline)} ({wording.distance(deadline, now)})" if deadline else ""
        lines.append(f"  GPU            {facts.idle_status or 'unknown'}{when}")
    return "\n".join(lines)


def show(_line: str = "") -> None:
    """Print the state; what ``%forewarn`` does."""
    print(describe(PodInfo().read(), datetime.now(UTC)))


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls this for ``%load_ext``."""
    shell.register_magic_function(show, "line", "forewarn")
