"""What ``make demo`` prints around its story is true, and can be typed as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kind import places

ROOT = places.CHECKOUT


def make_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a cluster that takes everything, and the demo."""
    folder = tmp_path / "checkout"
    for part in ("examples/demo", "tests/kind", "tests/support", "operator/forewarn"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("tools/demo", "Makefile"):
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
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
