"""What stands in for a machine: programs that are a few words of bash, and a part of this checkout."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.kind.places import CHECKOUT


def make_program(path: Path, body: str) -> None:
    """Write a bash program, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def copy_checkout(folder: Path, folders: Iterable[str], files: Iterable[str]) -> Path:
    """Copy parts of this checkout into a folder, and return that."""
    for part in folders:
        shutil.copytree(CHECKOUT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in files:
        (folder / part).parent.mkdir(exist_ok=True)
        shutil.copy2(CHECKOUT / part, folder / part)
    return folder
