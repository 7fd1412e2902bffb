"""The adapters in the real frameworks: a warning saves, a signal stops, the next run goes on as if nothing had been."""

from __future__ import annotations

import errno
import io
import re
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from forewarn.inpod import jupyter
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.store import CheckpointStore
from forewarn.inpod.transformers import Heeding
from forewarn.inpod.volume import Volume
from forewarn.session import Facts
from tests.integration.inpod.support import run

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)
PAST = {"termination-warning-at": "2026-11-29T19:30:00Z", "termination-warning-risk": "1.00"}

LIGHTNING = """
import os, signal, sys, torch
if sys.argv[1] == "lightning":
    import lightning.pytorch as pl
else:
    import pytorch_lightning as pl
from forewarn.inpod.lightning import callback
from forewarn.inpod.volume import Volume
torch.set_num_threads(1)
pl.seed_everything(1)
warn_at, term_at, stop = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "stop"
volume = Volume("podinfo"); volume.write_podinfo({})
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = self.layer(batch[0]).square().mean()
        print(f"step {self.trainer.global_step + 1} loss {loss.item():.9f}", flush=True)
        if self.trainer.global_step + 1 == warn_at:
            volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
        if self.trainer.global_step + 1 == term_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]
class Data:
    # Lightning keeps the place in an epoch only of a loader that has it, such as a StatefulDataLoader.
    def __init__(self): self.batches, self.at = torch.randn(32, 4).split(4), 0
    def __len__(self): return len(self.batches)
    def __iter__(self):
        # Lightning takes as many as there are, and does not come back to see the end.
        self.at %= len(self)
        while self.at < len(self):
            self.at += 1
            yield (self.batches[self.at - 1],)
    def state_dict(self): return {"at": self.at}
    def load_state_dict(self, kept): self.at = kept["at"]
data = Data()
heed = callback("checkpoints", config={"a": 1}, stop_on_warning=stop)
trainer = pl.Trainer(max_epochs=3, callbacks=[heed], logger=False, enable_checkpointing=False, accelerator="cpu",
                     enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Module(), data, ckpt_path=heed.newest())
sys.exit(heed.exit_code)
"""


def losses(output: str) -> dict[int, str]:
    return {int(step): loss for step, loss in re.findall(r"^step (\d+) loss (\S+)$", output, re.MULTILINE)}


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_lightning_saves_stops_and_resumes_with_the_same_losses(tmp_path):
    pytest.importorskip("lightning", reason="run by make inpod")
    program = tmp_path / "program.py"
    program.write_text(LIGHTNING)

    def fit(warn_at: int, term_at: int, stop: str, where: str = "run") -> tuple[int, dict[int, str]]:
        directory = tmp_path / where
        directory.mkdir(exist_ok=True)
        podinfo = str(directory / "podinfo")
        done = run(program, "lightning", warn_at, term_at, stop, cwd=directory, PODINFO=podinfo)
        assert done.returncode in (0, 75), done.stderr
        return done.returncode, losses(done.stdout)

    store = CheckpointStore(tmp_path / "run" / "checkpoints")
    code, whole = fit(0, 0, "go", "whole")
    assert (code, sorted(whole)) == (0, list(range(1, 25)))
    code, first = fit(5, 0, "stop")
    assert (code, max(first)) == (75, 5)
    assert [checkpoint.step for checkpoint in store.checkpoints()] == [5]
    # Lightning answers SIGTERM with an exit of its own, with code 0.
    code, second = fit(8, 11, "go")
    assert (code, sorted(second)) == (75, list(range(6, 12)))
    assert [checkpoint.step for checkpoint in store.checkpoints()] == [11, 8]
    code, last = fit(0, 0, "go")
    assert code == 0
    assert {**first, **second, **last} == whole


@pytest.mark.torch
def test_a_sharded_model_that_lightning_cannot_write_is_a_checkpoint_error(tmp_path):
    """For a sharded model Lightning saves with DCP, whose exception ``except Exception`` does not catch."""
    pytest.importorskip("lightning", reason="run by make inpod")
    from torch.distributed.checkpoint.api import CheckpointException

    from forewarn.inpod.lightning import callback

    class Trainer:
        def save_checkpoint(self, path):
            raise CheckpointException("write", {1: (OSError(errno.ENOSPC, "No space left on device"), None)})

    heed = callback(tmp_path / "checkpoints")
    heed.on_train_start(Trainer(), None)
    try:
        with pytest.raises(CheckpointError, match="no space left"):
            heed.loop.finish(1, dict)
    finally:
        heed.on_train_end(None, None)
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_lightning_under_its_other_name(tmp_path):
    pytest.importorskip("pytorch_lightning", reason="run by make inpod")
    program = tmp_path / "program.py"
    program.write_text(LIGHTNING)
    done = run(program, "pytorch_lightning", 5, 0, "stop", cwd=tmp_path, PODINFO=str(tmp_path / "podinfo"))
    assert (done.returncode, max(losses(done.stdout))) == (75, 5), done.stderr
    assert [checkpoint.step for checkpoint in CheckpointStore(tmp_path / "checkpoints").checkpoints()] == [5]


