"""Killed at random moments, also inside a save, a run ends bit for bit as if it had never been."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from forewarn.inpod import layout
from forewarn.inpod.manifest import Name
from forewarn.inpod.store import CheckpointStore
from tests.integration.inpod.support import EXAMPLES, LAUNCH, run, same, start

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


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
    trainer: Path, steps: int, kills: int, seed: int, work: Path, window: float, each_step: bool
) -> tuple[int, int]:
    """Kill runs until there were ``kills`` kills; return how many runs ended and how many kills tore a save."""
    source = random.Random(seed)
    work.mkdir()
    whole = run(LAUNCH, "scheduled", trainer, work / "whole", steps, cwd=work)
    assert whole.returncode == 0, whole.stderr
    expected = final(work / "whole")
    launcher = [LAUNCH, "each" if each_step else "scheduled", trainer]
    done, torn, runs = 0, 0, 0
    while done < kills or runs == 0:
        directory = work / f"run-{runs}"
        ended = False
        before: set[Name] = set()
        while not ended:
            process = start(*launcher, directory, steps, cwd=work)
            try:
                if done < kills:
                    if source.random() < 0.9:
                        while (line := process.stdout.readline()) and not line.startswith("step"):
                            pass
                    time.sleep(source.uniform(0.0, window))
                    os.killpg(process.pid, signal.SIGKILL)
                output = process.communicate(timeout=120)[0]
            finally:
                process.kill()
                process.wait()
            if process.returncode == -signal.SIGKILL:
                done += 1
                left = unfinished(directory)
                torn += bool(left - before)
                before = left
                found = CheckpointStore(directory).restore()
                assert found is None or found.skipped == () or all("never finished" in line for line in found.skipped)
            else:
                assert process.returncode == 0, output
                ended = True
        assert same(expected, final(directory)) is None
        assert len(layout.complete(str(directory))) <= 2
        assert not unfinished(directory)
        runs += 1
    return runs, torn


@pytest.mark.parametrize("seed", range(4))
def test_numpy_killed_300_times_ends_as_if_never_killed(tmp_path, seed):
    """Four parts of 75 kills; in two of them nearly all kills are inside a save."""
    pytest.importorskip("numpy")
    each_step = seed % 2 == 0
    steps = 800 if each_step else 20000
    runs, torn = kill_and_compare(
        EXAMPLES / "numpy_trainer.py", steps, 75, seed, tmp_path / "work", window=0.15, each_step=each_step
    )
    assert runs >= 1
    if each_step:
        assert torn >= 20, "too few kills were inside a save"


@pytest.mark.parametrize("seed", range(2))
def test_torch_killed_20_times_ends_as_if_never_killed(tmp_path, seed):
    """Two parts of 10 kills; in one nearly all are inside a save."""
    pytest.importorskip("torch")
    runs, torn = kill_and_compare(
        EXAMPLES / "torch_trainer.py", 300, 10, seed, tmp_path / "work", window=0.5, each_step=seed == 0
    )
    assert runs >= 1
    if seed == 0:
        assert torn >= 2, "too few kills were inside a save"
