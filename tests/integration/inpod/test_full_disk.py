"""A file system that is really full, or really read-only."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.inpod.background import BackgroundSaver
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.loop import Loop
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.store import CheckpointStore
from tests.integration.inpod.support import run


@pytest.fixture
def small(tmp_path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


def big(size: int) -> dict[str, bytes]:
    return {"weights": os.urandom(size)}


@pytest.mark.parametrize("sharded", [False, True])
def test_a_full_disk_leaves_the_checkpoint_before(small, sharded):
    store = CheckpointStore(small / "c", keep_last=1, sharded=sharded)
    first = big(500_000)
    store.save(1, first)
    with pytest.raises(CheckpointError, match="no space left") as caught:
        store.save(2, big(700_000))
    assert caught.value.errno == errno.ENOSPC
    restored = store.restore()
    assert restored is not None
    assert restored.state == first
    # Nothing of the failed one takes room.
    store.save(3, big(300_000))
    assert [checkpoint.step for checkpoint in store.checkpoints()] == [3]


def test_in_the_background_too(small):
    store = CheckpointStore(small / "c")
    saver = BackgroundSaver(store)
    saver.save(1, lambda: big(700_000))
    saver.wait()
    saver.save(2, lambda: big(700_000))
    with pytest.raises(CheckpointError, match="no space left"):
        saver.wait()
    assert [checkpoint.step for checkpoint in store.checkpoints()] == [1]


def test_the_loop_goes_on_and_saves_once_there_is_room(small, caplog):
    (small / "other").write_bytes(bytes(900_000))
    ticks = iter(range(0, 10**6, 10))
    loop = Loop(
        CheckpointStore(small / "c"),
        podinfo=PodInfo("/nowhere"),
        schedule=SaveSchedule(1.0),
        tick=lambda: float(next(ticks)),
    )
    with loop:
        for step in range(1, 20):
            loop.step(step, lambda: big(300_000))
        assert loop.last is None
        assert "no space left" in caplog.text
        (small / "other").unlink()
        for step in range(20, 40):
            loop.step(step, lambda: big(300_000))
        assert loop.last is not None


@pytest.mark.parametrize("background", [False, True])
def test_a_program_whose_result_is_not_kept_does_not_end_as_done(small, background):
    code = f"""
import os
from forewarn.inpod import CheckpointStore, Loop
with Loop(CheckpointStore({str(small / "c")!r}), background={background}) as loop:
    assert not loop.step(1, dict)
    loop.finish(1, lambda: {{"weights": os.urandom(2_000_000)}})
"""
    done = run("-c", code, cwd=small)
    assert done.returncode == 1
    assert "no space left" in done.stderr.splitlines()[-1]


def test_a_read_only_home_is_said(small):
    store = CheckpointStore(small / "c")
    store.save(1, big(1000))
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    with pytest.raises(CheckpointError, match="read-only"):
        store.save(2, big(1000))
    restored = store.restore()
    assert restored is not None
    assert restored.step == 1


@pytest.mark.torch
@pytest.mark.parametrize("way", ["save", "async"])
def test_dcp_says_that_the_disk_is_full_and_leaves_it_room(small, way):
    """torch raises neither an ``Exception`` nor the system's number."""
    torch = pytest.importorskip("torch", reason="run by make inpod")
    from forewarn.inpod import dcp

    store = CheckpointStore(small / "c", keep_last=1, sharded=True)
    saver = dcp.AsyncSaver(store)

    def save(step: int, floats: int) -> None:
        state = {"x": torch.full((floats,), float(step))}
        if way == "save":
            dcp.save(store, step, state)
        else:
            saver.save(step, state)
            saver.wait()

    save(1, 100_000)
    with pytest.raises(CheckpointError, match="no space left") as caught:
        save(2, 1_000_000)
    assert caught.value.errno == errno.ENOSPC
    assert len(str(caught.value)) < 300
    state = {"x": torch.zeros(100_000)}
    restored = dcp.restore(store, state)
    assert restored is not None
    assert (restored.step, float(state["x"][0])) == (1, 1.0)
    save(3, 50_000)
    assert sorted(path.name for path in (small / "c").iterdir()) == [str(store.checkpoints()[0].name)]
