"""Linux's inotify on one directory, through the C library: tells at once that the kubelet swapped the files."""

from __future__ import annotations

import ctypes
import os

_CLOSE_WRITE, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x01000000
MASK = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "afs", "virtiofs")
"""File systems whose changes may be made by another machine, of which inotify hears nothing."""


def hears(kind: str | None) -> bool:
    """Whether inotify tells of all changes on a file system of this type."""
    return kind is not None and kind not in REMOTE and not kind.startswith("fuse")


def open_on(directory: str) -> int | None:
    """Return a descriptor that is readable after a change in the directory, or ``None`` where there is no inotify.

    The directory is watched, not a file in it: the kubelet replaces a link there, and the files behind it are new.
    """
    try:
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return None
    if descriptor < 0:
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(directory), MASK) < 0:
        os.close(descriptor)
        return None
    return descriptor


def drain(descriptor: int) -> None:
    """Read away what has happened."""
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except BlockingIOError:
        pass
