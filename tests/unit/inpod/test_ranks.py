"""Ranks agree by counting steps: they exchange in the same step, save in the same step, and none waits alone."""

from __future__ import annotations

import errno
import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod.cues import Cue
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.loop import Loop
from forewarn.inpod.ranks import Agreement, Ranks, agree, find_ranks
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.serializers import Functions, Plain
from forewarn.inpod.store import CheckpointStore
from forewarn.session import Facts
from tests.unit.inpod.threads import run

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)


def test_a_single_process_agrees_with_itself():
    assert (find_ranks().rank, find_ranks().size) == (0, 1)
    assert agree(True)
    assert not agree(False)
    agreement = Agreement(every=10)
    assert agreement.agree(True, 0.0)


def test_a_flag_on_one_rank_is_seen_by_all_in_the_same_step():
    def work(mine: Ranks) -> list[bool]:
        agreement = Agreement(mine)
        return [agreement.agree(step == 3 and mine.rank == 1, step * 0.1) for step in range(6)]

    assert run(3, work) == [[False, False, False, True, False, False]] * 3


def test_a_flag_between_two_exchanges_is_kept_until_the_next():
    def work(mine: Ranks) -> list[int]:
        agreement = Agreement(mine, every=5)
        answers = [agreement.agree(step == 6 and mine.rank == 2, 0.0) for step in range(20)]
        assert mine.exchanges == 4
        return [step for step, answer in enumerate(answers) if answer]

    assert run(3, work) == [[9]] * 3


def test_a_cadence_in_seconds_is_agreed_though_the_clocks_differ():
    """Rank 1's clock runs at half speed: its own wish would be another number of steps."""

    def work(mine: Ranks) -> list[int]:
        agreement = Agreement(mine, seconds=1.0)
        speed = 0.1 if mine.rank == 0 else 0.05
        return [step for step in range(100) if agreement.exchange([False], step * speed) is not None]

    first, second, third = run(3, work)
    assert first == second == third
    gaps = [b - a for a, b in zip(first, first[1:])]
    assert gaps[-1] in (9, 10)
    assert max(gaps) <= 10


def test_after_fast_first_steps_slow_ones_are_not_left_alone_for_long():
    def work(mine: Ranks) -> list[int]:
        agreement = Agreement(mine, seconds=1.0)
        times = [step * 1e-6 if step < 3 else (step - 2) * 10.0 for step in range(30)]
        return [step for step, now in enumerate(times) if agreement.exchange([False], now) is not None]

    exchanged = run(2, work)[0]
    gaps = [b - a for a, b in zip(exchanged, exchanged[1:])]
    assert max(gaps) <= 4
    assert gaps[-1] == 1


@pytest.mark.parametrize(("every", "seconds"), [(0, None), (1, 0.0)])
def test_a_cadence_of_nothing_is_refused(every, seconds):
    with pytest.raises(ValueError, match="every must be"):
        Agreement(Ranks(), every, seconds)


def test_each_rank_restores_its_own_part(tmp_path):
    def work(mine: Ranks) -> tuple[object, object]:
        store = CheckpointStore(tmp_path, ranks=mine)
        assert store.restore() is None
        for step in (1, 2, 3):
            store.save(step, {"rank": mine.rank, "step": step})
        restored = store.restore()
        assert restored is not None
        return restored.state, store.load_part(restored.checkpoint, 0)

    found = run(4, work)
    assert found == [({"rank": rank, "step": 3}, {"rank": 0, "step": 3}) for rank in range(4)]
    assert [checkpoint.step for checkpoint in CheckpointStore(tmp_path).checkpoints()] == [3, 2]


@pytest.mark.parametrize("number", [errno.ENOSPC, None])
def test_a_rank_that_cannot_write_fails_the_save_on_all(tmp_path, number):
    def work(mine: Ranks) -> tuple[int | None, list[int]]:
        def save(state, file):
            if mine.rank == 1 and state["step"] == 2:
                raise OSError(number, "no") if number else TypeError("no")
            Plain().save(state, file)

        store = CheckpointStore(tmp_path, ranks=mine, serializer=Functions("plain", save, Plain().load))
        store.save(1, {"step": 1})
        with pytest.raises(CheckpointError) as caught:
            store.save(2, {"step": 2})
        restored = store.restore()
        assert restored is not None
        return caught.value.errno, restored.step

    assert run(3, work) == [(number, 1)] * 3
    assert len(list(tmp_path.iterdir())) == 1