VALIDATING = """
import os, signal, sys, torch
import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from forewarn.inpod.lightning import callback
from forewarn.inpod.volume import Volume
torch.set_num_threads(1)
pl.seed_everything(1)
when, step, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
volume = Volume("podinfo"); volume.write_podinfo({})
def cue():
    if when == "warning":
        volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
    elif when == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, given, index):
        print("step", self.trainer.global_step + 1, flush=True)
        if (self.trainer.global_step + 1, -1) == (step, batch):
            cue()
        return self.layer(given[0]).square().mean()
    def validation_step(self, given, index):
        print("validation", index, flush=True)
        self.log("loss", self.layer(given[0]).square().mean())
        if (self.trainer.global_step, index) == (step, batch):
            cue()
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 4)), batch_size=4)
heed = callback("checkpoints")
monitors = [EarlyStopping("loss"), ModelCheckpoint("best", monitor="loss")]
trainer = pl.Trainer(max_epochs=3, min_epochs=2, callbacks=[*monitors, heed], logger=False, accelerator="cpu",
                     num_sanity_val_steps=0, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Module(), rows, rows, ckpt_path=heed.newest())
sys.exit(heed.exit_code)
"""


@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("when", "step", "batch", "validated"),
    [
        ("warning", 5, -1, 0),
        # An epoch whose last batch is done is validated: the next run would take it for that.
        ("warning", 8, -1, 8),
        ("warning", 8, 2, 8),
        ("SIGTERM", 5, -1, 0),
        ("SIGTERM", 8, 2, 3),
    ],
)
def test_lightning_stops_with_one_save_and_begins_no_validation(tmp_path, when, step, batch, validated):
    """Told to stop, Lightning itself would validate first, and with ``min_epochs`` train on."""
    pytest.importorskip("lightning", reason="run by make inpod")
    program = tmp_path / "program.py"
    program.write_text(VALIDATING)
    done = run(program, when, step, batch, cwd=tmp_path, PODINFO=str(tmp_path / "podinfo"))
    assert done.returncode == 75, done.stderr
    lines = done.stdout.splitlines()
    assert [lines.count(f"step {number}") for number in (step, step + 1)] == [1, 0]
    assert sum(line.startswith("validation") for line in lines) == validated
    # Numbers are given in turn: a second save would be 000002.
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [f"000001-step-{step}"]
    if batch < 0:
        again = run(program, "nothing", 0, 0, cwd=tmp_path, PODINFO=str(tmp_path / "podinfo"))
        assert again.returncode == 0, again.stderr
        assert again.stdout.splitlines()[0] == f"step {step + 1}"


TRANSFORMERS = """
import os, signal, sys, torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from forewarn.inpod.transformers import callback, newest
from forewarn.inpod.volume import Volume
torch.set_num_threads(1)
warn_at, term_at, stop = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "stop"
volume = Volume("podinfo"); volume.write_podinfo({})
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, **_):
        return {"loss": self.layer(x).square().mean()}
class Tell(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if state.global_step + 1 == warn_at:
            volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
        if state.global_step + 1 == term_at:
            os.kill(os.getpid(), signal.SIGTERM)
    def on_save(self, args, state, control, **_):
        print("saved", state.global_step, flush=True)
    def on_evaluate(self, args, state, control, **_):
        print("evaluated", state.global_step, flush=True)
    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)
torch.manual_seed(1)
rows = [{"x": torch.randn(4)} for _ in range(32)]
heed = callback(stop_on_warning=stop)
arguments = TrainingArguments(
    "out", max_steps=24, per_device_train_batch_size=4, save_strategy="no", save_total_limit=2, logging_steps=1,
    report_to=[], disable_tqdm=True, use_cpu=True, remove_unused_columns=False, seed=1, learning_rate=0.01,
    eval_strategy=sys.argv[4] if len(sys.argv) > 4 else "no", eval_steps=1, prediction_loss_only=True)
trainer = Trainer(Model(), arguments, train_dataset=rows, eval_dataset=rows, callbacks=[Tell(), heed])
trainer.train(resume_from_checkpoint=newest("out"))
sys.exit(heed.exit_code)
"""


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_transformers_saves_stops_and_resumes_with_the_same_losses(tmp_path):
    pytest.importorskip("transformers", reason="run by make inpod")
    program = tmp_path / "program.py"
    program.write_text(TRANSFORMERS)
    podinfo = str(tmp_path / "podinfo")
    offline = {"HF_HUB_OFFLINE": "1"}
    (tmp_path / "whole").mkdir()
    whole = run(program, 0, 0, "go", cwd=tmp_path / "whole", PODINFO=str(tmp_path / "whole" / "podinfo"), **offline)
    assert whole.returncode == 0, whole.stderr
    assert sorted(losses(whole.stdout)) == list(range(1, 25))

    first = run(program, 5, 0, "stop", cwd=tmp_path, PODINFO=podinfo, **offline)
    assert first.returncode == 75, first.stderr
    assert max(losses(first.stdout)) == 5

    second = run(program, 8, 11, "go", cwd=tmp_path, PODINFO=podinfo, **offline)
    assert second.returncode == 75, second.stderr
    assert sorted(losses(second.stdout)) == list(range(6, 12))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["checkpoint-11", "checkpoint-8"]
    # The newest loses its marker, as after a kill inside the save: the one before is used.
    (tmp_path / "out" / "checkpoint-11" / "DONE").unlink()

    last = run(program, 0, 0, "go", cwd=tmp_path, PODINFO=podinfo, **offline)
    assert last.returncode == 0, last.stderr
    assert min(losses(last.stdout)) == 9
    assert {**losses(first.stdout), **losses(second.stdout), **losses(last.stdout)} == losses(whole.stdout)


