"""The runner of all tests tells the truth in its last line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import stages
from tests.stages import Outcome, Stage, counted, summarise

REPORT = """<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1">
<testcase name="a"><skipped message="no GPU here"/></testcase></testsuite></testsuites>"""


def stage(tmp_path: Path, content: str | None) -> Stage:
    report = tmp_path / "report.xml"
    if content is not None:
        report.write_text(content)
    return Stage("unit", ["true"], report)


def test_errors_count_as_failures_and_skips_keep_their_reason(tmp_path: Path) -> None:
    outcome = counted(stage(tmp_path, REPORT), 1, 1.0)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (2, 2, 1)
    assert outcome.reasons == {"no GPU here": 1}


def test_a_file_that_is_skipped_as_a_whole_keeps_its_reason(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text(
        "import pytest\npytest.skip(\"no torch (on 'this' machine)\", allow_module_level=True)\n"
    )
    report = tmp_path / "report.xml"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(tmp_path)]
    subprocess.run(argv, cwd=tmp_path, check=False, stdout=subprocess.DEVNULL)
    outcome = counted(Stage("unit", argv, report), 5, 1.0)
    assert (outcome.skipped, outcome.reasons) == (1, {"no torch (on 'this' machine)": 1})


@pytest.mark.parametrize("content", [None, "", "<testsuites><testsuite"])
def test_a_run_without_a_whole_report_is_a_failure(tmp_path: Path, content: str | None) -> None:
    outcome = counted(stage(tmp_path, content), 0, 1.0)
    assert (outcome.failed, outcome.code) == (1, 1)


def test_a_crash_after_the_last_test_is_a_failure(tmp_path: Path) -> None:
    assert counted(stage(tmp_path, '<testsuite tests="3"/>'), 3, 1.0).failed == 1


def test_a_failing_step_that_is_no_test_run_is_a_failure() -> None:
    assert counted(Stage("lint", ["false"]), 1, 1.0).failed == 1


def test_the_last_line_is_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [
        Outcome(Stage("unit", [], Path("u")), 0, 1, passed=3, skipped=1, reasons={"why": 1}),
        Outcome(Stage("e2e", [], Path("e")), 0, 1, passed=4),
    ]
    assert summarise(outcomes, {"unit", "e2e"}, 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "7 passed, 0 failed, 1 skipped"
    assert "skipped in unit: 1 × why" in lines


def test_a_stage_that_was_not_reached_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert summarise([Outcome(Stage("unit", [], Path("u")), 0, 1, passed=3)], {"unit", "e2e"}, 2) == 1
    assert "not run: e2e" in capsys.readouterr().out


def test_a_stage_is_run_with_its_output_in_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    monkeypatch.setattr(stages, "BUILD", tmp_path / "build")
    outcome = stages.run(Stage("hello", [sys.executable, "-c", "print('there'); raise SystemExit(4)"]))
    assert (outcome.code, outcome.failed) == (4, 1)
    assert (tmp_path / "hello.log").read_text() == "there\n"
