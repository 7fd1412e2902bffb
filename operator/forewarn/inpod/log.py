"""A line for each interruption, and a log that a resumed run goes on writing."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING

from forewarn import contract

if TYPE_CHECKING:
    from datetime import datetime


class InterruptionLog:
    """Appends one line per interruption: when, where in the run, the last checkpoint, whether it was announced.

    The line is written at once and whole (one append), since the next instant may be the last.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def write(
        self,
        now: datetime,
        *,
        step: int,
        checkpoint: str | None,
        warned: bool,
        epoch: int | None = None,
        cost: float | None = None,
        why: str = "",
    ) -> str:
        """Append the line and return it.

        ``now``: aware; ``checkpoint``: path of the last one written; ``warned``: whether the pod carries a warning;
        ``cost``: seconds of one save. Raises ``OSError``.
        """
        fields = {
            "step": step,
            "epoch": epoch,
            "checkpoint": checkpoint,
            "warned": warned,
            "cost_seconds": None if cost is None else round(cost, 3),
            "why": why or None,
        }
        line = " ".join(
            f"{key}={_value(value)}" for key, value in fields.items() if value is not None or key in _ALWAYS
        )
        line = f"{contract.format_instant(now)} {line}\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return line


_ALWAYS = ("checkpoint",)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    text = str(value)
    return text if text.isprintable() and not set(' "=') & set(text) else json.dumps(text)


def log_to(path: str | os.PathLike[str], level: int = logging.INFO) -> logging.Handler:
    """Let ``logging`` append to a file, with UTC times; each line reaches the file at once. Returns the handler.

    A handler for the same file is not added twice.
    """
    root = logging.getLogger()
    wanted = os.path.abspath(os.fspath(path))
    for known in root.handlers:
        if isinstance(known, logging.FileHandler) and known.baseFilename == wanted:
            return known
    handler = logging.FileHandler(wanted, mode="a", encoding="utf-8")
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.setLevel(min(root.level, level) if root.level else level)
    return handler
