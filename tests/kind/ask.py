"""Runs a program for its answer; one that is missing, fails or does not answer is a ``UserError`` in its own words."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from forewarn.errors import UserError


def ask(
    argv: Sequence[str | Path],
    *,
    where: str,
    missing: str = "install it and run again",
    timeout: float | None = None,
    text: str | None = None,
    directory: Path | None = None,
) -> str:
    """Return what a program prints, given ``text`` to read; ``where`` names it in errors.

    ``missing`` says what to do where it is not there; ``timeout`` is in seconds. Raises ``UserError``
    with the last line that the program wrote on stderr.
    """
    try:
        ran = subprocess.run(
            [str(word) for word in argv],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=timeout,
            cwd=directory,
        )
    except subprocess.TimeoutExpired:
        raise UserError(where, f"no answer in {timeout:g} s") from None
    except FileNotFoundError:
        raise UserError(str(argv[0]), "this program is missing", missing) from None
    if ran.returncode:
        said = ran.stderr.strip().splitlines()
        raise UserError(where, said[-1] if said else f"exit code {ran.returncode}")
    return ran.stdout
