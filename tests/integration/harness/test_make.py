"""What takes long in the Makefile says so while it runs, and shows the words of what fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.errors import UserError
from tests.integration.harness.support import copy_checkout, make_program
from tests.kind import progress

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as its set-up needs, with nothing set up."""
    folders = ("tests/kind", "tests/support", "operator/forewarn", "locks")
    return copy_checkout(tmp_path / "checkout", folders, ("Makefile", "pyproject.toml"))


def make(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=checkout, capture_output=True, text=True, check=False)


def test_setup_says_how_much_it_installs_and_why_it_fails(checkout: Path) -> None:
    make_program(checkout / "pip", '[[ "$*" == *"-r locks/dev.txt" ]] && echo "no route to the index" && exit 1')
    venv = "mkdir -p .venv/bin; cp pip .venv/bin/pip"
    make_program(checkout / "python", f'if [[ $1$2 == -mvenv ]]; then {venv}; else exec {sys.executable} "$@"; fi')
    ran = make(checkout, "setup", "PYTHON=./python")
    packages = (ROOT / "locks/dev.txt").read_text().count("==")
    assert ran.returncode == 2
    assert f"setup: installing {packages} packages of locks/dev.txt" in ran.stdout
    assert "    no route to the index\nerror: pip: failed with exit code 1" in ran.stderr
    assert not (checkout / ".venv/.installed").exists()


def test_the_torch_environment_is_told_of_and_is_not_taken_for_whole_where_it_fails(
    checkout: Path, tmp_path: Path
) -> None:
    fails = f'[[ $1 == venv ]] && mkdir -p {tmp_path}/torch-venv && exit; echo "no space left"; exit 1'
    make_program(checkout / "bin/uv", fails)
    words = ("--old-file=.venv/.installed", "torch-env", "BIN=bin", f"FOREWARN_CACHE={tmp_path}")
    (checkout / ".venv").mkdir()
    (checkout / ".venv/.installed").touch()
    ran = make(checkout, *words)
    assert ran.returncode == 2
    assert "torch-env: installing" in ran.stdout
    assert "no space left" in ran.stderr
    assert not (tmp_path / "torch-venv/installed.txt").exists()
    make_program(checkout / "bin/uv", "")
    assert make(checkout, *words).returncode == 0
    assert (tmp_path / "torch-venv/installed.txt").exists()


def test_a_long_step_goes_on_saying_that_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.1)
    steps = progress.Steps(tmp_path / "log")
    with steps.extra("fetching"):
        steps.run([sys.executable, "-c", "import time; time.sleep(0.5)"])
    assert capsys.readouterr().out.count("fetching … 0 s") >= 2
    with pytest.raises(UserError, match="failed with exit code 3"), steps.extra("fetching"):
        steps.run([sys.executable, "-c", "raise SystemExit(3)"])
    assert "fetching: FAILED after 0 s" in capsys.readouterr().out
