"""Whether a container's first process ends on SIGTERM, and how long its preStop takes, as far as a pod tells. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from forewarn import pid_one
from forewarn.admission.pod import mapping, sequence, string

if TYPE_CHECKING:
    from collections.abc import Mapping

_SLEEP = re.compile(r"(?:^|[\s;&|(/])sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?![\w.])")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def swallows_sigterm(container: Mapping[str, Any]) -> str | None:
    """Return how to mend a container whose PID 1 is sure to let SIGTERM pass by; ``None`` where it cannot be told.

    Only what the pod says is looked at: with no ``command`` the image's entry point runs, which it does not say.
    Raises ``Malformed``.
    """
    command = [string(word) for word in sequence(container.get("command"))]
    args = [string(word) for word in sequence(container.get("args"))]
    if not command:
        return None
    if (mend := pid_one.swallows_sigterm(command, args)) is not None:
        return mend
    words = [*command, *args]
    return f"write: bash -c '{pid_one.END_AT_TERM}; {' '.join(words)} & wait'" if pid_one.waits(words) else None


def length(container: Mapping[str, Any]) -> int:
    """Return the characters of a container's command line. Raises ``Malformed``."""
    return sum(len(string(word)) for field in ("command", "args") for word in sequence(container.get(field)))


def pre_stop_seconds(container: Mapping[str, Any]) -> float:
    """Return how long a container's preStop is sure to take: its sleep, or the sleeps in its command; else 0.

    Raises ``Malformed``.
    """
    hook = mapping(mapping(container.get("lifecycle")).get("preStop"))
    seconds = mapping(hook.get("sleep")).get("seconds")
    if isinstance(seconds, int):
        return float(min(seconds, 2**53))
    words = " ".join(string(word) for word in sequence(mapping(hook.get("exec")).get("command")))
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(words))
