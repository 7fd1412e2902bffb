"""A rehearsal finds a program that does not resume, and passes one that does."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forewarn.inpod.rehearsal import PLAYS, acts

TRAINER = """
import sys, time
from forewarn.inpod import CheckpointStore, Loop, SaveSchedule
with Loop(CheckpointStore(sys.argv[1]), schedule=SaveSchedule(0.0005, shortest=0.0)) as loop:
    restored = loop.resume()
    for step in range(restored.step + 1 if restored else 1, 301):
        time.sleep(0.005)
        print("step", step, flush=True)
        if loop.step(step, lambda: {"step": step}):
            sys.exit(loop.exit_code)
    loop.finish(300, lambda: {"step": 300})
"""
FORGETFUL = """
import time
for step in range(1, 201):
    time.sleep(0.005)
    print("step", step, flush=True)
"""


def rehearse(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forewarn.cli", "rehearse", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_program_that_resumes_passes(tmp_path):
    (tmp_path / "train.py").write_text(TRAINER)
    done = rehearse(
        "--within",
        "0.3",
        "--kills",
        "1",
        "--seed",
        "3",
        "--",
        sys.executable,
        str(tmp_path / "train.py"),
        str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it resumed each time" in done.stdout
    assert "75, run again" in done.stdout
    assert "SIGKILL" in done.stdout


def test_a_program_that_begins_again_fails(tmp_path):
    (tmp_path / "train.py").write_text(FORGETFUL)
    done = rehearse(
        "--within", "0.3", "--play", "evict", "--seed", "3", "--", sys.executable, str(tmp_path / "train.py")
    )
    assert done.returncode == 1
    assert "began from the beginning" in done.stderr
    assert "all of them" in done.stdout


def test_a_program_that_ignores_sigterm_fails(tmp_path):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('step 1', flush=True); time.sleep(60)"
    done = rehearse(
        "--within", "0.1", "--play", "evict", "--grace", "0.3", "--limit", "2", "--", sys.executable, "-c", code
    )
    assert done.returncode == 1
    assert "did not end within the grace" in done.stderr


def test_a_program_that_tells_no_step_is_told_so():
    done = rehearse("--play", "kill", "--kills", "1", "--", "true")
    assert done.returncode == 1
    assert "--step-pattern" in done.stderr


def test_nothing_of_the_program_is_left_behind(tmp_path):
    code = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '600']); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); print('step 1', flush=True); time.sleep(600)"
    )
    rehearse("--within", "0.1", "--play", "kill", "--kills", "1", "--limit", "1", "--", sys.executable, "-c", code)
    pid = int((tmp_path / "pid").read_text())
    status = Path(f"/proc/{pid}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no program is given"),
        (("--play", "dance", "--", "true"), "no play 'dance'"),
        (("--within", "soon", "--", "true"), "--within: 'soon' cannot be used"),
        (("--kills", "-1", "--", "true"), "--kills"),
        (("--step-pattern", "(", "--", "true"), "--step-pattern"),
        (("--step-pattern", "step", "--", "true"), "has no group"),
        (("--", "/no/such/program"), "No such file"),
    ],
)
def test_a_mistake_is_one_line(arguments, words):
    done = rehearse(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("play", PLAYS)
def test_acts_come_in_order_and_in_time(play):
    for seed in range(50):
        times = [act.after for act in acts(play, 5.0, random.Random(seed))]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] <= 5


def test_a_rehearsal_in_which_no_stop_came_proves_nothing(tmp_path):
    done = rehearse("--play", "kill", "--within", "60", "--", sys.executable, "-c", "print('step 1')")
    assert done.returncode == 1
    assert "no stop was played" in done.stderr
    assert "it resumed" not in done.stdout


EPOCHS = """
import pathlib, sys, time
state, form = pathlib.Path(sys.argv[1]), sys.argv[2]
done = int(state.read_text()) if state.exists() else 0
for n in range(done, 90):
    time.sleep(0.01)
    print(form.format(e=n // 45, s=n % 45), end="", flush=True)
    if len(sys.argv) > 3:
        state.with_suffix(".new").write_text(str(n + 1))
        state.with_suffix(".new").replace(state)
"""
FORMS = [
    "Epoch {e} step {s} loss 0.1\n",
    '{{"epoch": {e}, "step": {s}}}\n',
    "\rEpoch {e}:  9%|#  | {s}/45 [00:01<00:02]",
]


@pytest.mark.parametrize("form", FORMS, ids=["words", "json", "bar"])
@pytest.mark.parametrize("saves", [True, False], ids=["saves", "never-saves"])
def test_steps_that_begin_anew_in_each_epoch_are_compared_with_their_epoch(tmp_path, form, saves):
    (tmp_path / "train.py").write_text(EPOCHS)
    program = [str(tmp_path / "train.py"), str(tmp_path / "state"), form, *(["save"] if saves else [])]
    # Under "bar" this needs each frame as it comes: the play begins at the first.
    plays = ("--within", "0.3", "--kills", "1", "--seed", "1")
    done = rehearse(*plays, "--", sys.executable, *program)
    assert done.returncode == (0 if saves else 1), done.stdout + done.stderr
    assert ("it resumed each time" in done.stdout) == saves
    assert ("began from the beginning" in done.stderr) == (not saves)


def test_a_step_that_never_grows_is_never_called_resumed(tmp_path):
    code = "import time\nfor n in range(40): print('rank 0 step 0', flush=True); time.sleep(0.02)"
    done = rehearse("--within", "0.3", "--seed", "1", "--", sys.executable, "-c", code)
    assert done.returncode == 1
    assert "cannot tell whether it resumed" in done.stderr
    assert "it resumed" not in done.stdout


def test_a_step_pattern_may_name_the_epoch(tmp_path):
    (tmp_path / "train.py").write_text(EPOCHS)
    program = [str(tmp_path / "train.py"), str(tmp_path / "state"), "<{e}|{s}>\n"]
    options = ("--within", "0.3", "--play", "kill", "--kills", "2", "--seed", "1")
    pattern = ("--step-pattern", r"<(?P<epoch>\d+)\|(\d+)>")
    done = rehearse(*options, *pattern, "--", sys.executable, *program)
    assert done.returncode == 1
    assert "began from the beginning" in done.stderr
    assert "1:44" in done.stdout


def test_a_program_that_says_done_on_sigterm_fails(tmp_path):
    (tmp_path / "train.py").write_text(TRAINER.replace("sys.exit(loop.exit_code)", "sys.exit(0)"))
    program = (sys.executable, str(tmp_path / "train.py"), str(tmp_path))
    done = rehearse("--within", "0.3", "--play", "evict", "--seed", "3", "--", *program)
    assert done.returncode == 1, done.stdout
    assert "after SIGTERM, it ended with 0, which says done" in done.stderr


def test_a_helper_that_holds_the_output_open_is_not_waited_for():
    code = "import subprocess; subprocess.Popen(['sleep', '20'], start_new_session=True); print('step 1', flush=True)"
    begun = time.monotonic()
    rehearse("--play", "kill", "--kills", "1", "--within", "0.1", "--", sys.executable, "-c", code)
    assert time.monotonic() - begun < 15
