"""Heeds the warning at each step of a loop: looks, saves into a store, says when to stop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Callable

from forewarn import contract
from forewarn.inpod import durable
from forewarn.inpod.background import BackgroundSaver
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.heed import Heed
from forewarn.inpod.store import whole_step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from forewarn.inpod.layout import Checkpoint
    from forewarn.inpod.log import InterruptionLog
    from forewarn.inpod.store import CheckpointStore, Restored, Saving

log = logging.getLogger("forewarn")

State = Callable[[], Any]


def write_state(saving: Saving, state: State) -> None:
    """Write what ``state`` returns; what it raises becomes the save's error, on all ranks together."""
    try:
        value = state()
    except Exception as error:
        saving.error = durable.foreign(error, "the state function")
    else:
        saving.write(value)


class Loop:
    """What a training or batch loop calls after each step. A context manager, entered in the main thread.

    ``background``: save in a thread. ``interruptions``: where to write a line for each cue, stop and resume.
    ``write``: what writes a save, instead of the store's serializer. The other ``options``:

    ``podinfo``, ``schedule``: a ``PodInfo`` and a ``SaveSchedule`` other than the default ones. ``policy``: when a
    warning asks for its save. ``stop_on_warning`` (true): stop once a warning is near and the state is saved, as a
    batch job should; else only SIGTERM stops. ``every``, ``seconds``: how often the ranks agree (see ``Agreement``);
    with several ranks, ``step`` is called by all of them, equally often. ``environ``, ``now``, ``tick``: this
    process's environment, and clocks that return an aware datetime and monotonic seconds.

    A save that fails for want of storage is logged and the loop goes on, but for the last one, in ``finish``; any other
    failure is raised.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        background: bool = False,
        interruptions: InterruptionLog | None = None,
        write: Callable[[Saving, State], None] = write_state,
        **options: Any,
    ) -> None:
        if not hasattr(store, "ranks") or not hasattr(store, "begin"):
            raise TypeError(f"store must be a CheckpointStore, as in Loop(CheckpointStore({store!r}))")
        if interruptions is not None and not hasattr(interruptions, "write"):
            raise TypeError(f"interruptions must be a log, as in InterruptionLog({interruptions!r})")
        self.store = store
        self.heed = Heed(store.ranks, **options)
        self.last: Checkpoint | None = None
        """The newest checkpoint that is complete."""
        self.stopped = False
        self._saver = BackgroundSaver(store) if background else None
        self._interruptions = interruptions if store.ranks.rank == 0 else None
        self._write = write
        # Counted, since a step's number may come again in each epoch.
        self._call = 0
        self._saved_call: int | None = None
        self._at: tuple[int, int | None] | None = None
        self._failing = False
        self._blocked: float | None = None
        self._entered = False

    def __enter__(self) -> Loop:
        self.heed.__enter__()
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # With several ranks, one that failed must not wait for the others to take a save in.
            if error is None or self.store.ranks.size == 1:
                self._take_in()
        except CheckpointError as failure:
            if error is None:
                raise
            log.error("forewarn: %s", failure)
        finally:
            self.heed.__exit__(kind, error, trace)

    @property
    def exit_code(self) -> int:
        """75 where the loop was asked to stop and wants to be run again, else 0."""
        return contract.EXIT_STOPPED if self.stopped else 0

    def resume(self, *, allow_other_config: bool = False) -> Restored | None:
        """Restore the newest checkpoint that can be loaded; as ``CheckpointStore.restore``."""
        # An earlier handler may raise, which would look like a checkpoint that cannot be loaded.
        with self.heed.signal.shielded():
            restored = self.store.restore(allow_other_config=allow_other_config)
        if restored is not None:
            self.resumed(restored.checkpoint)
        return restored

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Note that the run goes on from a checkpoint which something else has loaded."""
        self.last = checkpoint
        self._begin(checkpoint.step, checkpoint.manifest.epoch)
        self._saved_call = self._call
        self._note(checkpoint.step, checkpoint.manifest.epoch, "resumed", logging.INFO)

    def step(
        self, step: int, state: State, *, epoch: int | None = None, metrics: Mapping[str, float] | None = None
    ) -> bool:
        """Save if it is time to, and return whether to stop now; to be called after step ``step`` is done.

        ``state``: called only for a save. Steps may be counted anew in each epoch: each call is one of its own. Call it
        in warm-up and evaluation too, with the step that is done: what is not looked at is not heeded. Raises
        ``CheckpointError``; ``TypeError`` and ``ValueError``, in the first step already, for what no save could use.
        """
        step = whole_step(step)
        if not callable(state):
            raise TypeError("state must be a function that returns the state, such as lambda: state")
        if not self._entered:
            self._entered = True
            log.warning("forewarn: SIGTERM is not heeded: the loop is to be used as 'with Loop(store) as loop'")
        self._begin(step, epoch)
        saver = self._saver
        look = self.heed.look(busy=saver is not None and not saver.written())
        if look is None:
            return False
        if not look.busy:
            self._take_in()
        wanted = look.stop and (look.terminated or not self._failing)
        if look.terminated and wanted:
            self._plan()
        if look.due or look.fired or wanted:
            self._save(step, state, epoch, metrics, in_background=not look.stop)
        if look.stop and saver is not None and saver.outstanding:
            self._take_in()
            self._save(step, state, epoch, metrics, in_background=False)
        # Without its checkpoint a warned loop goes on: the warning may be withdrawn, and a stop would lose the work.
        self.stopped = look.terminated or (look.stop and self._saved_call == self._call)
        if look.fired or self.stopped:
            self._note(step, epoch, f"{look.why}; {'stopping' if self.stopped else 'going on'}")
        return self.stopped

    def finish(
        self, step: int, state: State, *, epoch: int | None = None, metrics: Mapping[str, float] | None = None
    ) -> None:
        """Save the end of the run, unless the last call of ``step`` was this step's and saved it.

        Raises ``CheckpointError`` for want of storage too: the run must not pass for done without its result.
        """
        step = whole_step(step)
        if self._at is None or self._at[0] != step or epoch not in (None, self._at[1]):
            self._begin(step, epoch)
        self._take_in()
        failure = self._save(step, state, epoch, metrics, in_background=False)
        if failure is not None:
            raise failure

    def _begin(self, step: int, epoch: int | None) -> None:
        self._call += 1
        self._at = (step, epoch)

    def _plan(self) -> None:
        """Say it where the last save will probably not fit between SIGTERM and SIGKILL; it is tried all the same."""
        cost, grace = self.heed.schedule.cost, self.heed.grace
        if cost is not None and cost > grace and self.store.ranks.rank == 0:
            log.warning("forewarn: a save takes %.0f s, and SIGKILL follows SIGTERM after %.0f s", cost, grace)

    def _save(
        self, step: int, state: State, epoch: int | None, metrics: Mapping[str, float] | None, *, in_background: bool
    ) -> CheckpointError | None:
        """Save unless this call has; returns the error that is logged."""
        if self._saved_call == self._call:
            return None
        begun = self.heed.tick()
        self.heed.schedule.restart(begun)
        self._take_in()
        try:
            with self.heed.signal.shielded():
                if self._saver is not None and in_background:
                    self._saver.save(step, state, epoch=epoch, metrics=metrics)
                    self._blocked = self.heed.tick() - begun
                else:
                    self._blocked = None
                    saving = self.store.begin(step, epoch=epoch, metrics=metrics)
                    self._write(saving, state)
                    self._saved(saving.publish())
        except CheckpointError as error:
            self._failed(error)
            return error
        self._saved_call = self._call
        return None

    def _saved(self, checkpoint: Checkpoint) -> None:
        self.last, self._failing = checkpoint, False
        cost = checkpoint.manifest.cost
        self.heed.schedule.saved(self.heed.tick(), cost if self._blocked is None else self._blocked, cost)
        log.info("forewarn: saved %s in %.2f s", checkpoint.path, cost)

    def _failed(self, error: CheckpointError) -> None:
        self._saved_call = None
        self.heed.schedule.restart(self.heed.tick())
        if error.errno is None:
            raise error
        self._failing = True
        log.error("forewarn: %s", error)

    def _take_in(self) -> None:
        """Wait for the save in the background, if there is one, and note it; collective."""
        if self._saver is None or not self._saver.outstanding:
            return
        try:
            with self.heed.signal.shielded():
                checkpoint = self._saver.wait()
            if checkpoint is not None:
                self._saved(checkpoint)
        except CheckpointError as error:
            self._failed(error)

    def _note(self, step: int, epoch: int | None, why: str, level: int = logging.WARNING) -> None:
        warned = self.heed.podinfo.read().warned
        if self.store.ranks.rank == 0:
            log.log(level, "forewarn: step %d, %s", step, why)
        if self._interruptions is None:
            return
        last, cost = self.last.path if self.last else None, self.heed.schedule.cost
        try:
            self._interruptions.write(
                self.heed.now(), step=step, epoch=epoch, checkpoint=last, warned=warned, cost=cost, why=why
            )
        except OSError as error:
            log.error("forewarn: the interruption log could not be written: %s", error)
