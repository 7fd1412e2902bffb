"""What a torch checkpoint holds: left whole, the run goes on to the bit; each part that is left out is missed."""

from __future__ import annotations

import collections
import datetime
import os
import random
import signal
import time
from pathlib import Path

import pytest

from forewarn.inpod import CheckpointStore, Loop, PodInfo, Safetensors, SaveSchedule, Torch, state
from forewarn.inpod.background import BackgroundSaver, detached
from forewarn.inpod.durable import CheckpointError
from tests.integration.inpod.support import run, same, start

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
torch = pytest.importorskip("torch", reason="run by make inpod")
np = pytest.importorskip("numpy")

if torch:
    torch.set_num_threads(1)


class Run:
    """A small training run that uses every kind of state there is."""

    def __init__(self, compiled: bool = False) -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
        self.stepped = torch.compile(self.model, backend="eager") if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.parts = {
            "model": self.stepped,
            "optimizer": self.optimizer,
            "scheduler": torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=100),
            "scaler": torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3),
            "averaged": torch.optim.swa_utils.AveragedModel(self.model),
        }
        self.own = {"generators": {"torch": torch.Generator().manual_seed(3), "numpy": np.random.default_rng(4)}}
        self.losses: list[float] = []

    def step(self) -> None:
        generators = self.own["generators"]
        x = torch.randn(5, 4, generator=generators["torch"]) * float(generators["numpy"].normal())
        x = x + random.random() + float(np.random.rand())
        scaler = self.parts["scaler"]
        loss = self.stepped(x).square().mean()
        self.optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(self.optimizer)
        scaler.update()
        self.parts["scheduler"].step()
        self.parts["averaged"].update_parameters(self.model)
        self.losses.append(loss.item())

    def gathered(self, step: int) -> dict[str, object]:
        return state.gather(step=step, epoch=2, best={"loss": 0.5}, extra={"position": 7}, **self.parts, **self.own)


def continued(tmp_path: Path, drop: str | None = None, compiled: tuple[bool, bool] = (False, False)) -> list[float]:
    first = Run(compiled[0])
    for _ in range(10):
        first.step()
    store = CheckpointStore(tmp_path / "c", serializer=Torch())
    store.save(10, first.gathered(10))
    second = Run(compiled[1])
    restored = store.restore()
    assert restored is not None
    parts = {name: part for name, part in second.parts.items() if name != drop}
    assert state.restore(restored.state, **parts, **second.own) == 10
    for _ in range(10):
        second.step()
    return second.losses


def uninterrupted() -> list[float]:
    whole = Run()
    for _ in range(20):
        whole.step()
    return whole.losses[10:]


def test_a_resumed_run_has_the_losses_of_an_uninterrupted_one(tmp_path):
    assert continued(tmp_path) == uninterrupted()


@pytest.mark.parametrize("compiled", [(True, False), (False, True), (True, True)])
def test_compiled_and_plain_modules_read_each_others_checkpoints(tmp_path, compiled):
    assert continued(tmp_path, compiled=compiled) == uninterrupted()


@pytest.mark.parametrize("drop", ["optimizer", "scheduler", "model"])
def test_a_part_left_out_shows_as_a_jump_in_the_loss(tmp_path, drop):
    assert continued(tmp_path, drop=drop) != uninterrupted()


def test_a_part_that_the_checkpoint_lacks_is_an_error():
    run_ = Run()
    kept = state.gather(step=1, model=run_.model)
    with pytest.raises(KeyError, match="holds no optimizer"):
        state.restore(kept, model=run_.model, optimizer=run_.optimizer)


def test_the_random_states_of_others_may_be_missing():
    """A process without numpy keeps none of its state, and one with it leaves its own as it is."""
    kept = state.gather(step=1)
    del kept["random"]["numpy"]
    assert state.restore(kept) == 1


def test_nothing_but_tensors_and_plain_data_is_loaded(tmp_path):
    """A pickle in a checkpoint must not run."""

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "owned",))

    store = CheckpointStore(tmp_path / "c", serializer=Torch())
    store.save(1, {"step": 1})
    store.save(2, {"evil": Evil()})
    restored = store.restore()
    assert restored is not None
    assert restored.step == 1
    assert "Torch(allowed=" in restored.skipped[0]
    assert "\x1b" not in restored.skipped[0]
    assert not (tmp_path / "owned").exists()