@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("warn_at", "term_at", "evaluate"), [(5, 0, "steps"), (0, 5, "epoch")])
def test_transformers_says_why_it_stops_saves_once_and_evaluates_no_more(tmp_path, warn_at, term_at, evaluate):
    pytest.importorskip("transformers", reason="run by make inpod")
    program = tmp_path / "program.py"
    program.write_text(TRANSFORMERS)
    podinfo = str(tmp_path / "podinfo")
    done = run(program, warn_at, term_at, "stop", evaluate, cwd=tmp_path, PODINFO=podinfo, HF_HUB_OFFLINE="1")
    assert done.returncode == 75, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("saved")] == ["saved 5"]
    evaluated = [f"evaluated {step}" for step in range(1, 5)] if evaluate == "steps" else []
    assert [line for line in lines if line.startswith("evaluated")] == evaluated
    assert f"forewarn: step 5, {'termination warning' if warn_at else 'SIGTERM'}; stopping" in done.stderr


def test_a_second_training_after_a_stop_is_one_like_any_other():
    heed = Heeding({})
    heed.exit_code = 75
    heed.on_train_begin(SimpleNamespace(save_total_limit=2), SimpleNamespace(global_step=5), None)
    due = SimpleNamespace(should_evaluate=True, should_save=True)
    heed.on_epoch_end(None, None, due)
    heed.on_train_end(None, None, None)
    assert (heed.exit_code, due.should_evaluate, due.should_save) == (0, True, True)


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_the_line_magic_in_a_real_ipython(tmp_path):
    pytest.importorskip("IPython", reason="run by make inpod")
    Volume(tmp_path).write_podinfo(PAST)
    code = "get_ipython().run_line_magic('load_ext', 'forewarn.inpod.jupyter')\n%forewarn\n"
    (tmp_path / "cell.ipy").write_text(code)
    done = run(
        "-m", "IPython", "--no-banner", "--colors=NoColor", tmp_path / "cell.ipy", cwd=tmp_path, PODINFO=str(tmp_path)
    )
    assert "warned, its time is past: may be stopped at any time" in done.stdout, done.stdout + done.stderr
    assert "certain" in done.stdout


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(), ["no warning"]),
        (Facts(warning_at=NOW + timedelta(minutes=5)), ["may be stopped soon", "in 5 min", "unknown"]),
        (
            Facts(warning_at=NOW + timedelta(hours=1), guaranteed_until=NOW + timedelta(hours=1)),
            ["not to be stopped before the guarantee ends", "until 2026-11-29 20:30:00 UTC"],
        ),
        (Facts(guaranteed_until=NOW - timedelta(hours=1)), ["no warning", "ended 2026-11-29 18:30:00 UTC (1 h ago)"]),
        (
            Facts(idle_status="warning", idle_cull_deadline=NOW + timedelta(minutes=9)),
            ["GPU", "cull", "9 min"],
        ),
        (Facts(warning_at=NOW, warning_message="a\x1b[31mb"), ["message        a [31mb"]),
    ],
)
def test_the_magic_shows_the_session(facts, words):
    text = jupyter.describe(facts, NOW)
    assert all(word in text for word in words), text


def test_the_magic_prints_where_there_is_no_pod(monkeypatch):
    monkeypatch.setenv("PODINFO", "/nowhere")
    with redirect_stdout(io.StringIO()) as out:
        jupyter.show()
    assert out.getvalue() == "no warning\n"
