"""Waits for a condition by looking at it again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")


def until(
    look: Callable[[], T | Literal[False] | None],
    what: str | Callable[[], str],
    seconds: float = 20.0,
    every: float = 0.05,
) -> T:
    """Return the first true value of ``look``; ``AssertionError`` with ``what`` where none comes in so many seconds."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(every)
    return found


async def eventually(
    look: Callable[[], T | Literal[False] | None], what: str, seconds: float = 20.0, every: float = 0.02
) -> T:
    """As ``until``, while the loop's other tasks go on."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(every)
    return found
