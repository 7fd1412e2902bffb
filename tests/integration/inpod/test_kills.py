"""Killed at random moments, also inside a save, a run ends bit for bit as if it had never been."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from forewarn.inpod import layout
from forewarn.inpod.manifest import Name
from forewarn.inpod.store import CheckpointStore
from tests.integration.inpod.support import EXAMPLES, LAUNCH, same, start

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


class Starter:
    """Starts trainers as forks of one process that has imported what they need; kills them."""

    def __init__(self, work: Path, *modules: str) -> None:
        work.mkdir()
        self.work = work
        self._process = start(LAUNCH, *modules, cwd=work, input=True)

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def run(self, *argv: object, each: bool = False, kill: tuple[bool, float] | None = None) -> int:
        """Run a trainer to its end; return its wait status.

        ``kill``: whether to wait for its first step, and the seconds after which to kill it.
        """
        output = self.work / "output"
        output.unlink(missing_ok=True)
        request = {"argv": [*map(str, argv)], "output": str(output), "each": each}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if kill is not None:
            while kill[0] and not (output.exists() and "step" in output.read_text()) and Path(f"/proc/{pid}").exists():
                time.sleep(0.005)
            time.sleep(kill[1])
            # It may have come to its end before.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return int(self._process.stdout.readline())


def final(directory: Path) -> object:
    restored = CheckpointStore(directory).restore()
    assert restored is not None
    assert restored.skipped == ()
    return restored.state


def unfinished(directory: Path) -> set[Name]:
    """Return the saves that were begun and not finished: what a kill inside a save leaves."""
    whole = {checkpoint.name for checkpoint in layout.complete(str(directory))}
    return layout.names(str(directory)) - whole


def kill_and_compare(
    starter: Starter, trainer: Path, steps: int, kills: int, seed: int, window: float, each: bool
) -> int:
    """Kill runs until there were ``kills`` kills, compare the ends; return how many kills tore a save."""
    source = random.Random(seed)
    assert starter.run(trainer, starter.work / "whole", steps) == 0, (starter.work / "output").read_text()
    expected = final(starter.work / "whole")
    done, torn, runs = 0, 0, 0
    while done < kills or runs == 0:
        directory = starter.work / f"run-{runs}"
        ended = False
        before: set[Name] = set()
        while not ended:
            kill = (source.random() < 0.9, source.uniform(0.0, window)) if done < kills else None
            status = starter.run(trainer, directory, steps, each=each, kill=kill)
            if status == signal.SIGKILL:
                done += 1
                left = unfinished(directory)
                torn += bool(left - before)
                before = left
                found = CheckpointStore(directory).restore()
                skipped = found.skipped if found else ()
                assert all("never finished" in line for line in skipped), skipped
            else:
                assert status == 0, (starter.work / "output").read_text()
                ended = True
        assert same(expected, final(directory)) is None
        assert len(layout.complete(str(directory))) <= 2
        assert not unfinished(directory)
        runs += 1
    return torn


@pytest.mark.parametrize("seed", range(4))
def test_numpy_killed_300_times_ends_as_if_never_killed(tmp_path, seed):
    """Four parts of 75 kills; in two of them the run saves after every step."""
    pytest.importorskip("numpy")
    each = seed % 2 == 0
    with Starter(tmp_path / "work", "numpy") as starter:
        trainer = EXAMPLES / "numpy_trainer.py"
        torn = kill_and_compare(starter, trainer, 800 if each else 20000, 75, seed, window=0.15, each=each)
    if each:
        assert torn >= 8, "too few kills were inside a save"


@pytest.mark.parametrize("seed", range(2))
def test_torch_killed_20_times_ends_as_if_never_killed(tmp_path, seed):
    """Two parts of 10 kills; in one the run saves after every step."""
    pytest.importorskip("torch")
    each = seed == 0
    with Starter(tmp_path / "work", "torch", "torch.optim.swa_utils") as starter:
        trainer = EXAMPLES / "torch_trainer.py"
        torn = kill_and_compare(starter, trainer, 300, 10, seed, window=0.5, each=each)
    if each:
        assert torn >= 2, "too few kills were inside a save"
