"""``forewarn check``: the verdict on a manifest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from forewarn import cli
from forewarn.admission import audit
from forewarn.admission.inject import InjectSettings, decide
from tests.unit.admission import corpus, generated

SETTINGS = InjectSettings()


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
    monkeypatch.setitem(sys.modules, "lightkube.resources.core_v1", None)
    assert cli.main(["check", "-A"]) == 2
    assert "pip install 'forewarn[operator]'" in capsys.readouterr().err


def test_no_cluster_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "-A", "--kubeconfig", str(tmp_path / "none")]) == 2
    printed: Any = capsys.readouterr()
    assert printed.err.count("\n") == 1
