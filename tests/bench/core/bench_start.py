"""How long ``forewarn --help`` takes beside a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.table import Row

TITLE = "command: start"
ROUNDS = 21
MOST = 10
"""Times a bare interpreter's start."""


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Take turns, so that whatever else the machine does falls on both alike; the median of each is told."""
    python = Path(sys.executable)
    commands = {
        "bare Python": [str(python), "-c", "pass"],
        "forewarn --help": [str(python.with_name("forewarn")), "--help"],
    }
    say(f"{ROUNDS} rounds of {', '.join(commands)}")
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken[name].append(time.perf_counter() - started)
    median = {name: statistics.median(times) * 1000 for name, times in taken.items()}
    bare = median["bare Python"]
    return [
        Row("bare Python", bare, "ms"),
        Row("forewarn --help", median["forewarn --help"], "ms", ratio_to="bare Python", limit=MOST * bare),
    ]
