"""A loop whose step and save take a set time, kept safe in one of the ways that people use. Usage: … WAY DIR STEP COST.

Each step is a line in DIR/steps, written when it is done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from forewarn.inpod import CheckpointStore, Functions, Loop, Plain, SaveSchedule


def main() -> int:
    """Run until stopped."""
    way, directory, step_seconds, cost = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    progress = os.open(directory / "steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def slow(state: Any, file: BinaryIO) -> None:
        time.sleep(cost)
        Plain().save(state, file)

    store = CheckpointStore(directory / "checkpoints", serializer=Functions("slow", slow, Plain().load))
    schedule = SaveSchedule(cost, shortest=0.0)
    asked: list[int] = []
    if way == "sigterm":
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    restored = store.restore()
    step = restored.step if restored else 0
    loop = Loop(store, schedule=schedule)
    if way == "forewarn":
        loop.__enter__()
    while True:
        step += 1
        time.sleep(step_seconds)
        os.write(progress, b"%d\n" % step)
        if way == "forewarn":
            if loop.step(step, lambda: {"step": step}):  # noqa: B023
                return loop.exit_code
        elif asked:
            store.save(step, {"step": step})
            return 75
        elif schedule.due(time.monotonic()):
            store.save(step, {"step": step})
            schedule.saved(time.monotonic(), cost)


if __name__ == "__main__":
    sys.exit(main())
