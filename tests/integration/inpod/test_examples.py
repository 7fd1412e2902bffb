"""Each example runs, is short, and survives a rehearsal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from forewarn.inpod.store import CheckpointStore
from forewarn.inpod.volume import Volume
from tests.integration.inpod.support import EXAMPLES, ROOT, environ, run, start

SCRIPT = ROOT / "operator" / "forewarn" / "inpod" / "forewarn.sh"


@pytest.mark.parametrize("name", ["batch_loop.sh", "numpy_trainer.py", "torch_trainer.py"])
def test_an_example_is_at_most_60_lines(name):
    assert len((EXAMPLES / name).read_text().splitlines()) <= 60


def loops() -> list[str]:
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"^    from forewarn\.inpod import (?:.*\n|\n)*?(?=^\S)", readme, re.MULTILINE)
    assert found is not None
    docs = re.findall(
        r"^```python\n(from forewarn\.inpod import CheckpointStore.*?)^```", page(), re.MULTILINE | re.DOTALL
    )
    return [textwrap.dedent(found.group()), *docs]


def page() -> str:
    return (ROOT / "docs" / "inpod.md").read_text()


def test_the_loops_of_the_documents_save_once_past_the_guarantee_and_once_warned(tmp_path, monkeypatch):
    """Past its guarantee a session is near its stop for the rest of the run: no reason to save in each step."""
    monkeypatch.setenv("PODINFO", str(tmp_path / "podinfo"))
    assert len(loops()) == 2
    for number, code in enumerate(loops()):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        volume = Volume(tmp_path / "podinfo")
        volume.write_podinfo({"guaranteed-until": "2026-11-29T19:30:00Z"})

        def train(state, volume=volume):
            if state["step"] == 30:
                volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
            return {"step": state["step"] + 1}

        with pytest.raises(SystemExit) as stopped:
            exec(code, {"train": train, "train_one_step": train, "last": 50})
        assert stopped.value.code == 75
        assert sorted(path.stem for path in Path("checkpoints").glob("*.ckpt")) == ["000001-step-1", "000002-step-31"]


def batch(tmp_path: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    env = environ(FOREWARN_SH=str(SCRIPT), UNIT_SECONDS="0", PODINFO=str(tmp_path / "podinfo"), **extra)
    command = [EXAMPLES / "batch_loop.sh", tmp_path / "results"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_batch_loop_stops_between_two_units_and_goes_on_from_there(tmp_path):
    volume = Volume(tmp_path / "podinfo")
    volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
    first = batch(tmp_path, UNITS="3")
    assert (first.returncode, first.stdout) == (75, "")
    assert "stopped before unit 1" in first.stderr
    volume.write_podinfo({})
    second = batch(tmp_path, UNITS="3")
    assert second.returncode == 0
    volume.write_podinfo({"termination-warning-at": "2026-11-29T19:30:00Z"})
    third = batch(tmp_path, UNITS="5")
    assert third.returncode == 75
    assert "stopped before unit 4" in third.stderr
    volume.write_podinfo({})
    last = batch(tmp_path, UNITS="5")
    assert last.stdout == "unit 4\nunit 5\nall units are done\n"
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["1", "2", "3", "4", "5"]


def test_the_batch_loop_ends_its_unit_before_it_heeds_sigterm(tmp_path):
    env = environ(FOREWARN_SH=str(SCRIPT), UNIT_SECONDS="0.3", UNITS="50", PODINFO=str(tmp_path))
    command = [EXAMPLES / "batch_loop.sh", tmp_path / "results"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "unit 1\n"
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=30)[1]
    assert process.returncode == 75
    assert "stopped by SIGTERM" in errors
    # The signal may have come just before the work began; a result is whole or not there.
    assert [path.name for path in (tmp_path / "results").iterdir()] in (["1"], [])


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_the_numpy_trainer_passes_a_rehearsal(tmp_path):
    pytest.importorskip("numpy")
    command = [sys.executable, str(EXAMPLES / "numpy_trainer.py"), "checkpoints", "1500", "0.002"]
    done = run("-m", "forewarn.cli", "rehearse", "--within", "0.5", "--seed", "7", "--", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "it resumed each time" in done.stdout
    log = (tmp_path / "interruptions.log").read_text().splitlines()
    assert any("termination warning; going on" in line for line in log)
    assert any("SIGTERM; stopping" in line and "warned=yes" in line for line in log)
    assert any("SIGTERM; stopping" in line and "warned=no" in line for line in log)


@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_torch_trainer_under_torchrun_saves_on_sigterm_and_resumes(tmp_path, ranks):
    pytest.importorskip("torch")
    trainer = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        ranks,
        EXAMPLES / "torch_trainer.py",
        "c",
    ]
    # Few enough steps to be played to the end, each long enough for the signal to meet one of them.
    process = start(*trainer, 120, "0.05", cwd=tmp_path)
    try:
        lines = []
        while not lines or not lines[-1].startswith("step 30 "):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        # To the first process alone, as the kubelet; torchrun passes it on.
        os.kill(process.pid, signal.SIGTERM)
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()
    last = CheckpointStore(tmp_path / "c").checkpoints()[0]
    told = [int(line.split()[1]) for line in [*lines, *output.splitlines()] if line.startswith("step ")]
    assert last.step == max(told), "steps were lost"
    assert last.manifest.ranks == ranks
    assert "SIGTERM; stopping" in (tmp_path / "interruptions.log").read_text()
    assert "torchrun kills its workers 30 s after SIGTERM" in "".join(lines)
    again = run(*trainer, 120, "0", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    whole = run(*(tmp_path / "whole" if part == "c" else part for part in trainer), 120, "0", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    rest = [line for line in again.stdout.splitlines() if line.startswith("step ")]
    assert rest == [line for line in whole.stdout.splitlines() if line.startswith("step ")][last.step :]
    assert len(rest) == 120 - last.step > 0
