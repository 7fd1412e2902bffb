"""The --log wrapper, run by the real bash: what is shown and appended, signals, exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.process import LOGGER
from tests.unit.manifests.golden import ALICE

TRAP = (
    "import signal, sys, time\n"
    "def stop(number, _):\n    print('got', number, flush=True)\n    sys.exit(75)\n"
    "for number in (1, 2, 10, 12, 15): signal.signal(number, stop)\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(0.05)\n"
)


def start(path: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["/bin/bash", "-c", LOGGER, str(path), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a 'log'.txt"
    path.write_text("before\n")
    return path


@pytest.mark.parametrize("code", [0, 1, 75, 137, 255])
def test_both_streams_are_shown_and_appended_and_the_exit_code_kept(code: int, log: Path) -> None:
    process = start(log, "sh", "-c", 'echo out "$1"; echo err >&2; exit "$2"', "x", "it's $(HOME)", str(code))
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (code, "out it's $(HOME)\nerr\n", "")
    assert log.read_text() == f"before\n{out}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_reaches_the_program_whose_last_words_are_kept(number: int, log: Path) -> None:
    process = start(log, sys.executable, "-c", TRAP)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (75, f"got {int(number)}\n", "")
    assert log.read_text() == f"before\nready\ngot {int(number)}\n"


SLOW_KILL = '() { builtin kill "$@" && while [ -e "/proc/$child" ]; do :; done; }'
"""A bash function in the environment: the program is gone before bash goes on."""


def test_the_exit_code_is_kept_of_a_program_that_ends_before_the_logger_waits_again(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASH_FUNC_kill%%", SLOW_KILL)
    process = start(log, sys.executable, "-c", TRAP)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (75, f"got {int(signal.SIGTERM)}\n")


def test_a_signal_reaches_the_program_behind_a_shell(log: Path) -> None:
    process = start(log, "bash", "-c", '"$0" -c "$1"; echo after', sys.executable, TRAP)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=20)[0] == f"got {int(signal.SIGTERM)}\n"


def test_a_program_that_dies_by_a_signal_is_told_as_a_shell_tells_it(log: Path) -> None:
    process = start(log, "sh", "-c", "kill -TERM $$")
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_a_process_left_behind_does_not_hold_the_pod(log: Path) -> None:
    process = start(log, "sh", "-c", "sleep 30 & echo done")
    assert process.communicate(timeout=20)[0] == "done\n"
    assert process.returncode == 0


def test_the_programs_input_is_the_containers(log: Path) -> None:
    process = start(log, "cat")
    assert process.communicate("typed\n", timeout=20)[0] == "typed\n"


def test_the_directory_of_a_log_is_made(tmp_path: Path) -> None:
    process = start(tmp_path / "-runs/a b/log", "echo", "hello")
    assert process.communicate(timeout=20) == ("hello\n", "")
    assert (tmp_path / "-runs/a b/log").read_text() == "hello\n"


def test_an_entrypoint_of_ones_own_is_logged_with_its_arguments(tmp_path: Path) -> None:
    argv = ["--log", "runs/log", "--entrypoint", sys.executable, "-B", "--", "-c", "print('it is', 1)"]
    request = launch(flags.parse(argv), {}, profile.load("launch", "test"), ALICE)
    words = [word.replace("/home/alice", str(tmp_path)) for word in (*request.command, *request.args)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it is 1\n", "")
    assert (tmp_path / "runs/log").read_text() == done.stdout


def test_a_log_that_cannot_be_written_does_not_stop_the_program(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    process = start(tmp_path / "none/log", "echo", "hello")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "hello\n")
    assert "Not a directory" in err


def test_several_pods_that_would_append_to_one_log_at_once_are_warned_of() -> None:
    def warned(*argv: str) -> bool:
        call = ["-N", "a", "--log", "log", *argv, "--", "x"]
        request = launch(flags.parse(call), {}, profile.load("launch", "test"), ALICE)
        return any("append to one log" in line for line in request.warnings)

    assert warned("--completions", "3")
    assert not warned("--completions", "1")
    assert not warned("--completions", "3", "--parallelism", "1")
    assert not warned("--requeue")
