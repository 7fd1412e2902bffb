"""``forewarn check``: the verdict on a manifest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forewarn import cli
from forewarn.admission import audit, check_command, goyaml, review
from forewarn.admission.inject import NOTHING, InjectSettings, decide
from forewarn.admission.inject_command import inject_text
from tests.unit.admission import corpus, generated
from tests.unit.admission.test_review import ask, valid

SETTINGS = InjectSettings()
CONTAINERS = "{containers: [{name: a, image: b}]}"


def check(capsys: pytest.CaptureFixture[str], name: str, *flags: str) -> tuple[int, str]:
    code = cli.main(["check", "-f", str(corpus.FOLDER / f"{name}.yaml"), *flags])
    return code, capsys.readouterr().out


def test_a_complete_pod_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "complete") == (0, "Pod/complete: sees warnings, survives a stop\n")


def test_a_bare_pod_is_not_and_every_reason_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, "bare")
    assert code == 1
    assert out.splitlines() == [
        "Pod/bare: does NOT see warnings, does NOT survive a stop",
        "  no podinfo at /etc/podinfo in main: warnings cannot be read (mount)",
        "  the grace is 30 s (the default), below 600 s (grace)",
    ]


def test_each_verdict_names_its_file_where_several_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"kind: Pod\nmetadata: {{name: train}}\nspec: {CONTAINERS}\n")
    files = [str(tmp_path / f"{name}.yaml") for name in ("a", "b")]
    assert cli.main(["check", "-f", files[0], "-f", files[1]]) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert said == [f"{file}: Pod/train: does NOT see warnings, does NOT survive a stop" for file in files]


def test_a_path_that_names_no_pod_template_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ray.yaml"
    text = f"kind: RayCluster\nspec: {{head: {{template: {{spec: {CONTAINERS}}}}}}}\n"
    file.write_text(text)
    for command in ("check", "inject"):
        cli.main([command, "-f", str(file), "--pod-template", "spec.head.template"])
        assert "--pod-template" not in capsys.readouterr().err
        assert cli.main([command, "-f", str(file), "--pod-template", "spec.heads.template"]) == 0
        assert f"{file}: no document has a pod template at --pod-template\n" in capsys.readouterr().err
    assert inject_text("f", text, SETTINGS, ("spec", "heads", "template"))[0] == text


def test_inject_leaves_what_the_pod_selector_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(f"kind: Pod\nmetadata: {{labels: {{a: c}}}}\nspec: {CONTAINERS}\n")
    monkeypatch.setenv("FOREWARN_POD_SELECTOR", "a=b")
    assert cli.main(["inject", "-f", str(file)]) == 0
    assert capfd.readouterr().out == file.read_text()
    assert cli.main(["inject", "-f", str(file), "--pod-selector", "a=c"]) == 0
    assert "podinfo" in capfd.readouterr().out


@pytest.mark.parametrize(("spelled", "good"), [("600.0", True), ("6e2", True), ("30.0", False), ("1.5", False)])
def test_a_whole_number_with_a_point_is_whole_in_json_as_in_yaml(spelled: str, good: bool) -> None:
    pod = corpus.load("complete").pod
    pod["spec"]["terminationGracePeriodSeconds"] = "SPELLED"
    for text in (json.dumps(pod, indent=1), "# YAML\n" + json.dumps(pod)):
        (row,) = check_command.check_text("file", text.replace('"SPELLED"', spelled), SETTINGS)
        assert row.verdict.good is good
        assert ("unreadable" in [each.rule for each in row.verdict.findings]) is (spelled == "1.5")


@pytest.mark.parametrize("name", ["\u00e9\u4e2d", "a\ufffeb", "\ud800", "a\nb"])
def test_no_name_breaks_the_output_nor_its_lines(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    container = {"name": "main", "command": ["sleep", "infinity"]}
    file.write_text(json.dumps({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    for arguments, code in (
        (["check"], 1),
        (["check", "--format", "json"], 1),
        (["inject"], 0),
        (["inject", "--diff"], 0),
    ):
        argv = [sys.executable, "-m", "forewarn.cli", *arguments, "-f", str(file)]
        ran = subprocess.run(argv, capture_output=True, env=environment, timeout=60, check=False)
        assert (ran.returncode, ran.stderr.count(b"\n")) == (code, 0 if "json" in arguments else 1), ran.stderr
        if "json" in arguments:
            json.loads(ran.stdout)


def test_json_has_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, "sub-path", "--format", "json")
    (row,) = json.loads(out)
    assert code == 1
    assert (row["object"], row["session"], row["seesWarnings"]) == ("Pod/sub-path", True, False)
    assert [finding["rule"] for finding in row["findings"]] == ["sub-path", "grace"]


@pytest.mark.parametrize("name", ["opt-out", "daemon-set", "static-mirror"])
def test_what_is_no_session_is_no_reason_to_fail(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, name)
    assert code == 0
    assert "not a session" in out


@pytest.mark.parametrize("name", ["malformed", "no-containers", "containers-null"])
def test_what_cannot_run_is_not_good(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, name)
    assert code == 1
    assert "the pod cannot be read: " in out


UNREADABLE = [
    *(
        f"{{metadata: {{name: x, {field}}}, spec: {CONTAINERS}}}"
        for field in (
            "labels: 5",
            "labels: [a]",
            "annotations: 7",
            "annotations: [x]",
            "ownerReferences: {kind: DaemonSet}",
            "ownerReferences: [5]",
            "ownerReferences: [{kind: DaemonSet, apiVersion: 5}]",
        )
    ),
    f"{{metadata: text, spec: {CONTAINERS}}}",
    f"{{metadata: [1], spec: {CONTAINERS}}}",
    "{metadata: {name: x}, spec: 5}",
    "{metadata: {name: x}, spec: null}",
    "{metadata: {name: x}}",
    "{metadata: {name: x}, spec: []}",
    "{metadata: {name: x}, spec: {containers: [5]}}",
    "{metadata: {name: x}, spec: {os: 5, containers: [{name: a, image: b}]}}",
    "{metadata: {name: x}, spec: {containers: [{name: a, image: b, env: 5}]}}",
    "{metadata: {name: x}, spec: {containers: [{name: a, image: b, command: 5}]}}",
]


@pytest.mark.parametrize("where", ["pod", "template"])
@pytest.mark.parametrize("pod", UNREADABLE)
def test_what_cannot_be_read_is_said_by_check_passed_by_inject_and_left_by_the_webhook(pod: str, where: str) -> None:
    text = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: x}}\nspec:\n  template: {pod}\n"
    if where == "pod":
        text = f"# a pod\napiVersion: v1\nkind: Pod\n{pod[1:-1].replace(', spec:', chr(10) + 'spec:')}\n"
    (row,) = check_command.check_text("file", text, SETTINGS)
    assert not row.verdict.good
    assert [finding.rule for finding in row.verdict.findings] == ["unreadable"]
    passed, (warning,) = inject_text("file", text, SETTINGS)
    assert passed == text
    assert "the pod cannot be read: " in warning
    assert decide(goyaml.load(pod), SETTINGS) == NOTHING
    answer, body = ask(valid(object=goyaml.load(pod)))
    assert (answer.outcome, body["response"]) == (review.UNCHANGED, {"uid": "uid-0", "allowed": True})


def test_a_complete_pod_with_a_field_that_cannot_be_read_is_not_good() -> None:
    pod = corpus.load("complete").pod
    pod["spec"]["containers"][0]["env"] = 5
    assert not audit.judge(pod, SETTINGS).good


def test_what_inject_made_sees_warnings_unless_it_said_why_not() -> None:
    for seed in range(300):
        pod = generated.pod(seed)
        decision = decide(pod, SETTINGS)
        verdict = audit.judge(corpus.apply(pod, decision.patch), SETTINGS)
        if verdict.in_scope and not decision.findings and "forewarn/grace" not in pod["metadata"].get("labels", {}):
            assert verdict.good, seed


def test_rubbish_is_judged_without_an_exception() -> None:
    for seed in range(300):
        audit.judge(generated.broken(seed), SETTINGS)
        audit.sees_podinfo(generated.broken(seed))


def test_a_file_beside_the_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-f", "x", "-A"]) == 2
    assert capsys.readouterr().err.startswith("error: forewarn check: -f goes without -n and -A")


def test_a_cluster_without_the_client_library_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("lightkube", *(name for name in sys.modules if name.startswith("lightkube."))):
        monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(["check", "-A"]) == 2
    assert "pip install the wheel with its extra 'operator'" in capsys.readouterr().err


def test_no_cluster_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-A", "--kubeconfig", str(tmp_path / "none")]) == 2
    printed: Any = capsys.readouterr()
    assert printed.err.count("\n") == 1
