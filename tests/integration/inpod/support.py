"""Programs that are started, killed and compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
LAUNCH = ROOT / "tests" / "cases" / "inpod" / "launch.py"


def environ(**extra: str) -> dict[str, str]:
    """Return an environment in which forewarn is found and one thread computes."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **one, "PYTHONPATH": str(ROOT / "operator"), **extra}


def run(*command: object, cwd: Path, timeout: float = 500, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end."""
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environ(**extra),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(*command: object, cwd: Path, input: bool = False, **extra: str) -> subprocess.Popen[str]:  # noqa: A002
    """Start a Python program in a process group of its own; its output is one pipe, ``input`` gives it another."""
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environ(**extra),
        stdin=subprocess.PIPE if input else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def same(one: Any, other: Any, where: str = "state") -> str | None:
    """Return where two states differ, to the bit, or ``None``."""
    if type(one) is not type(other):
        return f"{where}: {type(one).__name__} and {type(other).__name__}"
    if isinstance(one, dict):
        if list(one) != list(other):
            return f"{where}: keys {list(one)} and {list(other)}"
        found = (same(one[key], other[key], f"{where}[{key!r}]") for key in one)
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{where}: {len(one)} and {len(other)} items"
        found = (same(a, b, f"{where}[{index}]") for index, (a, b) in enumerate(zip(one, other, strict=True)))
    elif hasattr(one, "numpy"):
        equal = one.dtype == other.dtype and one.shape == other.shape
        return None if equal and one.numpy().tobytes() == other.numpy().tobytes() else f"{where}: tensors differ"
    elif hasattr(one, "tobytes"):
        equal = one.dtype == other.dtype and one.shape == other.shape
        return None if equal and one.tobytes() == other.tobytes() else f"{where}: arrays differ"
    else:
        return None if one == other else f"{where}: {one!r} and {other!r}"
    return next((line for line in found if line), None)
