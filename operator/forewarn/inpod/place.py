"""Whether a directory is a good place for checkpoints. Pure, but for ``look``."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

LOST_WITH_THE_POD = ("overlay", "aufs", "tmpfs", "ramfs")
EMPTY_DIR = "kubernetes.io~empty-dir"


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo: where, which part of its file system, and its type."""

    point: str
    root: str
    kind: str


def parse_mounts(text: str) -> list[Mount]:
    """Read /proc/self/mountinfo (proc_pid_mountinfo(5)); lines that are none are left out."""
    mounts = []
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) >= 5 and kind:
            mounts.append(Mount(_unescape(fields[4]), _unescape(fields[3]), kind[0]))
    return mounts


def _unescape(text: str) -> str:
    for octal in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(octal, chr(int(octal[1:], 8)))
    return text


def mount_of(path: str, mounts: list[Mount]) -> Mount | None:
    """Return the mount that holds an absolute path: the longest, of equal ones the last."""
    holding = [mount for mount in mounts if path == mount.point or path.startswith(mount.point.rstrip("/") + "/")]
    # max() keeps the first of equals, and what was mounted last over a point is what one sees there.
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


def concerns(path: str, mount: Mount | None, mode: int, group: int, own_groups: tuple[int, ...]) -> list[str]:
    """Return what to warn about: a place that is lost with the pod, or that others can write.

    ``mode``, ``group``: the directory's; ``own_groups``: this process's groups, its primary one first.
    """
    found = []
    if mount is not None and (mount.kind in LOST_WITH_THE_POD or EMPTY_DIR in mount.root):
        what = "an emptyDir" if EMPTY_DIR in mount.root else f"on {mount.kind}, not on a mounted volume"
        found.append(f"{path} is {what}: checkpoints there are lost with the pod; use your home directory")
    shared_group = mode & stat.S_IWGRP and own_groups and group != own_groups[0]
    if mode & stat.S_IWOTH or shared_group:
        found.append(f"{path} can be written by others (a course share?): its quota and its files are not yours alone")
    return found


def look(directory: str) -> list[str]:
    """Return the concerns about an existing directory; nothing where the system does not tell."""
    path = os.path.realpath(directory)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mount = mount_of(path, parse_mounts(file.read()))
        facts = os.stat(path)
    except OSError:
        return []
    return concerns(path, mount, facts.st_mode, facts.st_gid, (os.getegid(), *os.getgroups()))
