"""What the warning is worth in the pod: the cost of a look, the time to a durable checkpoint, the steps lost."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn import contract
from forewarn.inpod.loop import Loop
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.store import CheckpointStore
from forewarn.inpod.volume import Volume
from tests.bench.table import Row
from tests.support.programs import cache

TITLE = "in the pod: heeding a warning (1 s here stands for 10 min there; the kubelet's own delay is not in it)"
HERE = Path(__file__).parent
OPERATOR = HERE.parents[2] / "operator"
STEP, COST, NOTICE, GRACE, SHORT_GRACE = 0.02, 0.2, 1.5, 1.0, 0.1
ROUNDS = 6
LOOKS = 20_000


@dataclass(frozen=True)
class Preempted:
    """One preemption: seconds from the annotation's write to a checkpoint (or to the end), and steps lost."""

    seconds: float
    lost: int


def looks(work: Path) -> list[Row]:
    """Measure a look when nothing changed, beside the reader that opens and parses the files in each step."""
    volume = Volume(work / "podinfo")
    later = contract.format_instant(datetime.now(UTC) + timedelta(hours=6))
    volume.write_podinfo({contract.GUARANTEED_UNTIL: later})
    podinfo = PodInfo(volume.path)

    def naive() -> bool:
        now = datetime.now(UTC)
        for name in (contract.WARNING_AT, contract.GUARANTEED_UNTIL):
            try:
                text = (Path(volume.path) / name).read_text().strip()
                at = datetime.fromisoformat(text) if text else None
            except (OSError, ValueError):
                at = None
            if at is not None and (at - now).total_seconds() <= 60:
                return True
        return False

    def microseconds(call: Callable[[], object]) -> float:
        return min(timeit.repeat(call, number=LOOKS, repeat=5)) / LOOKS * 1e6

    laptop = PodInfo("/nowhere")
    name = "stop_expected(), nothing changed"
    never = SaveSchedule(1.0, shortest=1e6)
    with Loop(CheckpointStore(work / "checkpoints"), podinfo=podinfo, schedule=never) as loop:
        step = microseconds(lambda: loop.step(1, dict))
    return [
        Row(name, microseconds(lambda: podinfo.stop_expected(60)), "µs", limit=5.0),
        Row("the files opened and parsed in each step", microseconds(naive), "µs", ratio_to=name),
        Row("Loop.step(), nothing due", step, "µs", ratio_to=name),
        Row("stop_expected() on a laptop", microseconds(lambda: laptop.stop_expected(60)), "µs", limit=5.0),
    ]


def steps_done(directory: Path) -> int:
    """Return the last step that the program has told."""
    with contextlib.suppress(OSError):
        told = (directory / "steps").read_text().split("\n")[:-1]
        return int(told[-1]) if told else 0
    return 0


def kept(directory: Path) -> tuple[int, float]:
    """Return the step of the newest checkpoint and when it was complete (a time of the file system)."""
    ours = CheckpointStore(directory / "checkpoints").checkpoints()
    found = [(one.step, os.stat(one.path[: -len(".ckpt")] + ".json").st_mtime) for one in ours]
    for path in directory.glob("checkpoints/*.ckpt"):
        match = re.search(r"step=(\d+)", path.name)
        if match:
            found.append((int(match.group(1)), path.stat().st_mtime))
    return max(found, default=(0, 0.0))


def preempt(command: list[str], directory: Path, after: float, grace: float) -> Preempted:
    """Warn a running program, send SIGTERM at the warning's instant, SIGKILL after the grace."""
    directory.mkdir(parents=True)
    volume = Volume(directory / "podinfo")
    volume.write_podinfo({})
    environ = {**os.environ, "PYTHONPATH": str(OPERATOR), contract.PODINFO_VARIABLE: volume.path}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environ, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not steps_done(directory):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start")
            time.sleep(0.01)
        time.sleep(after)
        warned = time.time()
        at = datetime.fromtimestamp(warned + NOTICE, UTC).isoformat()
        volume.write_podinfo({contract.WARNING_AT: at})
        _wait(process, warned + NOTICE - time.time())
        process.send_signal(signal.SIGTERM)
        _wait(process, grace)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    step, when = kept(directory)
    return Preempted((when if when > warned else time.time()) - warned, steps_done(directory) - step)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, seconds))


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Measure; says what it does."""
    say("looks at the podinfo files")
    rows = looks(work)
    trainer = str(HERE / "trainer.py")
    torch = cache() / "torch-venv" / "bin" / "python"
    ways: dict[str, tuple[Callable[[Path], list[str]], float]] = {
        "forewarn": (lambda at: [sys.executable, trainer, "forewarn", str(at), str(STEP), str(COST)], GRACE),
        "(a) SIGTERM handler": (lambda at: [sys.executable, trainer, "sigterm", str(at), str(STEP), str(COST)], GRACE),
        "(b) Lightning, default callbacks": (
            lambda at: [str(torch), str(HERE / "lightning_trainer.py"), str(at), str(STEP)],
            GRACE,
        ),
        "(c) periodic only, 20·C": (
            lambda at: [sys.executable, trainer, "periodic", str(at), str(STEP), str(COST)],
            GRACE,
        ),
        "forewarn, grace shorter than a save": (
            lambda at: [sys.executable, trainer, "forewarn", str(at), str(STEP), str(COST)],
            SHORT_GRACE,
        ),
        "(a), grace shorter than a save": (
            lambda at: [sys.executable, trainer, "sigterm", str(at), str(STEP), str(COST)],
            SHORT_GRACE,
        ),
    }
    if not torch.exists():
        say("Lightning is left out: make torch-env installs it")
        del ways["(b) Lightning, default callbacks"]
    source = random.Random(7)
    seconds, lost = [], []
    for name, (command, grace) in ways.items():
        say(f"preempts {ROUNDS} times: {name}")
        found = []
        for round_ in range(ROUNDS):
            directory = work / f"{len(seconds)}-{round_}"
            found.append(preempt(command(directory), directory, source.uniform(4.5, 8.0), grace))
        seconds.append(Row(f"annotation to durable checkpoint, {name}", statistics.mean(f.seconds for f in found), "s"))
        lost.append(Row(f"steps lost per preemption, {name}", statistics.mean(f.lost for f in found), "steps"))
    lost[0] = replace(lost[0], limit=0.0)
    return rows + seconds + lost
