"""What each rank of a gloo or MPI job runs: random schedules of warnings, one process group for all of them."""

from __future__ import annotations

import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forewarn.inpod import CheckpointStore, Loop, PodInfo, SaveSchedule, find_ranks
from forewarn.inpod.volume import Volume

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)
LENGTH = 12


def schedules(seed: int, size: int) -> list[list[int | None]]:
    """Return for each rank the seconds to its warning's instant per step; only some ranks are ever warned."""
    source = random.Random(seed)
    found = []
    for _ in range(size):
        mine: list[int | None] = []
        while len(mine) < LENGTH:
            mine += [None] * source.randint(0, 4)
            mine += [source.choice([-100, 0, 30])] * source.randint(0, 4)
        found.append(mine[:LENGTH] if source.random() < 0.6 else [None] * LENGTH)
    return found


def expected(seed: int, size: int, every: int) -> list[int]:
    """Return the steps in which all ranks should save: where any rank's warning appears in an exchange."""
    warned = [any(mine[step] is not None for mine in schedules(seed, size)) for step in range(LENGTH)]
    looked = range(every - 1, LENGTH, every)
    return [step for step in looked if warned[step] and not (step - every >= 0 and warned[step - every])]


def play(work: Path, seed: int, background: bool, every: int) -> list[int]:
    """Run one schedule; return the steps in which this rank was asked for its state."""
    ranks = find_ranks()
    mine = schedules(seed, ranks.size)[ranks.rank]
    volume = Volume(work / f"podinfo-{seed}-{ranks.rank}")
    store = CheckpointStore(work / f"checkpoints-{seed}", keep_last=1, ranks=ranks)
    loop = Loop(
        store,
        podinfo=PodInfo(volume.path),
        schedule=SaveSchedule(1e6),
        stop_on_warning=False,
        background=background,
        every=every,
        now=lambda: NOW,
    )
    asked: list[int] = []
    with loop:
        for step in range(LENGTH):
            seconds = mine[step]
            at = None if seconds is None else (NOW + timedelta(seconds=seconds)).isoformat()
            volume.write_podinfo({"termination-warning-at": at} if at else {})
            assert not loop.step(step, lambda step=step: asked.append(step) or {"step": step, "rank": ranks.rank})
    restored = store.restore()
    assert (restored is None) == (not asked)
    if restored is not None:
        assert restored.state == {"step": asked[-1], "rank": ranks.rank}
    return asked


def main() -> None:
    """Play the seeds from argv, write what happened."""
    work, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if "WORLD_SIZE" in os.environ:
        import torch.distributed as dist

        dist.init_process_group("gloo")
    else:
        import mpi4py.MPI  # noqa: F401
    ranks = find_ranks()
    wrong = []
    for seed in range(first, last):
        background, every = seed % 3 == 2, 1 if seed % 4 else 3
        asked, right = play(work, seed, background, every), expected(seed, ranks.size, every)
        if asked != right:
            wrong.append([seed, ranks.rank, asked, right])
    # A program may not leave while another rank is in its last exchange.
    ranks.agree(False)
    (work / f"told-{ranks.rank}.json").write_text(json.dumps({"size": ranks.size, "wrong": wrong}))


if __name__ == "__main__":
    main()
