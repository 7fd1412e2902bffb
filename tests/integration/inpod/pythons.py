"""The Pythons that a pod may have: where each is found, and a small environment for its tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.inpod.support import ROOT
from tests.support.programs import cache

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
LOCK = ROOT / "locks" / "inpod-test.txt"


def interpreter(version: str) -> str:
    """Return an interpreter of that version, from PATH or pyenv; skip, saying so, where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for found in [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]:
        if found is None:
            continue
        told = subprocess.run([found, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
        if told.stdout.strip() == str(tuple(map(int, version.split(".")))):
            return str(found)
    pytest.skip(f"no Python {version} on PATH or under {pyenv}/versions")


def environment(version: str) -> str:
    """Return the Python of an environment with what the unit tests need, made where the lock file asks for another.

    It stays in FOREWARN_CACHE, shared by checkouts; skips as ``interpreter``.
    """
    base = interpreter(version)
    directory = cache() / "pythons" / version
    python, installed = directory / "bin" / "python", directory / "installed.txt"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{version}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        current = installed.is_file() and installed.read_bytes() == LOCK.read_bytes() and os.access(python, os.X_OK)
        if not current:
            uv = str(Path(sys.executable).with_name("uv"))
            for command in (
                [uv, "venv", "-q", "--clear", "--python", base, str(directory)],
                [uv, "pip", "install", "-q", "--python", str(python), "--require-hashes", "-r", str(LOCK)],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
            shutil.copyfile(LOCK, installed)
    return str(python)
