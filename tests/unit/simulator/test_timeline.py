"""The timeline: which observation belongs to which deed, and what the reader sees of it."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from lightkube.resources.core_v1 import Pod
from rich.console import Console

from forewarn.contract import Keys
from forewarn.simulator import checks, controller, model, report, seen, timeline
from forewarn.simulator.document import Place
from forewarn.simulator.preflight import needed_rights
from forewarn.simulator.runner import Played
from forewarn.simulator.world import (
    LOG_LINES,
    Blind,
    Did,
    Ended,
    EventSeen,
    FileRead,
    Happening,
    Logged,
    Placed,
    Runs,
    Stopping,
    Waits,
    World,
)

if TYPE_CHECKING:
    from pathlib import Path

T0 = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)
KEYS = Keys()
AT, RISK = KEYS.key("termination-warning-at"), KEYS.key("termination-warning-risk")
STEP = model.Step(Place("s.yaml", 3), "preempt", "p", action=model.Delete("Preempted", "why"))
SCENARIO = model.Scenario("s", "", (model.ExistingPod("p", Place("s.yaml", 1), "p"),), (STEP,))


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def event(at: float, name: str, reason: str) -> EventSeen:
    return EventSeen(after(at), "p", name, reason, "Normal", "note", "forewarn")


HISTORY: list[Happening] = [
    Did(T0, "p", "create"),
    Placed(T0, "p", "p", "u", 600, ("m",), ("m",)),
    FileRead(after(1), "p", "m", "termination-warning-at", ""),
    FileRead(after(1), "p", "m", "termination-warning-risk", ""),
    Did(after(10), "p", "warn", ((AT, "2026-11-29T19:45:00Z"), (RISK, "0.33"))),
    event(10.5, "e1", "TerminationWarning"),
    FileRead(after(11), "p", "m", "termination-warning-at", "2026-11-29T19:45:00Z"),
    FileRead(after(11.2), "p", "m", "termination-warning-risk", "0.33"),
    Did(after(20), "p", "withdraw", ((AT, None), (RISK, None))),
    event(20.1, "e2", "TerminationWarningWithdrawn"),
    EventSeen(after(20.2), "p", "k", "Pulled", "Normal", "", "kubelet"),
    Did(after(30), "p", "preempt"),
    Stopping(after(30.1), "p", 600),
    Logged(after(30.3), "p", "m", "SIGTERM came"),
    Ended(after(35), "p", "m", 75),
    event(36, "e3", "SessionStopping"),
]


def rows(*happenings: Happening) -> list[timeline.Row]:
    world = World()
    for happening in happenings:
        world.apply(happening)
    return timeline.rows(SCENARIO, world.history, KEYS)


def test_each_observation_stands_beside_its_deed() -> None:
    created, warned, withdrawn, preempted = rows(*HISTORY)
    assert created.events == ()
    assert (warned.did, warned.events[0].what) == ("warned: may stop from 19:45:00 (possible)", "TerminationWarning")
    assert warned.readable
    assert warned.readable.after == pytest.approx(1.2)
    assert [came.what for came in withdrawn.events] == ["TerminationWarningWithdrawn"]
    assert withdrawn.readable is None
    assert preempted.signal
    assert preempted.signal.after == pytest.approx(0.3)
    assert [(came.what, came.after) for came in preempted.exits] == [("75", 5.0)]
    assert [came.what for came in preempted.events] == ["SessionStopping"]


def test_a_file_counts_when_every_container_shows_it() -> None:
    (row,) = rows(
        Placed(T0, "p", "p", "u", 600, ("a", "b"), ("a", "b")),
        Did(T0, "p", "warn", ((AT, "x"),)),
        FileRead(after(1), "p", "a", "termination-warning-at", "x"),
        FileRead(after(2), "p", "b", "termination-warning-at", "x"),
    )[1:]
    assert row.readable
    assert row.readable.after == 2


def test_an_end_without_a_delete_is_a_row_of_its_own() -> None:
    found = rows(Did(T0, "p", "create"), Placed(T0, "p", "p", "u", 1, ("m",), ()), Ended(after(3), "p", "m", 75))
    assert [row.did for row in found] == ["created the pod", "nothing: the container ended by itself"]


def test_a_delete_by_somebody_else_is_seen() -> None:
    found = rows(
        Placed(T0, "p", "pod-1", "u", 1, ("m",), ()), Stopping(after(1), "p", 1), Ended(after(3), "p", "m", 143)
    )
    assert [row.did for row in found] == ["found pod pod-1", "somebody else deleted the pod"]
    assert found[1].exits[0].what == "143"


def test_what_cannot_be_seen_is_said_in_its_row() -> None:
    (row,) = rows(Did(T0, "p", "create"), Blind(T0, "p", "files of m", "no shell"))
    assert row.notes == ("files of m: no shell",)


def played(passed: bool, *happenings: Happening) -> Played:
    stage = controller.Stage.DONE if passed else controller.Stage.FAILED
    state = controller.State((controller.Progress(stage, T0, detail="why not"),), T0, T0)
    result = Played(SCENARIO, "team", state, World())
    for happening in happenings:
        result.world.apply(happening)
    return result


def shown(result: Played) -> str:
    out = io.StringIO()
    with report.Screen(out, io.StringIO(), KEYS) as screen:
        screen.end(result)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 124])
def test_a_narrow_terminal_loses_nothing(width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(report.table(played(True, *HISTORY), KEYS, width))
    lines = out.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    text = "".join("".join(lines).split())
    for expected in ("SIGTERM", "+0.3", "75", "+5.0", "+1.2"):
        assert expected in text
    assert "…" not in text


def test_the_table_tells_the_story() -> None:
    text = shown(played(True, *HISTORY))
    for expected in ("warned: may stop from 19:45:00", "TerminationWarning +0.5s", "+0.3s", "75 +5.0s"):
        assert expected in text
    assert text.splitlines()[-1] == "passed"
    assert max(len(line) for line in text.splitlines()) <= report.WIDTH


def test_what_failed_stands_in_the_last_lines() -> None:
    last = shown(played(False, *HISTORY)).splitlines()[-2:]
    assert last == ["FAILED: 0 of 0 expectations met, 0 steps not done", "  s.yaml:3: preempt: why not"]


def test_what_the_scenario_does_not_say_is_not_counted_among_its_steps() -> None:
    (step,) = SCENARIO.steps
    prelude = dataclasses.replace(step, prelude=True)
    scenario = dataclasses.replace(SCENARIO, steps=(prelude, prelude, step))
    stages = (controller.Stage.FAILED, controller.Stage.WAITING, controller.Stage.WAITING)
    state = controller.State(tuple(controller.Progress(stage) for stage in stages), T0, T0)
    lines = report.summary(Played(scenario, "team", state, World()))
    assert lines[0] == "FAILED: 0 of 0 expectations met, 1 step not done"


def test_square_brackets_of_a_log_are_no_markup() -> None:
    text = shown(played(True, *HISTORY, Logged(after(40), "p", "m", "[red]epoch[/] 3")))
    assert "[red]epoch[/] 3" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_newest_rows_and_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", str(report.HEAD_LINES + report.ROW_LINES))
    monkeypatch.setenv("TERM", "xterm")
    out, err = Terminal(), io.StringIO()
    open_step = controller.Progress(controller.Stage.OPEN, T0, detail="not yet")
    unfinished = played(True, *HISTORY)
    unfinished.state = controller.State((open_step,), T0, T0)
    with report.Screen(out, err, KEYS) as screen:
        screen.tell(unfinished, None)
        live = out.getvalue()
        screen.end(played(True, *HISTORY))
    assert "preempted" in live
    assert "withdrew" not in live
    assert "now: preempt — not yet" in live
    assert "withdrew" in out.getvalue().removeprefix(live)
    assert err.getvalue() == ""


def test_without_a_terminal_each_happening_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    unfinished = played(True)
    with report.Screen(io.StringIO(), err, KEYS) as screen:
        for happening in HISTORY:
            screen.tell(unfinished, happening)
    lines = err.getvalue().splitlines()
    assert lines[0] == "19:30:00 created the pod"
    assert "19:30:10 Event TerminationWarning: note" in lines
    assert "19:30:35 container m ended with 75" in lines
    assert not any("SIGTERM came" in line for line in lines)


def test_json_holds_the_rows_and_the_outcome_of_each_step() -> None:
    content = json.loads(report.as_json(played(True, *HISTORY), KEYS))
    assert content["passed"] is True
    assert content["rows"][1]["wrote"] == {AT: "2026-11-29T19:45:00Z", RISK: "0.33"}
    assert content["rows"][1]["readable_after_seconds"] == pytest.approx(1.2)
    assert content["steps"] == [
        {"place": "s.yaml:3", "verb": "preempt", "pod": "p", "outcome": "done", "detail": "why not", "ended": None}
    ]


def test_a_line_of_no_interest_is_no_news_and_only_the_last_are_kept() -> None:
    step = model.Step(Place("s.yaml", 3), "expect-log", "p", condition=model.LogHas("unit (3)"))
    wanted = checks.interest(model.Scenario("s", "", SCENARIO.pods, (step,)))
    world = World(wanted)
    for number in range(1000):
        assert not world.apply(Logged(T0, "p", "m", f"line {number}"))
    assert world.apply(Logged(T0, "p", "m", "unit (3) done"))
    assert world.apply(Logged(T0, "p", "m", "got SIGTERM"))
    assert len(world.history) == 2
    assert len(world.pods["p"].log) == LOG_LINES
    assert [line.text for line in world.pods["p"].noted] == ["unit (3) done", "got SIGTERM"]


# ── from Kubernetes to happenings ────────────────────────────────────────────────────────────────────────────────────
def test_the_reader_prints_each_swap_and_any_content(tmp_path: Path) -> None:
    for version, text in (("one", "first"), ("two", 'tab\t "quotes" \n second line')):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f").write_text(text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "f").symlink_to("..data/f")
    (tmp_path / "empty").touch()
    process = subprocess.Popen(["sh", "-c", seen.READER, "sh", str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout
    found: list[FileRead | None] = []
    try:
        for swap in ("two", None):
            while (line := process.stdout.readline().rstrip(b"\n")) != b".":
                found.append(seen.read_line(line, T0, "p", "m"))
            if swap:
                (tmp_path / "new").symlink_to(swap)
                (tmp_path / "new").rename(tmp_path / "..data")
    finally:
        process.kill()
        process.communicate()
    assert found == [
        FileRead(T0, "p", "m", "empty", ""),
        FileRead(T0, "p", "m", "f", "first"),
        FileRead(T0, "p", "m", "empty", ""),
        FileRead(T0, "p", "m", "f", 'tab\t "quotes" \n second line'),
    ]


@pytest.mark.parametrize("line", [b"", b".", b"sh: readlink: not found", b"f ???"])
def test_other_lines_of_the_reader_say_nothing(line: bytes) -> None:
    assert seen.read_line(line, T0, "p", "m") is None


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    found = seen.read_line(b"f " + base64.b64encode(b"\xff"), T0, "p", "m")
    assert found
    assert found.text == "\ufffd"


def test_a_log_lines_stamp_counts_where_it_is_plausible() -> None:
    received = after(60)
    assert seen.log_line("2026-11-29T19:30:59.123456789Z hi  there", received, "p", "m").at == after(59.123456)
    assert seen.log_line("2026-11-29T18:30:59Z hi", received, "p", "m").at == received
    assert seen.log_line("no stamp", received, "p", "m") == Logged(received, "p", "m", "no stamp")
    assert seen.log_line("2026-11-29T19:30:59Z ", received, "p", "m").text == ""


@pytest.mark.parametrize(
    ("sent", "received", "server", "offset"),
    [(0.2, 0.4, 0, 0), (0.9, 1.1, 0, 0), (0.9, 1.1, 1, 0), (10.5, 10.6, 300, 289.4), (10.5, 10.6, 0, -9.5)],
)
def test_only_a_certain_difference_of_clocks_is_taken_out(
    sent: float, received: float, server: float, offset: float
) -> None:
    found = seen.clock_offset(after(sent), after(received), after(server))
    assert found.total_seconds() == pytest.approx(offset)


def pod(**status: object) -> Pod:
    spec = {
        "containers": [
            {"name": "a", "volumeMounts": [{"name": "podinfo", "mountPath": "/etc/podinfo/"}]},
            {"name": "b"},
        ]
    }
    result = Pod.from_dict({"metadata": {"name": "p-1", "uid": "u"}, "spec": spec, "status": status})
    assert isinstance(result, Pod)
    return result


def test_what_is_known_of_a_pod_as_it_appears() -> None:
    assert seen.placed(pod(), T0, "p") == Placed(T0, "p", "p-1", "u", 30, ("a", "b"), ("a",))


def test_a_pods_state_as_happenings() -> None:
    found = pod(
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}],
        initContainerStatuses=[_status("i", {"terminated": {"exitCode": 0, "reason": "Completed"}})],
        containerStatuses=[
            _status("a", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            _status("b", {"running": {"startedAt": "2026-11-29T19:30:00Z"}}),
            _status("c", {"waiting": {"reason": "ContainerCreating"}}),
        ],
    )
    assert list(seen.pod_happenings(found, T0, "p")) == [
        Waits(T0, "p", "Unschedulable: no node"),
        Ended(T0, "p", "i", 0, "Completed"),
        Waits(T0, "p", "container a: ImagePullBackOff: no such image"),
        Runs(T0, "p", "b"),
    ]


def _status(name: str, state: dict[str, object]) -> dict[str, object]:
    return {"name": name, "state": state, "image": "i", "imageID": "", "ready": False, "restartCount": 0}


def test_an_older_event_has_its_component_elsewhere() -> None:
    found = {"metadata": {"name": "e"}, "reason": "R", "deprecatedSource": {"component": "kubelet"}}
    assert seen.event_seen(found, T0, "p").source == "kubelet"


def test_rights_are_those_that_the_steps_need() -> None:
    pods = ("list", "watch", "get", "patch", "delete")
    assert set(needed_rights(SCENARIO)) == {(verb, "pods") for verb in pods}
