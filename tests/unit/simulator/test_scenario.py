"""Reading a scenario: what each verb makes, and where each mistake is."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn import cli, contract
from forewarn.contract import Keys
from forewarn.errors import UserError
from forewarn.simulator import command, model, scenario, verbs
from forewarn.simulator.scenario import Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
BAD = sorted((ROOT / "tests/cases/simulator/bad").glob("*.yaml"))
REASONS = ("TerminationWarning", "TerminationWarningWithdrawn")
POD = "pods:\n  train: {manifest: {apiVersion: v1, kind: Pod, spec: {containers: [{name: main, image: i}]}}}\n"


def read(tmp_path: Path, text: str, **surroundings: Any) -> model.Scenario:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return scenario.read(path, Surroundings(**{"render": command.render, **surroundings}))


def steps(tmp_path: Path, *lines: str, **surroundings: Any) -> tuple[model.Step, ...]:
    found = read(tmp_path, POD + "steps:\n" + "".join(f"  - {line}\n" for line in lines), **surroundings).steps
    return tuple(step for step in found if not step.prelude)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_mistake_is_one_line_with_its_place(path: Path) -> None:
    expected = path.read_text().partition("\n")[0].removeprefix("# ")
    with pytest.raises(UserError) as caught:
        scenario.read(path, Surroundings(command.render, reasons=REASONS))
    line = str(caught.value)
    assert line.startswith(str(path.parent))
    assert expected in line
    assert "\n" not in line


def test_every_example_of_the_table_is_a_step(tmp_path: Path) -> None:
    for verb in verbs.VERBS:
        before = [] if verb.name == "create" else ["warn: now"]
        assert steps(tmp_path, *before, verb.example)[-1].verb == verb.name


def test_the_table_of_the_docs_has_a_row_for_each_verb() -> None:
    assert len(verbs.markdown().splitlines()) == len(verbs.VERBS) + 2


def test_warn_writes_the_three_keys_under_the_prefix(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "warn: {at: now+15m, risk: 0.50}", keys=Keys("horae/"))
    assert isinstance(step.action, model.Write)
    at = model.Relative("now", timedelta(minutes=15))
    assert step.action.values == (
        ("horae/termination-warning-at", at),
        ("horae/termination-warning-risk", "0.50"),
        ("horae/termination-warning-message", model.MessageFor(at)),
    )


def test_withdraw_removes_the_three_keys(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "withdraw:")
    assert isinstance(step.action, model.Write)
    assert [value for _, value in step.action.values] == [None, None, None]


def test_queue_warns_at_the_guarantees_end(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "queue: now+1h")
    assert isinstance(step.action, model.Write)
    values = dict(step.action.values)
    assert values["galends/termination-warning-at"] == values["galends/guaranteed-until"]


def test_idle_keys_have_their_own_prefix_and_the_deadline_goes_away(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "idle: ok")
    assert step.action == model.Write((("dsmlp/idle-gpu-status", "ok"), ("dsmlp/idle-gpu-cull-deadline", None)))


def test_annotate_takes_names_keys_instants_and_removals(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "annotate: {reservation-kind: booking, example.org/a: now-1s, reservation-end: }")
    assert step.action == model.Write(
        (
            ("galends/reservation-kind", "booking"),
            ("example.org/a", model.Relative("now", timedelta(seconds=-1))),
            ("galends/reservation-end", None),
        )
    )


def test_scalars_keep_the_text_that_was_typed(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "annotate: {a/b: 0.50, a/c: no, a/d: 010, a/e: 2026-11-29}")
    assert isinstance(step.action, model.Write)
    assert [value for _, value in step.action.values] == ["0.50", "no", "010", "2026-11-29"]


def test_times(tmp_path: Path) -> None:
    found = steps(tmp_path, "{at: 1m30s, withdraw: }", "{at: +500ms, withdraw: }", "withdraw:")
    assert [step.at for step in found] == [
        model.At(timedelta(seconds=90), after=False),
        model.At(timedelta(milliseconds=500)),
        model.At(),
    ]


def test_pods_that_no_step_creates_are_created_before_the_start(tmp_path: Path) -> None:
    text = "pods:\n  a: {existing: }\n  b: {existing: c}\nsteps:\n  - {pod: a, withdraw: }\n  - {pod: b, create: }\n"
    found = read(tmp_path, text)
    assert [(step.verb, step.pod, step.prelude) for step in found.steps] == [
        ("create", "a", True),
        ("withdraw", "a", False),
        ("create", "b", False),
    ]


def test_expect_no_event_must_hold_for_a_while(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, "expect-no-event: {reason: X, for: 3s}")
    assert (step.condition, step.hold) == (model.EventCount("X", 0, 0), timedelta(seconds=3))


def test_a_name_and_an_image_are_filled_in(tmp_path: Path) -> None:
    text = "pods:\n  a: {manifest: {apiVersion: v1, kind: Pod, spec: {containers: [{name: m}]}}}\nsteps: [withdraw: ]\n"
    (pod,) = read(tmp_path, text, image="forewarn:dev").pods
    assert isinstance(pod, model.NewPod)
    assert pod.manifest["metadata"] == {"name": "a"}
    assert pod.manifest["spec"]["containers"][0]["image"] == "forewarn:dev"


def test_launch_flags_are_rendered_with_files_and_the_image(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def render(flags: list[str]) -> dict[str, Any]:
        seen.append(flags)
        return {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}

    (tmp_path / "loop.sh").write_text("echo hi\n")
    text = "pods:\n  a: {render: [-m, 4, --, bash, -c, {file: loop.sh}]}\nsteps: [withdraw: ]\n"
    read(tmp_path, text, render=render, image="forewarn:dev")
    read(tmp_path, text.replace("-m, 4", "-i, mine"), render=render, image="forewarn:dev")
    assert seen == [
        ["-i", "forewarn:dev", "-m", "4", "--", "bash", "-c", "echo hi\n"],
        ["-i", "mine", "--", "bash", "-c", "echo hi\n"],
    ]


def test_a_wrong_launch_flag_names_the_line(tmp_path: Path) -> None:
    def render(flags: list[str]) -> dict[str, Any]:
        raise UserError("-m", "64 is too much", "allowed: at most 32")

    with pytest.raises(UserError, match=r"s\.yaml:2: render: -m: 64 is too much; allowed: at most 32"):
        read(tmp_path, "pods:\n  a: {render: [-m, 64]}\nsteps: [withdraw: ]\n", render=render)


SHIPPED = [*(ROOT / "tests/e2e/scenarios").glob("*.yaml"), ROOT / "examples/demo/scenario.yaml"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_PROFILES", str(ROOT / "examples/demo/profiles"))
    assert scenario.read(path, command.surroundings(Keys(), "forewarn:dev")).about


def test_the_example_of_the_docs_reads(tmp_path: Path) -> None:
    text = (ROOT / "docs/simulate.md").read_text()
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "s.yaml"
    path.write_text(example)
    assert scenario.read(path, command.surroundings(Keys(), None)).about == "a warning comes and goes"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--help"], "--help: is for forewarn render alone; leave it out"),
        (["--plan", "p"], "--plan: is for forewarn render alone; leave it out"),
        (["-d"], "-d: is for forewarn render alone; leave it out"),
        (["--kind", "Job", "--", "x"], "forewarn render: makes a Job of these flags, not a pod; leave out --kind"),
        (
            ["--requeue", "-N", "a", "--completions=2", "--backoff-limit=1", "--", "x"],
            "forewarn render: makes a Job of these flags, not a pod; "
            "leave out --requeue, --completions, --backoff-limit",
        ),
        (["-m", "many"], "-m: 'many'"),
    ],
)
def test_launch_flags_that_make_no_pod_are_refused_by_name(flags: list[str], expected: str) -> None:
    with pytest.raises(UserError) as caught:
        command.render(flags)
    assert str(caught.value).startswith(expected)


def test_what_the_renderer_makes_is_what_forewarn_render_prints(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    flags = ["-m", "4", "-N", "train", "--", "echo", "\x7f\xe9 \u202e $(HOME)"]
    assert cli.main(["render", "-d", *flags]) == 0
    assert command.render(flags) == json.loads(capfdbinary.readouterr().out)


NOW = datetime(2026, 11, 29, 19, 30, 0, 700_000, tzinfo=UTC)


def test_relative_instants_are_resolved_when_written() -> None:
    start = NOW - timedelta(minutes=1)
    assert model.resolve(model.Relative("now", timedelta(minutes=15)), NOW, start) == "2026-11-29T19:45:00Z"
    assert model.resolve(model.Relative("start", timedelta(minutes=15)), NOW, start) == "2026-11-29T19:44:00Z"
    assert model.resolve(None, NOW, start) is None


def test_the_message_names_the_same_instant_as_the_key() -> None:
    at = model.Relative("now", timedelta(minutes=15))
    message = model.resolve(model.MessageFor(at), NOW, NOW)
    written = contract.parse_instant(model.resolve(at, NOW, NOW))
    assert message
    assert written
    assert f"{written.astimezone():%H:%M:%S}" in message


GOOD = """\
name: fuzz
pods:
  a: {manifest: {apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {initContainers: [{name: i, image: i}],
      containers: [{name: main, image: i, args: [x]}]}}}
  b: {existing: y}
  c: {render: [-m, 4, --, x]}
