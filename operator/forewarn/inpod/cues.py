"""What may ask for a save: the instants of a session as cues. Pure, but for when this container started."""

from __future__ import annotations

import enum
import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.contract import UTC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.session import Facts


class Cue(enum.Enum):
    """A reason to save soon. Only ``WARNING`` is also a reason to stop: the others end nothing that is not free."""

    WARNING = "termination warning"
    GUARANTEE_END = "end of the guarantee"
    RUNTIME_LIMIT = "runtime limit"
    IDLE_CULL = "idle cull"


def instants(facts: Facts, runtime_limit_at: datetime | None = None) -> dict[Cue, datetime]:
    """Return the instant of each cue that the session has.

    The idle culler's deadline counts unless its status says that the GPU works again.
    """
    found = {
        Cue.WARNING: facts.warning_at,
        Cue.GUARANTEE_END: facts.guaranteed_until,
        Cue.RUNTIME_LIMIT: runtime_limit_at,
        Cue.IDLE_CULL: None if facts.idle_status == "ok" else facts.idle_cull_deadline,
    }
    return {cue: instant for cue, instant in found.items() if instant is not None}


def runtime_limit(environ: Mapping[str, str], facts: Facts, started: datetime) -> datetime | None:
    """Return when the runtime limit ends the pod, from ``FOREWARN_RUNTIME_LIMIT_SECONDS``, else the annotation.

    The annotation reaches a container only in the whole-map file.
    """
    seconds = contract.parse_whole(environ.get(contract.RUNTIME_LIMIT_VARIABLE)) or facts.runtime_limit_seconds
    return started + timedelta(seconds=seconds) if seconds else None


def container_start(podinfo: str, proc: str = "/proc", now: datetime | None = None) -> datetime:
    """Return about when this pod's clock started: the earliest that the container can know.

    ``activeDeadlineSeconds`` counts from before the image was pulled. The kubelet links the podinfo files before it
    starts a container, and never again, so where ``podinfo`` is the kubelet's, a link's own time comes first; else it
    is the start of process 1, else ``now``.
    """
    known = [now or datetime.now(UTC)]
    try:
        with open(f"{proc}/stat", encoding="ascii") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith("btime "))
        with open(f"{proc}/1/stat", encoding="ascii", errors="replace") as file:
            # The second field is the program's name in parentheses, which may hold blanks.
            ticks = int(file.read().rpartition(")")[2].split()[19])
        known.append(datetime.fromtimestamp(boot + ticks / os.sysconf("SC_CLK_TCK"), UTC))
    except (OSError, ValueError, StopIteration, IndexError):
        pass
    for name in contract.PODINFO_NAMES:
        path = os.path.join(podinfo, name)
        try:
            if os.readlink(path).startswith("..data/"):
                known.append(datetime.fromtimestamp(os.lstat(path).st_mtime, UTC))
        except OSError:
            continue
    return min(known)
