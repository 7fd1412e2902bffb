"""What ``make demo`` prints around its story is true, and can be typed as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.harness.support import copy_checkout, make_program
from tests.kind import places

ROOT = places.CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a cluster that takes everything, and the demo."""
    folders = ("examples/demo", "tests/kind", "tests/support", "operator/forewarn")
    folder = copy_checkout(tmp_path / "checkout", folders, ("tools/demo", "Makefile"))
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(ROOT / ".venv/bin/python")
    (folder / "build").mkdir()
    (folder / "build/cluster.json").write_text(
        '{"kind": "foreign", "kubeconfig": "/kube/config", "image": "team/forewarn:1"}'
    )
    return folder


def play(checkout: Path, code: int) -> subprocess.CompletedProcess[str]:
    cache = checkout.parent / "cache"
    make_program(cache / "bin/kubectl", "exit 0")
    make_program(checkout / ".venv/bin/forewarn", f"exit {code}")
    words = ["env", f"FOREWARN_CACHE={cache}", str(checkout / "tools/demo")]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", [0, 1])
def test_the_demo_ends_with_what_there_is_to_see(checkout: Path, code: int) -> None:
    ran = play(checkout, code)
    assert ran.returncode == code, ran.stderr
    assert "kubectl -n forewarn-demo" in ran.stdout
    assert ("train-resumed" in ran.stdout) is (code == 0)
    assert ("describe pod train " in ran.stdout) is (code == 1)


def test_the_commands_that_are_told_work_where_they_are_typed(checkout: Path) -> None:
    (export, render) = re.findall(
        r"^  (export FOREWARN_PROFILES.*|forewarn render .*?) *(?:\|.*)?$", play(checkout, 0).stdout, re.M
    )
    real = f"PATH={ROOT}/.venv/bin:$PATH"
    ran = subprocess.run(
        ["bash", "-c", f"{export}; {real}; {render}"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, 'image: "team/forewarn:1"' in ran.stdout) == (0, True), ran.stderr
    header = (ROOT / "examples/demo/scenario.yaml").read_text()
    (command,) = re.findall(r"^#   (.*forewarn simulate .*)$", header, re.M)
    words = (
        command.replace("IMAGE", "forewarn:dev").replace("NAMESPACE", "x").replace("simulate", "simulate --check", 1)
    )
    subprocess.run(["bash", "-c", f"{real}; {words}"], cwd=ROOT, check=True)
