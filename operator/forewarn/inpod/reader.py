"""Reads /etc/podinfo as one consistent snapshot, and says cheaply whether a stop is near."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from forewarn import contract
from forewarn.inpod.quoted import read_map
from forewarn.session import Facts, read_values

if TYPE_CHECKING:
    from datetime import datetime

DATA_LINK = "..data"
"""The link behind which the kubelet swaps all files of a volume at once."""

LARGEST_FILE = 1 << 20
"""Bytes read of one file: all annotations of a pod together are at most 256 KiB, quoted at most four times that."""

SNAPSHOT_TRIES = 50
"""Swaps met in a row before a read settles for what it saw last; the kubelet needs seconds between two."""

_NAMES = contract.ANNOTATION_NAMES


class _Snapshot(NamedTuple):
    link: str | None
    facts: Facts
    nearest: float


_NOTHING = _Snapshot(None, Facts(), math.inf)


class PodInfo:
    """The podinfo volume of this pod. Nothing here raises on what the files hold, nor where there are none.

    ``directory``: where the files are; by default ``$PODINFO``, else ``/etc/podinfo``.
    ``prefix``: the controller's annotation prefix, of use only for the whole-map file; by default
    ``$FOREWARN_ANNOTATION_PREFIX``, else ``galends/``.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, prefix: str | None = None) -> None:
        self.directory = os.fspath(directory or os.environ.get(contract.PODINFO_VARIABLE) or contract.MOUNT_PATH)
        prefix = prefix or os.environ.get(contract.PREFIX_VARIABLE) or contract.DEFAULT_PREFIX
        self._keys = contract.Keys(prefix.rstrip("/") + "/")
        self._link = os.path.join(self.directory, DATA_LINK)
        self._snapshot = _NOTHING

    def read(self) -> Facts:
        """Return the annotations as typed values, all of one swap; ``None`` for what is missing or unreadable."""
        return self._current().facts

    def stop_expected(self, lead_seconds: float, now: datetime | None = None) -> bool:
        """Whether ``termination-warning-at`` or ``guaranteed-until`` is at most ``lead_seconds`` away, or past.

        ``now``: an aware datetime; by default this machine's clock. Meant for every step of a loop: files are opened
        only after the kubelet has swapped them, and otherwise one link is read. Raises ``ValueError`` for a naive
        ``now``.
        """
        if now is None:
            moment = time.time()
        elif now.tzinfo is None:
            raise ValueError("now must be an aware datetime, such as datetime.now(timezone.utc)")
        else:
            moment = now.timestamp()
        return self._current().nearest - moment <= lead_seconds

    def _current(self) -> _Snapshot:
        try:
            link = os.readlink(self._link)
        except OSError:
            return self._read_plain()
        snapshot = self._snapshot
        # The kubelet makes each data directory with mkdtemp, so an equal name is an equal content.
        return snapshot if link == snapshot.link else self._read_swapped(link)

    def _read_plain(self) -> _Snapshot:
        """Read a directory that no kubelet keeps: each time anew, since nothing tells of a change."""
        if not os.path.isdir(self.directory):
            return _NOTHING
        return self._snapshot_of(None, _read_files(self.directory)[0])

    def _read_swapped(self, link: str) -> _Snapshot:
        for _ in range(SNAPSHOT_TRIES):
            values, whole = _read_files(os.path.join(self.directory, link))
            try:
                after = os.readlink(self._link)
            except OSError:
                return self._read_plain()
            if after == link:
                # A file that could not be read for another reason than its absence is tried again next time.
                snapshot = self._snapshot_of(link if whole else None, values)
                self._snapshot = snapshot
                return snapshot
            link = after
        return self._snapshot

    def _snapshot_of(self, link: str | None, values: dict[str, str]) -> _Snapshot:
        whole_map = values.pop(contract.WHOLE_MAP_FILE, None)
        if whole_map is not None:
            annotations = read_map(whole_map)
            known = {name: annotations[key] for name in _NAMES if (key := self._keys.key(name)) in annotations}
            values = {**known, **values}
        facts = read_values(values)
        instants = [instant.timestamp() for instant in (facts.warning_at, facts.guaranteed_until) if instant]
        return _Snapshot(link, facts, min(instants, default=math.inf))


def _read_files(directory: str) -> tuple[dict[str, str], bool]:
    """Return the files that are there, by name, and whether each of the others is really absent."""
    values: dict[str, str] = {}
    certain = True
    for name in (*_NAMES, contract.WHOLE_MAP_FILE):
        try:
            with open(os.path.join(directory, name), "rb") as file:
                values[name] = file.read(LARGEST_FILE).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError:
            certain = False
    return values, certain
