"""Heeds the warning at each step of a loop: reads, agrees with the other ranks, saves, says when to stop."""

from __future__ import annotations

import logging
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod import signals
from forewarn.inpod.background import BackgroundSaver
from forewarn.inpod.cues import Cue, container_start, instants, runtime_limit
from forewarn.inpod.decisions import Episode, Policy, stop_asked
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.ranks import Agreement
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.session import Guarantee, guarantee_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from forewarn.inpod.layout import Checkpoint
    from forewarn.inpod.log import InterruptionLog
    from forewarn.inpod.store import CheckpointStore, Restored

log = logging.getLogger("forewarn")

CUES = tuple(Cue)


def utc_now() -> datetime:
    """Return this machine's time, aware."""
    return datetime.now(UTC)


class Loop:
    """What a training or batch loop calls after each step. A context manager, entered in the main thread.

    ``stop_on_warning``: stop once a warning is near and the state is saved, as a batch job should; else only SIGTERM
    stops. ``policy``: when a warning asks for its save. ``background``: save in a thread. ``every``, ``seconds``: how
    often the ranks agree (see ``Agreement``); with several ranks, ``step`` is called by all of them, equally often.
    A save that fails for want of storage is logged and the loop goes on; any other failure is raised.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        podinfo: PodInfo | None = None,
        schedule: SaveSchedule | None = None,
        policy: Policy = Policy.AT_LEAD,
        stop_on_warning: bool = True,
        background: bool = False,
        interruptions: InterruptionLog | None = None,
        every: int = 1,
        seconds: float | None = None,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], datetime] = utc_now,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.podinfo = podinfo or PodInfo()
        self.schedule = schedule or SaveSchedule()
        self.signal = signals.StopSignal()
        self.last: Checkpoint | None = None
        """The newest checkpoint that is complete."""
        self.stopped = False
        self._stop_on_warning = stop_on_warning
        self._episode = Episode(policy)
        self._agreement = Agreement(store.ranks, every, seconds)
        self._saver = BackgroundSaver(store) if background else None
        self._interruptions = interruptions if store.ranks.rank == 0 else None
        self._environ, self._now, self._tick = environ, now, tick
        self._started = container_start(self.podinfo.directory)
        self._saved_step: int | None = None
        self._failing = False
        self._blocked: float | None = None

    def __enter__(self) -> Loop:
        self.signal.__enter__()
        plan = signals.planned_with(self._environ)
        if plan and self.store.ranks.rank == 0:
            log.warning("forewarn: %s", plan)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # With several ranks, one that failed must not wait for the others to take a save in.
            if self._saver is not None and (error is None or self.store.ranks.size == 1):
                self._take_in(self._saver)
        except CheckpointError as failure:
            if error is None:
                raise
            log.error("forewarn: %s", failure)
        finally:
            self.signal.__exit__(kind, error, trace)

    @property
    def exit_code(self) -> int:
        """75 where the loop was asked to stop and wants to be run again, else 0."""
        return contract.EXIT_STOPPED if self.stopped else 0

    def resume(self, *, allow_other_config: bool = False) -> Restored | None:
        """Restore the newest checkpoint that can be loaded; as ``CheckpointStore.restore``."""
        restored = self.store.restore(allow_other_config=allow_other_config)
        if restored is not None:
            self.resumed(restored.checkpoint)
        return restored

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Note that the run goes on from a checkpoint which something else has loaded."""
        self.last, self._saved_step = checkpoint, checkpoint.step
        self._note(checkpoint.step, checkpoint.manifest.epoch, "resumed")

    def step(
        self,
        step: int,
        state: Callable[[], Any],
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> bool:
        """Save if it is time to, and return whether to stop now; to be called after step ``step`` is done.

        ``state``: called only for a save. Call it in warm-up and evaluation too, with the step that is done: what is
        not looked at is not heeded. Raises ``CheckpointError``.
        """
        now, tick = self._now(), self._tick()
        facts = self.podinfo.read()
        cues = instants(facts, runtime_limit(self._environ, facts, self._started))
        near = self._episode.near(cues, self.schedule.lead, now)
        overstay = guarantee_at(facts, now) is Guarantee.OVERSTAY
        saver = self._saver
        agreed = self._agreement.exchange(
            [
                *(cue in near for cue in CUES),
                self.schedule.due(tick, overstay),
                bool(self.signal),
                saver is not None and not saver.written(),
            ],
            tick,
        )
        if agreed is None:
            return False
        *flags, due, terminated, writing = agreed
        near = frozenset(cue for cue, flag in zip(CUES, flags) if flag)
        fired = self._episode.fire(near)
        if saver is not None and saver.outstanding and not writing:
            self._take_in(saver)
        asked = terminated or (self._stop_on_warning and stop_asked(near))
        if due or fired or (asked and self._saved_step != step and (terminated or not self._failing)):
            self._save(step, state, epoch, metrics, in_background=not asked)
        if asked and saver is not None and saver.outstanding:
            self._take_in(saver)
            if self._saved_step != step:
                self._save(step, state, epoch, metrics, in_background=False)
        # Without its checkpoint a warned loop goes on: the warning may be withdrawn, and a stop would lose the work.
        self.stopped = terminated or (asked and self._saved_step == step)
        if fired or self.stopped:
            why = ", ".join([*(cue.value for cue in CUES if cue in fired), *(["SIGTERM"] if terminated else [])])
            self._note(step, epoch, f"{why or 'warned'}; {'stopping' if self.stopped else 'going on'}")
        return self.stopped

    def finish(
        self,
        step: int,
        state: Callable[[], Any],
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Save the end of the run, unless this step is saved, and wait for what is outstanding."""
        if self._saver is not None:
            self._take_in(self._saver)
        if self._saved_step != step:
            self._save(step, state, epoch, metrics, in_background=False)

    def _save(
        self,
        step: int,
        state: Callable[[], Any],
        epoch: int | None,
        metrics: Mapping[str, float] | None,
        *,
        in_background: bool,
    ) -> None:
        if self._saved_step == step:
            return
        begun = self._tick()
        self.schedule.restart(begun)
        try:
            with self.signal.shielded():
                if self._saver is not None and in_background:
                    self._take_in(self._saver)
                    self._saver.save(step, state(), epoch=epoch, metrics=metrics)
                    self._saved_step = step
                    self._blocked = self._tick() - begun
                else:
                    if self._saver is not None:
                        self._take_in(self._saver)
                    self._blocked = None
                    self._saved(self.store.save(step, state(), epoch=epoch, metrics=metrics))
        except CheckpointError as error:
            self._failed(error)

    def _saved(self, checkpoint: Checkpoint) -> None:
        self.last, self._saved_step, self._failing = checkpoint, checkpoint.step, False
        cost = checkpoint.manifest.cost
        self.schedule.saved(self._tick(), cost if self._blocked is None else self._blocked, cost)
        log.info("forewarn: saved %s in %.2f s", checkpoint.path, cost)

    def _failed(self, error: CheckpointError) -> None:
        self._saved_step = self.last.step if self.last else None
        self.schedule.restart(self._tick())
        if error.errno is None:
            raise error
        self._failing = True
        log.error("forewarn: %s", error)

    def _take_in(self, saver: BackgroundSaver) -> None:
        """Wait for the save in the background, if there is one, and note it; collective."""
        if not saver.outstanding:
            return
        try:
            with self.signal.shielded():
                checkpoint = saver.wait()
            if checkpoint is not None:
                self._saved(checkpoint)
        except CheckpointError as error:
            self._failed(error)

    def _note(self, step: int, epoch: int | None, why: str) -> None:
        warned = self.podinfo.read().warned
        last = self.last.path if self.last else None
        log.info("forewarn: step %d, %s", step, why)
        if self._interruptions is None:
            return
        try:
            self._interruptions.write(
                self._now(), step=step, epoch=epoch, checkpoint=last, warned=warned, cost=self.schedule.cost, why=why
            )
        except OSError as error:
            log.error("forewarn: the interruption log could not be written: %s", error)
