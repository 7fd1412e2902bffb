"""SIGTERM as a flag that is read at the step boundary; nothing is saved inside a signal handler.

The flag is this process's alone. To a process that is forked meanwhile it is as if there were none: what handled
SIGTERM before acts there again, so that ``terminate()``, and multiprocessing at the interpreter's end, which waits for
what it has terminated, end it. Workers that are to outlive a SIGTERM to the whole group say so with ``KeepWorker``,
whose handler is the worker's own: it keeps them while the parent's loop lasts, and a SIGTERM after that ends them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from forewarn import contract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType, TracebackType

Handler = Union[Callable[[int, Optional["FrameType"]], Any], int, None]

TORCHRUN_GRACE_SECONDS = 30.0
"""torchrun sends SIGKILL this long after SIGTERM, whatever the pod's grace (fixed in its code up to 2.9 at least)."""
WORKER_SECONDS = 120.0


def grace_seconds(environ: Mapping[str, str]) -> float:
    """Return the seconds from SIGTERM to SIGKILL to plan a last save with: the pod's, or torchrun's."""
    return TORCHRUN_GRACE_SECONDS if under_torchrun(environ) else float(contract.GRACE_SECONDS)


def under_torchrun(environ: Mapping[str, str]) -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in environ


class StopSignal:
    """Becomes true with the first SIGTERM; handlers that were there before are called too.

    A context manager, entered in the main thread. Inside ``shielded`` nothing can tear a save: SIGTERM only counts,
    and a DataLoader's SIGCHLD handler, which raises when a worker died, waits until the save is done.
    """

    def __init__(self, signals: tuple[int, ...] = (signal.SIGTERM,)) -> None:
        self.signals = signals
        self.count = 0
        """How many have arrived."""
        self._before: dict[int, Handler] = {}
        self._depth = 0
        self._late: list[int] = []
        self._died: list[int] = []
        self._child: Handler = None
        self._pid = 0
        self._inside = False

    def __bool__(self) -> bool:
        return self.count > 0

    def __enter__(self) -> StopSignal:
        if self._inside:
            raise RuntimeError("it is entered already")
        if threading.current_thread() is threading.main_thread():
            self._pid, self._inside = os.getpid(), True
            self._before.clear()
            _entered.add(self)
            for number in self.signals:
                self._before[number] = signal.signal(number, self._handle)
            _own[0] = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inside:
            _own[0] = True
            self._put_back()
        # What was before is kept: one that was entered later may be left later, and puts our handler back.
        self._inside = False
        _entered.discard(self)

    def _put_back(self) -> None:
        for number, before in self._before.items():
            # Somebody who came later and chained to us stays in place.
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def _forked(self) -> None:
        """Be as if never entered, in a process that was forked meanwhile."""
        self._put_back()
        self._inside = False
        if self._depth and signal.getsignal(signal.SIGCHLD) == self._hold:
            signal.signal(signal.SIGCHLD, self._child)
        self._depth, self._late, self._died = 0, [], []

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._inside or os.getpid() != self._pid:
            # Put back by one that was left later, or called in a forked process by a handler that chained to us.
            if signal.getsignal(number) == self._handle:
                self._put_back()
                os.kill(os.getpid(), number)
            else:
                self._chain(number, frame)
            return
        self.count += 1
        if self._depth:
            self._late.append(number)
        else:
            self._chain(number, frame)

    def _chain(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number)
        if callable(before):
            before(number, frame)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Hold back earlier handlers, and those for SIGCHLD, until the block has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        child = signal.getsignal(signal.SIGCHLD)
        held = callable(child) and child != self._hold
        if held:
            self._child, self._died = child, []
            signal.signal(signal.SIGCHLD, self._hold)
        self._depth += 1
        try:
            yield
        finally:
            self._depth = max(0, self._depth - 1)
            died: list[int] = []
            if held:
                signal.signal(signal.SIGCHLD, child)
                died, self._died = self._died, []
            late, self._late = (self._late, []) if not self._depth else ([], self._late)
            for number in late:
                self._chain(number, None)
            if died and callable(child):
                child(signal.SIGCHLD, None)

    def _hold(self, number: int, _frame: FrameType | None) -> None:
        self._died.append(number)


_entered: weakref.WeakSet[StopSignal] = weakref.WeakSet()
_own = mmap.mmap(-1, 1)
"""One byte that forked processes share: whether the last ``StopSignal`` of this process was left."""
_parents: mmap.mmap | None = None
"""The parent's, in a process that was forked."""


class _Masks(threading.local):
    """The signals that were blocked in a thread before it forks."""

    before: set[int | signal.Signals] | None = None


_masks = _Masks()


def _before_fork() -> None:
    # A signal between the fork and Python's own work after it would be forgotten: it waits until ours is done.
    numbers = {number for entered in list(_entered) for number in entered.signals}
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers) if numbers else None


def _unblock() -> None:
    if _masks.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)
        _masks.before = None


def _after_fork() -> None:
    global _own, _parents
    _parents, _own = _own, mmap.mmap(-1, 1)
    for entered in list(_entered):
        entered._forked()
    _entered.clear()
    _unblock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_unblock, after_in_child=_after_fork)


class KeepWorker:
    """A ``worker_init_fn`` for a DataLoader whose workers outlive a SIGTERM to the whole process group.

    torchrun and a terminal signal every process; a worker that dies at once makes the step in progress raise, before
    the loop gets to its save. The worker goes on for ``seconds`` after the signal; its parent's end ends it sooner, and
    so does a SIGTERM after the parent has left its ``Loop`` (a worker that was spawned cannot tell).
    ``then``: the ``worker_init_fn`` that you had.
    """

    def __init__(self, then: Callable[[int], Any] | None = None, seconds: float = WORKER_SECONDS) -> None:
        self.then, self.seconds = then, seconds

    def __call__(self, worker: int) -> None:
        """Prepare this worker; torch calls it in the new process."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, self._later)
        if self.then is not None:
            self.then(worker)

    def _later(self, number: int, _frame: FrameType | None) -> None:
        if _parents is not None and _parents[0]:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif signal.getitimer(signal.ITIMER_REAL)[0] == 0.0:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)


def planned_with(environ: Mapping[str, str]) -> str | None:
    """Return the sentence to say once where SIGTERM leaves less than the pod's grace, else ``None``."""
    if not under_torchrun(environ):
        return None
    return (
        f"torchrun kills its workers {TORCHRUN_GRACE_SECONDS:.0f} s after SIGTERM, whatever the pod's grace: "
        "a save that takes longer must begin at the warning"
    )
