"""Looks at the cues once per step and agrees on them with the other ranks; decides nothing but what is due."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Callable

from forewarn.contract import UTC
from forewarn.inpod import signals
from forewarn.inpod.cues import Cue, container_start, instants, runtime_limit
from forewarn.inpod.decisions import Episode, Policy, stop_asked
from forewarn.inpod.ranks import Agreement, Ranks
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.session import Guarantee, guarantee_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

log = logging.getLogger("forewarn")

CUES = tuple(Cue)


def utc_now() -> datetime:
    """Return this machine's time, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Look:
    """What all ranks agreed on in one step.

    ``fired``: cues that ask for a save now. ``due``: the periodic save is. ``terminated``: SIGTERM has come.
    ``stop``: the loop should end once it is saved. ``busy``: a rank said that it is.
    """

    fired: frozenset[Cue]
    due: bool
    terminated: bool
    stop: bool
    busy: bool

    @property
    def why(self) -> str:
        """The reasons in words."""
        words = [cue.value for cue in CUES if cue in self.fired]
        return ", ".join([*words, *(["SIGTERM"] if self.terminated else [])]) or "warned"


class Heed:
    """Reads, schedules and agrees; ``Loop`` and the adapters save. A context manager, entered in the main thread.

    The arguments are those of ``Loop``.
    """

    def __init__(
        self,
        ranks: Ranks,
        *,
        podinfo: PodInfo | None = None,
        schedule: SaveSchedule | None = None,
        policy: Policy = Policy.AT_LEAD,
        stop_on_warning: bool = True,
        every: int = 1,
        seconds: float | None = None,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], datetime] = utc_now,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        if podinfo is not None and not hasattr(podinfo, "read"):
            raise TypeError(f"podinfo must be a PodInfo, as in PodInfo({podinfo!r})")
        if schedule is not None and not hasattr(schedule, "due"):
            raise TypeError(f"schedule must be a SaveSchedule, as in SaveSchedule({schedule!r})")
        for name, clock in (("now", now), ("tick", tick)):
            if not callable(clock):
                raise TypeError(f"{name} must be a function, not {clock!r}")
        self.podinfo = podinfo or PodInfo()
        self.schedule = schedule or SaveSchedule()
        self.signal = signals.StopSignal()
        self.now, self.tick = now, tick
        self.grace = signals.grace_seconds(environ)
        self.started = container_start(self.podinfo.directory)
        self._rank = ranks.rank
        self._stop_on_warning = stop_on_warning
        self._episode = Episode(Policy(policy))
        self._agreement = Agreement(ranks, every, seconds)
        self._environ = environ

    def __enter__(self) -> Heed:
        self.signal.__enter__()
        if threading.current_thread() is not threading.main_thread():
            log.warning("forewarn: SIGTERM is not heeded: only the main thread can, and this is another")
        plan = signals.planned_with(self._environ)
        if plan and self._rank == 0:
            log.warning("forewarn: %s", plan)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signal.__exit__(kind, error, trace)

    def look(self, busy: bool = False) -> Look | None:
        """Return what is due, or ``None`` in a step without an exchange. Collective: every rank, in every step."""
        now, tick = self.now(), self.tick()
        facts = self.podinfo.read()
        cues = instants(facts, runtime_limit(self._environ, facts, self.started))
        near = self._episode.near(cues, self.schedule.lead, now)
        due = self.schedule.due(tick, guarantee_at(facts, now) is Guarantee.OVERSTAY)
        agreed = self._agreement.exchange([*(cue in near for cue in CUES), due, bool(self.signal), busy], tick)
        if agreed is None:
            return None
        *flags, due, terminated, busy = agreed
        near = frozenset(cue for cue, flag in zip(CUES, flags) if flag)
        stop = terminated or (self._stop_on_warning and stop_asked(near))
        return Look(self._episode.fire(near), due, terminated, stop, busy)
