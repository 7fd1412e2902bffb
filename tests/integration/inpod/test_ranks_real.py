"""Only some ranks are warned: over real gloo and MPI all save in the same step, once per episode, and none waits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.inpod.ranks_program import expected
from tests.integration.inpod.support import environ, run

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("ranks_program.py")


def check(work: Path, size: int, first: int, last: int) -> None:
    told = [json.loads((work / f"told-{rank}.json").read_text()) for rank in range(size)]
    assert [one["size"] for one in told] == [size] * size
    assert [one["wrong"] for one in told] == [[]] * size
    assert any(expected(seed, size, 1) for seed in range(first, last))


@pytest.mark.parametrize(("size", "first", "last"), [(2, 0, 80), (3, 80, 140), (4, 140, 200)])
def test_200_random_schedules_over_gloo(tmp_path, size, first, last):
    pytest.importorskip("torch")
    done = run(
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        size,
        PROGRAM,
        tmp_path,
        first,
        last,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(tmp_path, size, first, last)


KEPT = """
import sys, weakref
import torch.distributed as dist
from forewarn.inpod.ranks import TorchRanks
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
ranks, reduce, given = TorchRanks(), dist.all_reduce, []
def watched(tensor, **how):
    given.append(weakref.ref(tensor))
    return reduce(tensor, **how)
dist.all_reduce = watched
for values in ([1], [2, -3], [0], [4, 5]):
    assert ranks.highest(values) == values
print([kept() is not None for kept in given])
"""


def test_a_thread_of_gloo_never_holds_the_last_reference_to_a_tensor(tmp_path):
    # It would wait for the interpreter's lock, and abort a program that ends meanwhile: 134 where 75 was meant.
    pytest.importorskip("torch")
    done = run("-c", KEPT, tmp_path / "store", cwd=tmp_path)
    assert done.stdout.split("\n")[-2] == "[True, True, True, True]", done.stderr[-3000:]


def test_random_schedules_over_mpi(tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside this Python")
    import subprocess

    command = [mpiexec, "-n", "3", sys.executable, PROGRAM, tmp_path, "0", "20"]
    env = {key: value for key, value in environ().items() if key != "WORLD_SIZE"}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    check(tmp_path, 3, 0, 20)
