"""The controller's decisions and the verdicts on what was seen, on a clock that the tests move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.contract import Keys
from forewarn.simulator import controller, model
from forewarn.simulator.checks import grace_used, judge
from forewarn.simulator.controller import Stage
from forewarn.simulator.document import Place
from forewarn.simulator.model import At, EventCount, Exited, FileHolds, Grace, LogHas, Signalled, Started, WarningPast
from forewarn.simulator.world import (
    Did,
    Ended,
    EventSeen,
    FileRead,
    Happening,
    Logged,
    Placed,
    PodState,
    Runs,
    Vanished,
    Waits,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T0 = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)
KEYS = Keys()
AT = KEYS.key("termination-warning-at")


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def act(offset: float | None = None, wait: float = 0.0) -> model.Step:
    at = At(seconds(wait)) if offset is None else At(seconds(offset), after=False)
    return model.Step(Place("s.yaml", 1), "annotate", "p", action=model.Write(()), at=at)


def expect(condition: model.Condition, within: float = 10.0, hold: float = 0.0) -> model.Step:
    return model.Step(
        Place("s.yaml", 2),
        "expect",
        "p",
        condition=condition,
        within=seconds(within),
        hold=seconds(hold),
        expectation=True,
    )


CREATE = model.Step(
    Place("s.yaml", 0), "create", "p", action=model.Create(), condition=Started(), within=seconds(60), prelude=True
)
EVENT = EventSeen(T0, "p", "e1", "R", "Normal", "a note", "forewarn")


class Play:
    """Drives the controller with happenings at given times; actions take no time."""

    def __init__(self, *steps: model.Step) -> None:
        self.scenario = model.Scenario("s", "", (), steps)
        self.world = World()
        self.state = controller.begin(self.scenario, T0)
        self.acts: list[tuple[float, int]] = []
        self.wake: datetime | None = None

    def at(self, second: float, *happenings: Happening) -> Play:
        for happening in happenings:
            self.world.apply(happening)
        while True:
            decision = controller.decide(self.scenario, self.state, self.world, after(second), KEYS)
            self.state, self.wake = decision.state, decision.wake
            if decision.act is None:
                return self
            self.acts.append((second, decision.act))
            self.state = controller.acted(self.state, decision.act, self.scenario.steps[decision.act], after(second))

    @property
    def stages(self) -> list[Stage]:
        return [progress.stage for progress in self.state.steps]


def test_the_clock_starts_when_the_pods_run() -> None:
    play = Play(CREATE, act(5)).at(0)
    assert (play.acts, play.state.start) == ([(0, 0)], None)
    placed = Placed(after(3), "p", "p", "u", 600, ("m",), ())
    play.at(3, placed).at(7, Runs(after(7), "p", "m"))
    assert play.state.start == after(7)
    assert play.wake == after(12)
    assert play.at(11.9).acts == [(0, 0)]
    assert play.at(12).acts == [(0, 0), (12, 1)]


def test_a_step_without_a_time_follows_the_end_of_the_one_before() -> None:
    play = Play(expect(EventCount("R", 1, None)), act(wait=2)).at(0)
    assert play.acts == []
    assert play.at(4, EVENT).stages[0] is Stage.DONE
    assert play.at(5.9).acts == []
    assert play.at(6).acts == [(6, 1)]


def test_a_step_with_a_time_does_not_wait_for_what_is_still_open() -> None:
    play = Play(expect(EventCount("R", 1, None)), act(3)).at(0).at(3)
    assert play.acts == [(3, 1)]
    assert play.stages == [Stage.OPEN, Stage.DONE]
    assert not play.state.finished
    assert play.at(4, EVENT).state.finished


def test_a_step_never_overtakes_the_one_before() -> None:
    play = Play(expect(EventCount("R", 1, None)), act(wait=1), act(2)).at(0).at(5)
    assert play.acts == []
    assert play.at(6, EVENT).at(7).acts == [(7, 1), (7, 2)]


def test_an_expectation_fails_at_its_deadline_and_ends_the_scenario() -> None:
    play = Play(expect(EventCount("R", 1, None), within=10), act()).at(0)
    assert play.wake == after(10)
    assert play.at(9.9).stages == [Stage.OPEN, Stage.WAITING]
    assert play.at(10).stages == [Stage.FAILED, Stage.WAITING]
    assert play.state.finished
    assert play.state.steps[0].detail == "0 R of 1 or more after 10 s"


def test_what_came_in_time_counts_even_if_we_look_late() -> None:
    play = Play(expect(EventCount("R", 1, None), within=10)).at(0)
    assert play.at(30, EVENT).stages == [Stage.DONE]


def test_none_for_a_while_is_done_after_the_while() -> None:
    play = Play(expect(EventCount("R", 0, 0), hold=5)).at(0)
    assert (play.stages, play.wake) == ([Stage.OPEN], after(5))
    assert play.at(5).stages == [Stage.DONE]


def test_none_for_a_while_fails_at_once_when_one_comes() -> None:
    assert Play(expect(EventCount("R", 0, 0), hold=5)).at(0).at(2, EVENT).stages == [Stage.FAILED]


def test_a_state_that_must_last_fails_when_it_ends() -> None:
    play = Play(expect(FileHolds("f", "k", "x"), hold=5)).at(0, Placed(T0, "p", "p", "u", 1, ("m",), ("m",)))
    play.at(1, FileRead(after(1), "p", "m", "f", "x")).at(3, FileRead(after(3), "p", "m", "f", "y"))
    assert play.stages == [Stage.FAILED]


def test_a_pod_that_does_not_start_says_why() -> None:
    play = Play(CREATE).at(0, Waits(T0, "p", "container m: ImagePullBackOff")).at(60)
    assert play.stages == [Stage.FAILED]
    assert play.state.steps[0].detail == "it does not run: container m: ImagePullBackOff after 60 s"


def test_stale_waits_for_the_instant_however_far() -> None:
    play = Play(expect(WarningPast(seconds(2)), within=0))
    play.at(0, Did(T0, "p", "warn", ((AT, "2026-11-29T19:40:00Z"),)))
    assert play.wake == after(602)
    assert play.at(601).stages == [Stage.OPEN]
    assert play.at(602).stages == [Stage.DONE]


def test_a_failed_action_ends_the_scenario() -> None:
    play = Play(act(), act())
    decision = controller.decide(play.scenario, play.state, play.world, T0, KEYS)
    assert decision.act == 0
    state = controller.acted(decision.state, 0, play.scenario.steps[0], T0, "404")
    assert state.finished
    assert state.steps[0].detail == "404"


@given(
    st.lists(
        st.one_of(
            st.floats(0, 20).map(lambda wait: ("act", wait)),
            st.floats(0, 20).map(lambda arrives: ("expect", arrives)),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.floats(0, 200), max_size=30),
)
def test_every_step_is_done_once_in_order_and_never_early(plan: list[tuple[str, float]], looks: list[float]) -> None:
    steps = [
        act(wait=number) if kind == "act" else expect(EventCount(f"R{index}", 1, None), within=1000)
        for index, (kind, number) in enumerate(plan)
    ]
    arrivals = sorted((number, index) for index, (kind, number) in enumerate(plan) if kind == "expect")
    play = Play(*steps)
    # Looking more often than needed changes nothing but the moment; the wake-ups alone must suffice.
    now = 0.0
    for _ in range(1000):
        due = [EventSeen(T0, "p", f"e{index}", f"R{index}", "", "", "forewarn") for at, index in arrivals if at <= now]
        play.at(now, *due)
        if play.state.finished:
            break
        wake = [(play.wake - T0).total_seconds()] if play.wake else []
        now = min(look for look in [*looks, *wake, *(at for at, _ in arrivals)] if look > now)
    assert play.stages == [Stage.DONE] * len(steps)
    assert [index for _, index in play.acts] == [index for index, (kind, _) in enumerate(plan) if kind == "act"]
    for at, index in play.acts:
        before = play.state.steps[index - 1].ended if index else T0
        assert before
        assert after(at) >= before + steps[index].at.offset


def pod(*happenings: Happening) -> PodState:
    world = World()
    for happening in (Placed(T0, "p", "pod-1", "u", 600, ("a", "b"), ("a", "b")), *happenings):
        world.apply(happening)
    return world.pods["p"]


def deleted(at: float) -> Did:
    return Did(after(at), "p", "preempt")


@pytest.mark.parametrize(
    ("condition", "happenings", "holds", "detail"),
    [
        (Started(), [Runs(T0, "p", "a")], False, "it does not run"),
        (Started(), [Runs(T0, "p", "a"), Ended(T0, "p", "b", 0)], True, "its containers run"),
        (Started(), [Vanished(T0, "p")], None, "went away before it ran"),
        (FileHolds("f", "k"), [FileRead(T0, "p", "a", "f", "")], False, "f in container b: not seen yet"),
        (FileHolds("f", "k", container="a"), [FileRead(T0, "p", "a", "f", "")], True, "as expected"),
        (
            FileHolds("f", "k"),
            [Did(T0, "p", "warn", (("k", "x"),)), FileRead(T0, "p", "a", "f", "x"), FileRead(T0, "p", "b", "f", "y")],
            False,
            "f in b is 'y', not 'x'",
        ),
        (FileHolds("f", "k", contains="z", container="a"), [FileRead(T0, "p", "a", "f", "xyz")], True, "as expected"),
        (EventCount("R", 1, 1), [EVENT], True, "1 R of 1"),
        (EventCount("R", 1, 1, note="other"), [EVENT], False, "there are: R 'a note'"),
        (EventCount("R", 1, 1, type="Warning"), [EVENT], False, "0 R of 1"),
        (EventCount("R", 1, 1, source="kubelet"), [EVENT], False, "0 R of 1"),
        (EventCount("R", 1, 1), [EVENT, EventSeen(T0, "p", "e2", "R", "", "", "forewarn")], None, "2 R of 1"),
        (EventCount("R", 1, 1), [EVENT, EVENT], True, "1 R of 1"),
        (Signalled("TERM", seconds(5)), [deleted(0), Logged(after(3), "p", "a", "got TERM")], True, "3.0 s after"),
        (Signalled("TERM", seconds(5)), [deleted(0), Logged(after(6), "p", "a", "got TERM")], None, "6.0 s after"),
        (Signalled("TERM", seconds(5)), [Logged(T0, "p", "a", "TERM"), deleted(1)], False, "no log line after"),
        (Signalled("TERM", seconds(5), "b"), [deleted(0), Logged(T0, "p", "a", "TERM")], False, "no log line after"),
        (Exited(75), [Ended(T0, "p", "a", 75)], False, "b: still running"),
        (Exited(75), [Ended(T0, "p", "a", 75), Ended(T0, "p", "b", 75)], True, "ended with 75"),
        (Exited(75), [Ended(T0, "p", "a", 137, "Error")], None, "a with 137 (Error), not 75"),
        (Exited(75, "a"), [Vanished(T0, "p")], None, "nothing said how it ended"),
        (Grace(600), [], True, "a grace of 600 s"),
        (Grace(30), [], None, "a grace of 600 s, not 30 s"),
        (Grace(most=seconds(4)), [deleted(0)], False, "no delete and end"),
        (
            Grace(most=seconds(4)),
            [deleted(0), Ended(after(2), "p", "a", 0), Ended(after(3), "p", "b", 0)],
            True,
            "used 3.0 s",
        ),
        (
            Grace(least=seconds(4)),
            [deleted(0), Ended(after(2), "p", "a", 0), Ended(after(3), "p", "b", 0)],
            None,
            "used 3.0 s",
        ),
        (LogHas("unit 3"), [Logged(T0, "p", "a", "unit 3 done")], True, "a wrote 'unit 3 done'"),
        (LogHas("unit 3", "b"), [Logged(T0, "p", "a", "unit 3 done")], False, "no line with"),
    ],
)
def test_verdicts(condition: model.Condition, happenings: list[Happening], holds: bool | None, detail: str) -> None:
    verdict = judge(condition, pod(*happenings), T0, KEYS)
    assert verdict.holds is holds
    assert detail in verdict.detail


def test_the_kubelets_time_of_an_end_counts_where_it_is_plausible() -> None:
    late = Ended(after(9), "p", "a", 0, finished=after(4))
    skewed = Ended(after(9), "p", "a", 0, finished=after(4000))
    assert (late.when, skewed.when) == (after(5), after(9))


def test_the_grace_is_used_until_the_last_container_ends() -> None:
    one = pod(deleted(1), Ended(after(5), "p", "a", 0))
    assert grace_used(one) is None
    both = pod(deleted(1), Ended(after(5), "p", "a", 0), Ended(after(3), "p", "b", 0))
    assert grace_used(both) == 4.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Placed(T0, "p", "pod-1", "u", 600, ("a", "b"), ("a", "b")),
        lambda: Runs(T0, "p", "a"),
        lambda: Ended(T0, "p", "a", 0),
        lambda: EVENT,
        lambda: FileRead(T0, "p", "a", "f", "x"),
        lambda: Vanished(T0, "p"),
        lambda: Waits(T0, "p", "w"),
    ],
)
def test_what_is_seen_twice_is_no_news(make: Callable[[], Happening]) -> None:
    world = World()
    assert world.apply(make())
    assert not world.apply(make())
    assert len(world.history) == 1
