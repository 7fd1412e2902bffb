"""Calls back when the session is warned, the warning changes or is withdrawn, or the guarantee ends."""

from __future__ import annotations

import enum
import logging
import math
import os
import select
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Callable

from forewarn.contract import UTC
from forewarn.inpod import inotify, place
from forewarn.inpod.reader import PodInfo
from forewarn.session import Facts, Guarantee, guarantee_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

log = logging.getLogger("forewarn")

POLL_SECONDS = 20.0
"""Between two looks where nothing tells of a change; also beside inotify, since a look costs a microsecond."""


LONGEST_SECONDS = 86400.0
"""The longest wait; the system's own limit is a number of milliseconds that fits 31 bits."""


class Change(enum.Enum):
    """What happened to a session between two looks."""

    WARNED = "warned"
    CHANGED = "changed"
    WITHDRAWN = "withdrawn"
    GUARANTEE_ENDED = "guarantee-ended"


def changes(before: Facts, then: datetime, after: Facts, now: datetime) -> tuple[Change, ...]:
    """Return what happened between two looks, at ``then`` and ``now`` (aware). The first look follows ``Facts()``."""
    found = []
    if after.warning_at is not None and before.warning_at is None:
        found.append(Change.WARNED)
    elif after.warning_at is None and before.warning_at is not None:
        found.append(Change.WITHDRAWN)
    elif _warning(before) != _warning(after):
        found.append(Change.CHANGED)
    over = Guarantee.OVERSTAY
    if guarantee_at(after, now) is over and guarantee_at(before, then) is not over:
        found.append(Change.GUARANTEE_ENDED)
    return tuple(found)


def _warning(facts: Facts) -> tuple[object, ...]:
    return (facts.warning_at, facts.warning_risk, facts.warning_message) if facts.warning_at else ()


class Watch:
    """A thread that looks and calls back; a context manager. ``close`` ends it."""

    def __init__(self, podinfo: PodInfo, callbacks: Mapping[Change, Callable[[Facts], object]], poll: float) -> None:
        self._podinfo, self._callbacks, self._poll = podinfo, dict(callbacks), poll
        self._read_end, self._write_end = os.pipe()
        # Held around the write and the closing of the pipe: its number may be another file's afterwards.
        self._pipe, self._closed = threading.Lock(), False
        self._facts, self._at = Facts(), datetime.now(UTC)
        self._thread = threading.Thread(target=self._run, name="forewarn-watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; no callback runs after this, unless it is called from one."""
        with self._pipe:
            # In a forked child there is no thread, and the pipe is the parent's.
            if not self._closed and self._thread.is_alive():
                self._closed = True
                os.write(self._write_end, b"x")
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        heard: int | None = None
        try:
            while True:
                # Opened before the look, so that nothing falls between the look and the wait.
                if heard is None and inotify.hears(self._kind()):
                    heard = inotify.open_on(self._podinfo.directory)
                self._look()
                ready = self._wait(heard)
                if self._read_end in ready:
                    return
                if heard in ready and heard is not None:
                    inotify.drain(heard)
                    if not os.path.isdir(self._podinfo.directory):
                        os.close(heard)
                        heard = None
        finally:
            if heard is not None:
                os.close(heard)
            with self._pipe:
                self._closed = True
                os.close(self._read_end)
                os.close(self._write_end)

    def _wait(self, heard: int | None) -> set[int]:
        # Not select: that refuses a descriptor above 1023, which a program with many open files has.
        poller = select.poll()
        for descriptor in (self._read_end, heard):
            if descriptor is not None:
                poller.register(descriptor, select.POLLIN)
        return {ready for ready, _ in poller.poll(math.ceil(1000 * min(self._pause(), LONGEST_SECONDS)))}

    def _kind(self) -> str | None:
        try:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
                mount = place.mount_of(os.path.realpath(self._podinfo.directory), place.parse_mounts(file.read()))
        except OSError:
            return None
        return mount.kind if mount else None

    def _pause(self) -> float:
        until = self._facts.guaranteed_until
        left = (until - datetime.now(UTC)).total_seconds() if until else 0.0
        return min(self._poll, left) if left > 0 else self._poll

    def _look(self) -> None:
        before, then = self._facts, self._at
        self._facts, self._at = self._podinfo.read(), datetime.now(UTC)
        for change in changes(before, then, self._facts, self._at):
            callback = self._callbacks.get(change)
            if callback is None:
                continue
            try:
                callback(self._facts)
            except Exception:
                log.exception("forewarn: the callback for %r failed", change.value)


def watch(
    podinfo: PodInfo | None = None,
    *,
    warned: Callable[[Facts], object] | None = None,
    changed: Callable[[Facts], object] | None = None,
    withdrawn: Callable[[Facts], object] | None = None,
    guarantee_ended: Callable[[Facts], object] | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> Watch:
    """Call back, in a thread of its own, with the facts of each change; what is so already is told first.

    By inotify where it hears of every change, else (NFS, FUSE, macOS) by a look every ``poll_seconds``. A callback
    should set a flag or write a line: what it raises is logged. A training loop needs no watch; ``Loop`` looks itself.
    """
    given = {
        Change.WARNED: warned,
        Change.CHANGED: changed,
        Change.WITHDRAWN: withdrawn,
        Change.GUARANTEE_ENDED: guarantee_ended,
    }
    callbacks = {change: callback for change, callback in given.items() if callback is not None}
    return Watch(podinfo or PodInfo(), callbacks, poll_seconds)