REFUSED = {
    "a numpy array": (lambda: {"w": np.ones(3)}, "numpy.ndarray"),
    "a numpy number": (lambda: state.gather(step=1, extra={"loss": np.float32(0.5)}), "numpy.*scalar"),
    "a numpy learning rate": (
        lambda: state.gather(step=1, optimizer=torch.optim.SGD([torch.ones(1)], lr=np.logspace(-3, -1, 3)[1])),
        "numpy.*scalar",
    ),
    "a path": (lambda: {"p": Path("/x")}, "PosixPath"),
    "a date": (lambda: {"p": datetime.datetime(2026, 11, 29)}, "datetime.datetime"),  # noqa: DTZ001
    "a defaultdict": (lambda: {"p": collections.defaultdict(int, {1: 2})}, "collections.defaultdict"),
    "a very long number": (lambda: {"p": 1 << 3000}, "cannot read"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_could_not_be_loaded_is_refused_at_the_first_save(tmp_path, what):
    """Not at the resume, after hours of saves."""
    make, named = REFUSED[what]
    store = CheckpointStore(tmp_path, serializer=Torch())
    with pytest.raises(CheckpointError, match=named) as caught:
        store.save(1, make())
    assert "Torch(allowed=[…])" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_later_save_that_could_not_be_loaded_is_kept_and_said(tmp_path, caplog):
    """It may be the last before a stop, and with its types allowed it is loaded."""
    store = CheckpointStore(tmp_path, serializer=Torch())
    store.save(1, {"w": torch.ones(3)})
    assert not caplog.records
    store.save(2, {"p": Path("/x")})
    assert "000002-step-2 will not be restored as it is: the state holds pathlib.PosixPath" in caplog.text
    restored = CheckpointStore(tmp_path, serializer=Torch(allowed=[type(Path("/x"))])).restore()
    assert restored is not None
    assert restored.state == {"p": Path("/x")}


def test_what_the_program_allows_itself_stays_allowed(tmp_path):
    kind = type(Path("/x"))
    torch.serialization.add_safe_globals([kind])
    try:
        store = CheckpointStore(tmp_path, serializer=Torch(allowed=[kind]))
        store.save(1, {"p": Path("/x")})
        assert store.restore() is not None
        assert kind in torch.serialization.get_safe_globals()
    finally:
        torch.serialization.clear_safe_globals()


def test_what_is_best_so_far_may_be_nothing_yet(tmp_path):
    kept = state.gather(step=1, epoch=1.5, best={"loss": None, "epoch": 3, "name": "first"})
    store = CheckpointStore(tmp_path)
    store.save(1, kept, epoch=1.5)
    restored = store.restore()
    assert restored is not None
    assert (restored.state["best"], restored.state["epoch"]) == (kept["best"], 1.5)
    assert restored.checkpoint.manifest.epoch == 1.5


def test_numbers_of_numpy_are_gathered_as_plain_ones(tmp_path):
    kept = state.gather(step=np.int64(3), epoch=np.int64(4), best={"loss": np.float64(0.5), "x": torch.tensor(0.25)})
    store = CheckpointStore(tmp_path)
    store.save(np.int64(3), kept, epoch=np.int64(4))
    restored = store.restore()
    assert restored is not None
    assert [restored.state[name] for name in ("step", "epoch", "best")] == [3, 4, {"loss": 0.5, "x": 0.25}]
    assert restored.checkpoint.manifest.epoch == 4


class Kept:
    def __init__(self, value: int) -> None:
        self.value = value


def test_a_type_on_the_allow_list_is_loaded(tmp_path):
    CheckpointStore(tmp_path, serializer=Torch(allowed=[Kept])).save(1, {"kept": Kept(5)})
    with pytest.raises(CheckpointError, match=r"none of the checkpoints.*Kept.*Torch\(allowed="):
        CheckpointStore(tmp_path, serializer=Torch()).restore()
    restored = CheckpointStore(tmp_path, serializer=Torch(allowed=[Kept])).restore()
    assert restored is not None
    assert restored.state["kept"].value == 5


def test_safetensors_keep_weights(tmp_path):
    weights = torch.nn.Linear(3, 2).state_dict()
    store = CheckpointStore(tmp_path, serializer=Safetensors())
    store.save(1, weights)
    restored = CheckpointStore(tmp_path).restore()
    assert restored is not None
    assert same(dict(sorted(weights.items())), dict(sorted(restored.state.items()))) is None


def test_the_serializer_follows_what_the_program_has_loaded(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(1, {"x": torch.ones(2)})
    found = store.restore()
    assert found is not None
    assert found.checkpoint.manifest.serializer == "torch"
    # A program without torch says what it is, instead of failing on the bytes.
    code = "import sys; from forewarn.inpod import CheckpointStore as S; print(S(sys.argv[1]).checkpoints()[0].step)"
    assert run("-c", code, tmp_path, cwd=tmp_path).stdout == "1\n"


@pytest.mark.parametrize("damage", ["short", "bit"])
def test_a_torch_file_that_is_damaged_is_not_loaded(tmp_path, damage):
    store = CheckpointStore(tmp_path, serializer=Torch())
    store.save(1, {"x": torch.ones(100)})
    newest = Path(store.save(2, {"x": torch.zeros(100)}).path)
    data = bytearray(newest.read_bytes())
    if damage == "short":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 8
    newest.write_bytes(data)
    restored = store.restore()
    assert restored is not None
    assert restored.step == 1


def test_a_copy_for_the_background_is_not_changed_by_later_steps(tmp_path):
    run_ = Run()
    run_.step()
    saver = BackgroundSaver(CheckpointStore(tmp_path, serializer=Torch()))
    before = run_.gathered(1)
    kept = detached(before)
    saver.save(1, lambda: run_.gathered(1))
    for _ in range(5):
        run_.step()
    saver.wait()
    restored = saver.store.restore()
    assert restored is not None
    assert same(kept["model"], restored.state["model"]) is None
    assert same(kept, run_.gathered(1)) is not None


def test_numpy_arrays_and_scalars_come_back_without_pickle(tmp_path):
    from forewarn.inpod import Plain

    given = {
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.ones((2, 3))),
        "empty": np.zeros((0, 4)),
        "scalar": np.float64(0.1),
        "whole": np.int16(-3),
        "bool": np.array([True, False]),
        "generator": np.random.default_rng(5).bit_generator.state,
        "time": np.datetime64("2026-11-29"),
    }
    store = CheckpointStore(tmp_path, serializer=Plain())
    store.save(1, given)
    restored = store.restore()
    assert restored is not None
    assert same(given, restored.state) is None
    with pytest.raises(CheckpointError, match=r"state\['x'\] is a numpy"):
        store.save(2, {"x": np.array([object()])})
    with pytest.raises(CheckpointError, match=r"state\['x'\] is a numpy matrix"):
        store.save(2, {"x": np.matrix([[1]])})


DCP = """
import os, sys, time
import torch, torch.distributed as dist
from forewarn.inpod import CheckpointStore, dcp, find_ranks
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("gloo")
ranks = find_ranks()
store = CheckpointStore(sys.argv[1], keep_last=2, ranks=ranks, sharded=True)
def fresh():
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    return model, torch.optim.Adam(model.parameters())
model, optimizer = fresh()
for _ in range(3):
    model(torch.ones(2, 64)).sum().backward(); optimizer.step()
whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
assert dcp.save(store, 3, whole).manifest.serializer == "torch-dcp"
saver = dcp.AsyncSaver(store)
for step in (4, 5, 6):
    model(torch.ones(2, 64)).sum().backward(); optimizer.step()
    whole["step"] = step
    saver.save(step, whole)
    assert saver.outstanding
    before = {name: value.clone() for name, value in model.state_dict().items()}
    deadline = time.monotonic() + 60
    while saver.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
ranks.agree(False)  # rank 0 has deleted what was superfluous
assert [c.step for c in store.checkpoints()] == [6, 5], store.checkpoints()
other, fresh_optimizer = fresh()
target = {"model": other.state_dict(), "step": 0}
found = dcp.restore(store, target)
assert found.step == 6 and target["step"] == 6, target["step"]
assert all(torch.equal(target["model"][name], value) for name, value in before.items())
# The newest one loses a byte of its pickle: it must not be opened.
ranks.agree(False)
if ranks.rank == 0:
    path = store.checkpoints()[0].path + "/.metadata"
    data = bytearray(open(path, "rb").read()); data[-2] ^= 1; open(path, "wb").write(data)
ranks.agree(False)
assert dcp.restore(store, target).step == 5
print("fine", ranks.rank)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_dcp_blocking_and_asynchronous(tmp_path, ranks):
    assert_fine_on(ranks, DCP, tmp_path)


def assert_fine_on(ranks, text, folder):
    """Run a program on so many ranks, each of which ends with "fine"."""
    program = folder / "program.py"
    program.write_text(text)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    done = run(*launcher, program, folder / "c", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine") == ranks


DCP_OTHER = """
import os, sys
import torch, torch.distributed as dist
from forewarn.inpod import CheckpointStore, dcp, find_ranks
from forewarn.inpod.durable import CheckpointError
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("gloo")
ranks = find_ranks()
store = CheckpointStore(sys.argv[1], ranks=ranks, sharded=True)
dcp.save(store, 1, {"x": torch.ones(10)})
dcp.save(store, 2, {"y": torch.ones(10)})
found = dcp.restore(store, {"x": torch.zeros(10)})
assert found.step == 1 and "Missing key" in found.skipped[0], found.skipped
try:
    dcp.restore(store, {"z": torch.zeros(10)})
except CheckpointError as error:
    assert "Missing key" in str(error) and "Traceback" not in str(error), error
else:
    raise AssertionError("it was loaded")
class Odd:
    def __reduce__(self): raise RuntimeError("this cannot be pickled")
saver = dcp.AsyncSaver(store)
for way in ("save", "async"):
    try:
        if way == "save":
            dcp.save(store, 3, {"odd": Odd()})
        else:
            saver.save(3, {"odd": Odd()})
            saver.wait()
    except CheckpointError as error:
        assert "this cannot be pickled" in str(error) and "Traceback" not in str(error), error
    else:
        raise AssertionError("it was saved")
ranks.agree(False)  # rank 0 has deleted the rest of it
assert sorted(c.step for c in store.checkpoints()) == [1, 2] and len(os.listdir(sys.argv[1])) == 2
print("fine", ranks.rank)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_dcp_cannot_load_or_save_is_a_checkpoint_error(tmp_path, ranks):
    """Its own exception is none that ``except Exception`` catches."""
    assert_fine_on(ranks, DCP_OTHER, tmp_path)


WORKERS = """
import os, signal, sys, time
import torch
from forewarn.inpod import CheckpointStore, KeepWorker, Loop, PodInfo, SaveSchedule, state
class Data(torch.utils.data.Dataset):
    def __len__(self): return 10000
    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.ones(2) * i
keep = KeepWorker() if sys.argv[2] == "keep" else None
loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, worker_init_fn=keep)
with Loop(CheckpointStore(sys.argv[1]), podinfo=PodInfo("/nowhere"), schedule=SaveSchedule(1000)) as loop:
    for step, batch in enumerate(loader, start=1):
        print("step", step, flush=True)
        if step == 5:
            # The signals come from outside now, to the whole group, in the middle of a step.
            time.sleep(1)
        if loop.step(step, lambda: {"step": step}):
            break
sys.exit(loop.exit_code)
"""


def test_workers_of_a_data_loader_outlive_a_signal_to_the_group_until_the_save(tmp_path):
    """torchrun and a terminal signal the group. A worker signalled by its own parent leaves quietly: no proof."""
    program = tmp_path / "program.py"
    program.write_text(WORKERS)
    for kind in ("keep", "plain"):
        process = start(program, tmp_path / kind, kind, cwd=tmp_path)
        try:
            while (line := process.stdout.readline()) and line != "step 5\n":
                pass
            for _ in range(2):
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(0.2)
            output = process.communicate(timeout=90)[0]
        finally:
            process.kill()
            process.wait()
        saved = [checkpoint.step for checkpoint in CheckpointStore(tmp_path / kind).checkpoints()]
        if kind == "keep":
            assert (process.returncode, saved) == (75, [5]), output
        else:
            # Without it the step in progress raises: should torch no longer need it, this tells.
            assert "killed by signal" in output
            assert saved == []


def test_the_loop_saves_a_torch_state(tmp_path):
    run_ = Run()
    store = CheckpointStore(tmp_path)
    with Loop(store, podinfo=PodInfo("/nowhere"), schedule=SaveSchedule(0.001, shortest=0.0), background=True) as loop:
        for step in range(1, 30):
            run_.step()
            assert not loop.step(step, lambda step=step: run_.gathered(step))
        loop.finish(29, lambda: run_.gathered(29))
    restored = store.restore()
    assert restored is not None
    assert same(restored.state, run_.gathered(29)) is None
