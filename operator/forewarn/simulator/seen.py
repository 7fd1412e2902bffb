"""From Kubernetes objects and streams to happenings. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.simulator.world import Ended, EventSeen, FileRead, Happening, Logged, Placed, Runs, Stopping, Waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lightkube.models.core_v1 import ContainerStatus
    from lightkube.resources.core_v1 import Pod

SECOND = timedelta(seconds=1)

READER_SECONDS = 60
"""How long one reader lives. Closing an exec's stream does not end its process, so it must end by itself."""

SWAPPED = b"."
"""The reader's line behind the files of one swap."""

READER = f"""
seen=-; left={READER_SECONDS * 5}
while [ $left -gt 0 ]; do
  now=$(readlink "$1/..data")
  if [ "$now" != "$seen" ]; then
    seen=$now
    for file in "$1"/*; do
      if [ -f "$file" ]; then printf '%s ' "${{file##*/}}"; base64 < "$file" | tr -d '\\n'; echo; fi
    done
    echo .
  fi
  left=$((left - 1)); sleep 0.2
done
"""
"""Prints every file whenever the kubelet swapped them: ``NAME BASE64`` lines, then a dot. Any POSIX shell runs it."""


def read_line(line: bytes, at: datetime, pod: str, container: str) -> FileRead | None:
    """Return what a line of the reader says; ``None`` for the dot and for what is none of its lines."""
    name, _, encoded = line.partition(b" ")
    if name == SWAPPED or not name:
        return None
    try:
        text = base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
        return FileRead(at, pod, container, name.decode("utf-8", "replace"), text)
    except binascii.Error:
        return None


_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ?")


def log_line(line: str, received: datetime, pod: str, container: str) -> Logged:
    """Return a log line that the kubelet stamped; its stamp counts where it is plausible on our clock."""
    match = _STAMP.match(line)
    stamp = contract.parse_instant(match.group(1)) if match else None
    text = line[match.end() :] if match else line
    plausible = stamp is not None and timedelta() <= received - stamp < timedelta(seconds=10)
    return Logged(stamp if stamp and plausible else received, pod, container, text)


def clock_offset(sent: datetime, received: datetime, server: datetime) -> timedelta:
    """Return what our clock lacks against the server's, whose time is known in whole seconds.

    The server answered between ``sent`` and ``received``, in the second that began at ``server``. Zero where that fits
    as it is; else the least that makes it fit.
    """
    if received < server:
        return server - received
    if sent > server + SECOND:
        return server + SECOND - sent
    return timedelta()


def placed(pod: Pod, at: datetime, name: str) -> Placed:
    """Return what is known of a pod as soon as it exists."""
    spec, metadata = pod.spec, pod.metadata
    assert spec is not None  # noqa: S101  (the API server refuses a pod without one)
    assert metadata is not None  # noqa: S101
    grace = spec.terminationGracePeriodSeconds
    containers = tuple(container.name for container in spec.containers)
    mounting = tuple(
        container.name
        for container in spec.containers
        if any(mount.mountPath.rstrip("/") == contract.MOUNT_PATH for mount in container.volumeMounts or ())
    )
    return Placed(
        at, name, metadata.name or "", metadata.uid or "", 30 if grace is None else grace, containers, mounting
    )


def pod_happenings(pod: Pod, at: datetime, name: str) -> Iterator[Happening]:
    """Yield all that a pod's state says; what is known already says nothing new."""
    status, metadata = pod.status, pod.metadata
    if metadata is not None and metadata.deletionTimestamp is not None:
        yield Stopping(at, name, metadata.deletionGracePeriodSeconds or 0)
    if status is None:
        return
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            yield Waits(at, name, f"{condition.reason}: {condition.message}")
    statuses = (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))
    for container in statuses:
        yield from _container_happenings(container, at, name)


def _container_happenings(container: ContainerStatus, at: datetime, name: str) -> Iterator[Happening]:
    state = container.state
    if state is None:
        return
    if state.waiting is not None and state.waiting.reason not in (None, "ContainerCreating", "PodInitializing"):
        message = f": {state.waiting.message}" if state.waiting.message else ""
        yield Waits(at, name, f"container {container.name}: {state.waiting.reason}{message}")
    if state.running is not None:
        yield Runs(at, name, container.name)
    if state.terminated is not None:
        ended = state.terminated
        yield Ended(at, name, container.name, ended.exitCode, ended.reason or "", ended.finishedAt)


def event_seen(event: Mapping[str, Any], at: datetime, name: str) -> EventSeen:
    """Return what an Event says; one of the older kind has its component in another field."""
    source = event.get("reportingController") or (event.get("deprecatedSource") or {}).get("component") or ""
    return EventSeen(
        at,
        name,
        event["metadata"]["name"],
        event.get("reason") or "",
        event.get("type") or "",
        event.get("note") or "",
        source,
    )