steps:
  - {pod: a, warn: {at: now+15m, risk: 0.33}}
  - {pod: a, at: 5s, expect-event: {reason: TerminationWarning, count: 1, for: 2s}}
  - {pod: b, annotate: {x.org/y: start+1m, guaranteed-until: }}
  - {pod: b, remove: [guaranteed-until]}
  - {run: [a, b]}
  - {pod: c, create: 5s}
  - {pod: c, preempt: }
cleanup:
  - {pod: a, withdraw: }
"""
VALUES: list[Any] = [
    None,
    [],
    {},
    5,
    0.5,
    "x",
    True,
    [None],
    [[]],
    {"a": None},
    {"a": {}},
    "now+1m",
    "",
    -1,
    {1: 2},
    [{"name": 5}],
]
TOKENS = ["null", "[]", "{}", "'x'", "-", ":", "\n", "&a ", "*a", "!!binary x", "!!set {}", "\t", "é", "\0"]
Path_ = tuple[Any, ...]


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


PLACES = list(places(yaml.safe_load(GOOD)))


def check_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    rendered = {"metadata": {"name": "r"}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    line = str(path)
    try:
        scenario.read(path, Surroundings(lambda flags: rendered))
    except UserError as error:
        line = str(error)
    assert "\n" not in line
    assert str(path.parent) in line


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), st.sampled_from(TOKENS) | st.text(max_size=5)),
        min_size=1,
        max_size=3,
    )
)
def test_whatever_is_typed_is_read_or_refused_in_one_line(tmp_path: Path, edits: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for start, length, inserted in edits:
        text = text[:start] + inserted + text[start + length :]
    check_text(tmp_path / "s.yaml", text)


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), min_size=1, max_size=3))
def test_any_value_anywhere_is_read_or_refused_in_one_line(tmp_path: Path, edits: list[tuple[Path_, Any]]) -> None:
    content = yaml.safe_load(GOOD)
    for place, value in edits:
        inside = content
        # A place that an earlier edit took away is passed over.
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = copy.deepcopy(value)
    check_text(tmp_path / "s.yaml", yaml.safe_dump(content, sort_keys=False))