def test_a_part_that_one_rank_cannot_load_sends_all_to_the_one_before(tmp_path):
    def work(mine: Ranks) -> int:
        def load(file):
            state = Plain().load(file)
            if mine.rank == 2 and state["step"] == 2:
                raise RuntimeError("unexpected EOF")
            return state

        store = CheckpointStore(tmp_path, ranks=mine, serializer=Functions("plain", Plain().save, load))
        store.save(1, {"step": 1})
        store.save(2, {"step": 2})
        restored = store.restore()
        assert restored is not None
        return restored.step

    assert run(3, work) == [1, 1, 1]


def test_another_number_of_ranks_is_said_and_not_mixed(tmp_path):
    run(2, lambda mine: CheckpointStore(tmp_path, ranks=mine).save(1, {"step": 1}))

    def work(mine: Ranks) -> str:
        with pytest.raises(CheckpointError) as caught:
            CheckpointStore(tmp_path, ranks=mine).restore()
        return str(caught.value)

    assert all("saved by 2 ranks, not 3" in text for text in run(3, work))


class Scripted(PodInfo):
    """A podinfo directory of one rank, played from a list of warning instants, one per step."""

    def __init__(self, warnings: list[datetime | None]) -> None:
        super().__init__("/nowhere")
        self.warnings = warnings
        self.at = 0

    def read(self) -> Facts:
        return Facts(warning_at=self.warnings[min(self.at, len(self.warnings) - 1)])


def schedule_of(source: random.Random, length: int) -> list[datetime | None]:
    """Return a warning that comes and goes at random, near or past when it is there."""
    found: list[datetime | None] = []
    while len(found) < length:
        found += [None] * source.randint(0, 6)
        found += [NOW + timedelta(seconds=source.choice([-100, 0, 30]))] * source.randint(0, 6)
    return found[:length]


@pytest.mark.parametrize("background", [False, True], ids=["blocking", "background"])
def test_only_some_ranks_warned_all_save_in_the_same_step_once_per_episode(tmp_path, background):
    for seed in range(12):
        source = random.Random(seed)
        size, length = source.randint(2, 4), 20
        scripts = [schedule_of(source, length) for _ in range(size)]
        if source.random() < 0.5:
            scripts[1:] = [[None] * length for _ in scripts[1:]]
        warned = [any(script[step] for script in scripts) for step in range(length)]
        expected = [step for step in range(length) if warned[step] and not (step and warned[step - 1])]

        def work(mine: Ranks, scripts=scripts, seed=seed, length=length) -> list[int]:
            store = CheckpointStore(tmp_path / str(seed), keep_last=1, ranks=mine)
            podinfo = Scripted(scripts[mine.rank])
            schedule = SaveSchedule(1e6)
            loop = Loop(
                store, podinfo=podinfo, schedule=schedule, stop_on_warning=False, background=background, now=lambda: NOW
            )
            saves = []
            with loop:
                for step in range(length):
                    podinfo.at = step
                    assert not loop.step(step, lambda step=step: saves.append(step) or {"step": step})
            return saves

        assert run(size, work) == [expected] * size, f"seed {seed}"
        if expected:
            assert CheckpointStore(tmp_path / str(seed)).checkpoints()[0].step == expected[-1]


def test_a_signal_on_one_rank_stops_all_with_a_checkpoint(tmp_path):
    def work(mine: Ranks) -> tuple[int, int]:
        store = CheckpointStore(tmp_path, ranks=mine)
        with Loop(store, podinfo=PodInfo("/nowhere")) as loop:
            for step in range(100):
                if step == 7 and mine.rank == 1:
                    loop.heed.signal.count += 1
                if loop.step(step, lambda step=step: {"step": step}):
                    return step, loop.exit_code
        return -1, 0

    assert run(3, work) == [(7, contract.EXIT_STOPPED)] * 3
    assert CheckpointStore(tmp_path).checkpoints()[0].step == 7


def test_cues_keep_their_order_in_the_exchange():
    """The flags travel by position: a new cue must be known to all ranks of a job, which run one version."""
    assert [cue.name for cue in Cue] == ["WARNING", "GUARANTEE_END", "RUNTIME_LIMIT", "IDLE_CULL"]


def test_a_directory_that_not_all_ranks_see_at_once(tmp_path):
    """On NFS a rank may list a directory late: the ranks then use what all of them can read, or say so."""
    CheckpointStore(tmp_path / "shared", ranks=None, sharded=True).save(1, {"step": 1})

    def work(mine: Ranks) -> str:
        directory = tmp_path / ("shared" if mine.rank == 0 else "elsewhere")
        with pytest.raises(CheckpointError) as caught:
            CheckpointStore(directory, ranks=mine).restore()
        return str(caught.value)

    assert all("none of the checkpoints can be loaded" in text for text in run(2, work))
    assert Path(tmp_path / "shared").exists()
