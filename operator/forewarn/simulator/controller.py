"""The simulated controller: from a scenario, what is known and the time to the actions that are due. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from forewarn.simulator import model
from forewarn.simulator.checks import judge

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from forewarn.contract import Keys
    from forewarn.simulator.world import World


class Stage(Enum):
    """How far a step has come."""

    WAITING = "waiting"
    ACTING = "acting"
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """How far one step has come, since when, and what was seen last."""

    stage: Stage = Stage.WAITING
    begun: datetime | None = None
    held_since: datetime | None = None
    ended: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class State:
    """How far a scenario has come; ``start`` is when its clock began, which is when the prelude was done."""

    steps: tuple[Progress, ...]
    begun: datetime
    start: datetime | None = None

    @property
    def failed(self) -> bool:
        """Whether a step has failed."""
        return any(progress.stage is Stage.FAILED for progress in self.steps)

    @property
    def finished(self) -> bool:
        """Whether every step is done, or one has failed: the first failure ends a scenario."""
        return self.failed or all(progress.stage is Stage.DONE for progress in self.steps)


@dataclass(frozen=True)
class Decision:
    """What is to be done now (an index into the steps), the state after it, and when to look again at the latest."""

    state: State
    act: int | None = None
    wake: datetime | None = None


def begin(scenario: model.Scenario, now: datetime) -> State:
    """Return the state before anything was done."""
    return State(tuple(Progress() for _ in scenario.steps), now)


def decide(scenario: model.Scenario, state: State, world: World, now: datetime, keys: Keys) -> Decision:
    """Bring each step as far as it can come at ``now``; stops at the first one whose action must be done.

    A step begins at its time on the scenario's clock, whatever is still open, or, without one, when the step before
    it is done; never before the step before it has begun. The caller does the action of ``act``, tells of it with
    ``acted``, and decides again.
    """
    wakes: list[datetime] = []
    for index, step in enumerate(scenario.steps):
        state = _started(scenario, state, now)
        progress = state.steps[index]
        if progress.stage is Stage.WAITING:
            due = _due(scenario, state, index)
            if due is None:
                break
            if due > now:
                wakes.append(due)
                break
            stage = Stage.ACTING if step.action else Stage.OPEN
            progress = Progress(stage, now)
            state = _with(state, index, progress)
            if stage is Stage.ACTING:
                return Decision(state, index)
        if progress.stage is Stage.OPEN:
            progress, wake = _look(step, progress, world, now, keys)
            state = _with(state, index, progress)
            if wake:
                wakes.append(wake)
    return Decision(state, None, min(wakes, default=None))


def acted(state: State, index: int, step: model.Step, now: datetime, failure: str | None = None) -> State:
    """Return the state after the action of a step was done, or failed."""
    begun = state.steps[index].begun
    if failure is not None:
        return _with(state, index, Progress(Stage.FAILED, begun, ended=now, detail=failure))
    if step.condition is None:
        return _with(state, index, Progress(Stage.DONE, begun, ended=now))
    return _with(state, index, Progress(Stage.OPEN, now))


def _with(state: State, index: int, progress: Progress) -> State:
    return replace(state, steps=(*state.steps[:index], progress, *state.steps[index + 1 :]))


def _started(scenario: model.Scenario, state: State, now: datetime) -> State:
    """Start the clock when the prelude is done."""
    if state.start is not None:
        return state
    prelude = [state.steps[index] for index, step in enumerate(scenario.steps) if step.prelude]
    return replace(state, start=now) if all(progress.stage is Stage.DONE for progress in prelude) else state


def _due(scenario: model.Scenario, state: State, index: int) -> datetime | None:
    """Return when a step may begin; ``None`` while that depends on what is not done yet."""
    step = scenario.steps[index]
    if step.prelude:
        return state.begun
    if state.start is None:
        return None
    if not step.at.after:
        return state.start + step.at.offset
    before = state.steps[index - 1] if index and not scenario.steps[index - 1].prelude else None
    if before is None:
        return state.start + step.at.offset
    return before.ended + step.at.offset if before.stage is Stage.DONE and before.ended else None


def _look(
    step: model.Step, progress: Progress, world: World, now: datetime, keys: Keys
) -> tuple[Progress, datetime | None]:
    """Judge an open step; returns how far it has come and when time alone may change that."""
    assert step.condition is not None  # noqa: S101  (a step without one is never open)
    begun = progress.begun or now
    verdict = judge(step.condition, world.pods[step.pod], now, keys)
    progress = replace(progress, detail=verdict.detail)
    if verdict.holds:
        since = progress.held_since or now
        if now >= since + step.hold:
            return replace(progress, stage=Stage.DONE, ended=now), None
        return replace(progress, held_since=since), since + step.hold
    if verdict.holds is None or progress.held_since is not None:
        return replace(progress, stage=Stage.FAILED, ended=now), None
    if isinstance(step.condition, model.WarningPast):
        return progress, verdict.again
    deadline = begun + step.within
    if now >= deadline:
        late = f"{verdict.detail} after {_seconds(step.within)}" if step.within else verdict.detail
        return replace(progress, stage=Stage.FAILED, ended=now, detail=late), None
    return progress, min(deadline, verdict.again or deadline)


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
