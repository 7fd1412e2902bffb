"""The loop: when it saves, when it stops, and what it does with a signal or a full disk."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod import durable
from forewarn.inpod.decisions import Policy
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.log import InterruptionLog, log_to
from forewarn.inpod.loop import Loop
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.serializers import Functions, Plain
from forewarn.inpod.signals import StopSignal, grace_seconds
from forewarn.inpod.store import CheckpointStore
from forewarn.inpod.volume import Volume

NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def tick(self) -> float:
        return self.seconds


class Run:
    """A loop over a podinfo volume and a store, with a clock of its own."""

    def __init__(self, tmp_path, **options) -> None:
        self.clock = Clock()
        self.volume = Volume(tmp_path / "podinfo")
        self.volume.write({contract.WARNING_AT: ""})
        self.store = CheckpointStore(tmp_path / "checkpoints", keep_last=100)
        options.setdefault("schedule", SaveSchedule(30))
        self.loop = Loop(
            self.store,
            podinfo=PodInfo(self.volume.path),
            environ=options.pop("environ", {}),
            now=self.clock.now,
            tick=self.clock.tick,
            **options,
        )
        self.at = 0

    def warn(self, seconds: float | None) -> None:
        at = "" if seconds is None else contract.format_instant(self.clock.now() + timedelta(seconds=seconds))
        self.volume.write({contract.WARNING_AT: at})

    def step(self, seconds: float = 1.0) -> bool:
        self.at += 1
        self.clock.seconds += seconds
        return self.loop.step(self.at, lambda: {"step": self.at})

    @property
    def saved(self) -> list[int]:
        return sorted(checkpoint.step for checkpoint in self.store.checkpoints())


def test_saves_within_one_step_of_the_warning_and_goes_on_after_its_withdrawal(tmp_path):
    run = Run(tmp_path, stop_on_warning=False)
    with run.loop:
        run.step()
        run.warn(60)
        run.step()
        assert run.saved == [2]
        run.step()
        run.warn(None)
        run.step()
        assert run.saved == [2]
        run.warn(60)
        assert not run.step()
        assert run.saved == [2, 5]


def test_a_batch_job_stops_once_it_is_saved(tmp_path):
    run = Run(tmp_path)
    with run.loop:
        assert not run.step()
        run.warn(900)
        assert not run.step()
        run.clock.seconds += 800
        assert run.step()
    assert run.loop.exit_code == 75
    assert run.saved[-1] == 3


def test_stops_at_the_appearance_where_told_to(tmp_path):
    run = Run(tmp_path, policy=Policy.AT_APPEARANCE)
    with run.loop:
        run.warn(900)
        assert run.step()
    assert run.saved == [1]


def test_the_guarantees_end_saves_and_does_not_stop(tmp_path):
    run = Run(tmp_path)
    at = contract.format_instant(NOW + timedelta(seconds=5))
    run.volume.write({contract.GUARANTEED_UNTIL: at})
    with run.loop:
        assert not run.step()
        assert run.saved == [1]
        assert not run.step()
        # Overstay: the interval of 600 s is halved.
        assert not run.step(301)
        assert run.saved == [1, 3]
        run.volume.write({contract.GUARANTEED_UNTIL: at, contract.WARNING_AT: at})
        assert run.step()
        assert run.saved == [1, 3, 4]


def test_the_runtime_limit_saves(tmp_path):
    run = Run(tmp_path, environ={contract.RUNTIME_LIMIT_VARIABLE: "1000"})
    run.loop.heed.started = NOW
    with run.loop:
        assert not run.step(879)
        assert not run.step(2)
    assert run.saved == [2]


def test_saves_periodically_by_the_clock(tmp_path):
    run = Run(tmp_path)
    with run.loop:
        for _ in range(30):
            run.step(100)
    # From the first step on every 600 s while the cost was a guess, then as measured (a few milliseconds).
    assert run.saved[:2] == [7, 8]


def test_a_resumed_run_does_not_save_what_it_has_just_loaded(tmp_path):
    run = Run(tmp_path, interruptions=InterruptionLog(tmp_path / "log"))
    run.store.save(4, {"step": 4}, epoch=1)
    with run.loop:
        restored = run.loop.resume()
        assert restored is not None
        run.loop.finish(4, lambda: {"step": 4})
        assert run.saved == [4]
        run.at = restored.step
        run.warn(10)
        assert run.step()
    assert run.saved == [4, 5]
    lines = (tmp_path / "log").read_text().splitlines()
    assert "step=4 epoch=1" in lines[0]
    assert "why=resumed" in lines[0]
    assert 'why="termination warning; stopping"' in lines[1]
    assert "warned=yes" in lines[1]
    assert f"checkpoint={run.store.checkpoints()[0].path}" in lines[1]


@pytest.mark.parametrize("epochs", [True, False])
@pytest.mark.parametrize("cue", ["warning", "SIGTERM"])
@pytest.mark.parametrize("background", [False, True])
def test_a_step_that_is_counted_anew_in_each_epoch_is_saved_again(tmp_path, epochs, cue, background):
    run = Run(tmp_path, background=background)
    with run.loop:
        for epoch, step in itertools.product(range(3), range(4)):
            if (epoch, step) == (0, 2):
                run.clock.seconds += 10_000
            if (epoch, step) == (2, 2):
                run.warn(10) if cue == "warning" else os.kill(os.getpid(), signal.SIGTERM)
            done = [epoch, step]
            if run.loop.step(step, lambda done=done: done, epoch=epoch if epochs else None):
                break
    assert run.loop.exit_code == 75
    restored = run.store.restore()
    assert restored is not None
    assert restored.state == [2, 2]
    assert run.saved.count(2) == 2


def test_the_end_is_saved_where_its_number_was_saved_in_an_earlier_epoch(tmp_path):
    run = Run(tmp_path)
    with run.loop:
        run.warn(10)
        run.loop.step(3, lambda: "first", epoch=0)
        run.loop.finish(3, lambda: "same", epoch=0)
        run.loop.finish(3, lambda: "last", epoch=1)
    restored = run.store.restore()
    assert restored is not None
    assert (restored.state, run.saved) == ("last", [3, 3])


def test_sigterm_is_read_at_the_step_boundary(tmp_path):
    run = Run(tmp_path)
    with run.loop:
        assert not run.step()
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.saved == []
        assert run.step()
    assert run.saved == [2]
    assert run.loop.exit_code == 75
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_full_disk_is_said_and_the_loop_goes_on(tmp_path, monkeypatch, caplog):
    run = Run(tmp_path)

    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with run.loop:
        run.step(600)
        run.step(600)
        assert run.saved == [2]
        monkeypatch.setattr(durable.os, "fsync", refuse)
        run.warn(10)
        assert not run.step()
        assert "no space left" in caplog.text
        # Not tried again in each step, though the warning still asks to stop.
        caplog.clear()
        assert not run.step(1)
        assert "no space left" not in caplog.text
        monkeypatch.undo()
        assert run.step(601)
    assert run.saved == [2, 5]


def test_with_a_full_disk_sigterm_still_stops(tmp_path, monkeypatch):
    run = Run(tmp_path)

    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with run.loop:
        run.step()
        monkeypatch.setattr(durable.os, "fsync", refuse)
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.step()
        monkeypatch.undo()
    assert run.loop.exit_code == 75


@pytest.mark.parametrize("background", [False, True])
def test_an_end_that_is_not_saved_is_an_error(tmp_path, monkeypatch, background):
    run = Run(tmp_path, background=background)

    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    def end() -> None:
        with run.loop:
            run.step()
            if background:
                run.step(700)
            run.loop.finish(run.at, lambda: {"step": run.at})

    monkeypatch.setattr(durable.os, "fsync", refuse)
    with pytest.raises(CheckpointError, match="no space left") as caught:
        end()
    assert "\n" not in str(caught.value)
    assert run.saved == []


def again(call, state) -> None:
    while True:
        call(2, state)


def broken() -> str:
    return open("/nope/model.bin").read()


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("how", ["step", "finish"])
def test_an_error_of_the_state_function_is_no_want_of_room(tmp_path, background, how):
    run = Run(tmp_path, background=background)
    with run.loop:
        assert not run.loop.step(1, broken)
        run.clock.seconds += 10_000
        with pytest.raises(CheckpointError, match="the state function raised FileNotFoundError") as caught:
            again(run.loop.finish if how == "finish" else run.loop.step, broken)
        assert caught.value.errno is None


def test_an_error_of_the_serializers_own_is_no_want_of_room(tmp_path):
    store = CheckpointStore(tmp_path / "c", serializer=Functions("own", lambda state, file: broken(), broken))
    with (
        Loop(store, podinfo=PodInfo("/nowhere")) as loop,
        pytest.raises(CheckpointError, match="the serializer raised FileNotFoundError"),
    ):
        loop.finish(1, dict)


def test_a_framework_that_cannot_open_a_file_elsewhere_is_no_want_of_room(tmp_path):
    def write(saving, state):
        saving.write_files(lambda directory: [broken()], "own")

    store = CheckpointStore(tmp_path / "c", sharded=True)
    with Loop(store, podinfo=PodInfo("/nowhere"), write=write) as loop, pytest.raises(CheckpointError) as caught:
        loop.finish(1, dict)
    assert caught.value.errno is None
    assert "/nope/model.bin" in str(caught.value)


def test_a_state_that_cannot_be_saved_is_raised_at_the_first_save(tmp_path):
    run = Run(tmp_path)
    with run.loop:
        run.warn(10)
        with pytest.raises(CheckpointError, match="object"):
            run.loop.step(1, lambda: object())


def test_the_end_is_saved_once(tmp_path):
    run = Run(tmp_path, background=True)
    with run.loop:
        run.step()
        run.loop.finish(1, lambda: {"step": 1})
        run.loop.finish(1, lambda: {"step": 1})
    assert run.saved == [1]
    assert run.loop.exit_code == 0


def test_a_background_save_is_whole_before_the_loop_stops(tmp_path):
    run = Run(tmp_path, background=True)
    with run.loop:
        run.step()
        run.step(700)
        run.warn(10)
        assert run.step()
        assert run.saved[-1] == 3
    assert run.saved == [2, 3]


def test_a_background_save_is_not_followed_by_another_before_its_interval(tmp_path):
    run = Run(tmp_path, background=True)
    with run.loop:
        run.step()
        for _ in range(5):
            run.step(599)
    assert run.saved[0] == 3


def test_earlier_handlers_are_called_but_not_inside_a_save():
    order = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: order.append("earlier"))
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop
            assert order == ["earlier"]
            with stop.shielded():
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
                order.append("save")
            assert order == ["earlier", "save", "earlier", "earlier"]
            assert stop.count == 3
    finally:
        signal.signal(signal.SIGTERM, before)


def save_through(stop: StopSignal, number: int, whole: list[bool]) -> None:
    with stop.shielded():
        os.kill(os.getpid(), number)
        whole.append(True)


def test_an_earlier_handler_that_raises_does_not_tear_a_save():
    def leave(number, frame):
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, leave)
    whole = []
    try:
        with StopSignal() as stop, pytest.raises(SystemExit):
            save_through(stop, signal.SIGTERM, whole)
        assert whole
        assert signal.getsignal(signal.SIGTERM) is leave
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_dead_worker_does_not_tear_a_save():
    """A DataLoader's SIGCHLD handler raises; inside a save it waits."""

    def died(number, frame):
        raise RuntimeError("DataLoader worker is killed")

    before = signal.signal(signal.SIGCHLD, died)
    whole = []
    try:
        with StopSignal() as stop, pytest.raises(RuntimeError, match="worker"):
            save_through(stop, signal.SIGCHLD, whole)
        assert whole
        assert signal.getsignal(signal.SIGCHLD) is died
    finally:
        signal.signal(signal.SIGCHLD, before)


CHILDREN = """
import multiprocessing, os, signal, sys, time
from forewarn.inpod import CheckpointStore, KeepWorker, Loop, StopSignal

def work(pipe, own, keep):
    if own:
        StopSignal().__enter__()
    if keep:
        KeepWorker()(0)
    pipe.send("ready")
    while True:
        time.sleep(0.01)

def start(own=False, keep=False):
    here, there = context.Pipe()
    child = context.Process(target=work, args=(there, own, keep), daemon=True)
    child.start()
    assert here.recv() == "ready"
    return child

context = multiprocessing.get_context("fork")
with Loop(CheckpointStore("c")) as loop:
    if sys.argv[1] == "terminate":
        child = start()
        child.terminate()
        child.join()
        assert child.exitcode == -signal.SIGTERM, child.exitcode
    elif sys.argv[1] == "shielded":
        with loop.heed.signal.shielded():
            child = start()
            child.terminate()
            child.join()
    elif sys.argv[1] == "own":
        child = start(own=True)
        child.terminate()
        time.sleep(0.2)
        assert child.is_alive()  # it heeds by itself
        child.kill()
        child.join()
    elif sys.argv[1] == "keep":
        child = start(keep=True)
        os.kill(child.pid, signal.SIGTERM)
        time.sleep(0.2)
        assert child.is_alive()
    else:
        start()
    assert not loop.heed.signal
    os.kill(os.getpid(), signal.SIGTERM)
    assert loop.heed.signal
    raise SystemExit(75)
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", ["exit", "terminate", "shielded", "own", "keep"])
def test_a_child_is_terminated_as_if_the_loop_were_not_there(tmp_path, case):
    """multiprocessing waits at the interpreter's end for what it has terminated."""
    done = subprocess.run(
        [sys.executable, "-c", CHILDREN, case], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (75, "")


def test_what_handled_the_signal_before_acts_in_a_child(tmp_path):
    code = """
import os, signal, sys
from forewarn.inpod import StopSignal
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
with StopSignal() as stop:
    if sys.argv[1] == "chained":
        ours = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda number, frame: ours(number, frame))
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bool(stop))
"""
    for case in ("plain", "chained"):
        done = subprocess.run(
            [sys.executable, "-c", code, case], capture_output=True, text=True, timeout=30, check=True
        )
        assert done.stdout == "7 False\n", case


def test_a_signal_at_the_very_moment_of_the_fork_is_not_forgotten(tmp_path):
    code = """
import os, signal, time
from forewarn.inpod import StopSignal
ends = []
with StopSignal() as stop:
    for _ in range(20):
        child = os.fork()
        if not child:
            time.sleep(2)
            os._exit(0)
        os.kill(child, signal.SIGTERM)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    os.kill(os.getpid(), signal.SIGTERM)
    print(set(ends), bool(stop))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "{-15} True\n", done.stderr


@pytest.mark.parametrize("forked", [False, True])
def test_signals_that_are_left_in_another_order_leave_nothing_behind(forked):
    code = """
import os, signal, sys
from forewarn.inpod import StopSignal
first, second = StopSignal(), StopSignal()
first.__enter__()
second.__enter__()
first.__exit__(None, None, None)
second.__exit__(None, None, None)
if sys.argv[1] == "True" and (child := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 15)
os.kill(os.getpid(), signal.SIGTERM)
print("it lives")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(forked)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0 if forked else -signal.SIGTERM, "", "")


def test_a_handler_that_came_later_stays():
    with StopSignal():
        later = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    assert later is not None
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_outside_the_main_thread_there_is_no_signal_and_no_error():
    def work() -> None:
        with StopSignal() as stop, stop.shielded():
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_loop_outside_the_main_thread_says_once_that_sigterm_is_not_heeded(tmp_path, caplog):
    def work() -> None:
        with Loop(CheckpointStore(tmp_path)) as loop:
            assert not loop.step(1, dict)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caplog.text.count("SIGTERM is not heeded: only the main thread") == 1


def test_torchruns_thirty_seconds_are_planned_with_and_said_once(tmp_path, caplog):
    environ = {"TORCHELASTIC_RUN_ID": "x"}
    assert (grace_seconds(environ), grace_seconds({})) == (30, 600)
    with Run(tmp_path, environ=environ).loop:
        pass
    assert caplog.text.count("30 s after SIGTERM") == 1


def test_a_last_save_that_will_not_fit_is_said_and_tried(tmp_path, caplog):
    run = Run(tmp_path, environ={"TORCHELASTIC_RUN_ID": "x"}, schedule=SaveSchedule(45))
    with run.loop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.step()
    assert "a save takes 45 s, and SIGKILL follows SIGTERM after 30 s" in caplog.text
    assert run.saved == [1]


def test_an_interruption_is_one_appended_line(tmp_path):
    log = InterruptionLog(tmp_path / "log")
    log.write(NOW, step=5, epoch=2, checkpoint='/home/a b/"x"\n', warned=True, cost=1.23456, why="SIGTERM")
    log.write(NOW, step=6, checkpoint=None, warned=False)
    assert (tmp_path / "log").read_text().splitlines() == [
        "2026-11-29T19:30:00Z step=5 epoch=2 checkpoint=" + '"/home/a b/\\"x\\"\\n"' + " warned=yes"
        " cost_seconds=1.235 why=SIGTERM",
        "2026-11-29T19:30:00Z step=6 checkpoint=none warned=no",
    ]


def test_a_resumed_run_appends_to_its_log(tmp_path):
    code = (
        "import logging, os, sys\nfrom forewarn.inpod import log_to\n"
        f"log_to({str(tmp_path / 'run.log')!r}); log_to({str(tmp_path / 'run.log')!r})\n"
        "logging.getLogger('x').info('step %s', sys.argv[1]); os.kill(os.getpid(), 9)\n"
    )
    for number in "12":
        subprocess.run([sys.executable, "-c", code, number], check=False)
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["INFO x step 1", "INFO x step 2"]
    assert all(contract.parse_instant(line.split()[0]) for line in lines)
    assert log_to.__doc__


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda path: Loop(str(path)), "store must be a CheckpointStore"),
        (lambda path: Loop(CheckpointStore(path), interruptions="log"), "interruptions must be a log"),
        (lambda path: Loop(CheckpointStore(path), podinfo="/etc/podinfo"), "podinfo must be a PodInfo"),
        (lambda path: Loop(CheckpointStore(path), policy="early"), "early"),
        (
            lambda path: Loop(CheckpointStore(path), schedule=60),
            r"schedule must be a SaveSchedule, as in SaveSchedule\(60",
        ),
        (lambda path: Loop(CheckpointStore(path), tick=5), "tick must be a function"),
        (lambda path: Loop(CheckpointStore(path), every="2"), "every must be a whole number of steps, not '2'"),
        (lambda path: Loop(CheckpointStore(path), seconds="2"), "seconds must be a number, not '2'"),
        (lambda path: CheckpointStore(path, keep_last="2"), "keep_last must be a whole number .*, not '2'"),
        (lambda path: CheckpointStore(path, keep_last=0), "keep_last must be 1 or more"),
        (lambda path: CheckpointStore(path, best=1), "best a name"),
        (lambda path: CheckpointStore(path, serializer=Plain), r"serializer must be an object with save\(\)"),
        (lambda path: CheckpointStore(path, ranks=2), r"ranks must be an object"),
        (lambda path: SaveSchedule("x"), "cost must be a number, not 'x'"),
        (lambda path: SaveSchedule(overhead=None), "overhead must be a number"),
        (lambda path: SaveSchedule(mtbf=0), "mtbf must be above 0"),
        (lambda path: SaveSchedule(shortest=-5), "shortest must be 0 or more, not -5"),
    ],
)
def test_a_loop_of_the_wrong_parts_says_which(tmp_path, build, says):
    with pytest.raises((TypeError, ValueError), match=says):
        build(tmp_path)


def test_what_no_save_could_use_is_said_in_the_first_step(tmp_path):
    with Loop(CheckpointStore(tmp_path)) as loop:
        with pytest.raises(TypeError, match="state must be a function"):
            loop.step(1, {"step": 1})
        with pytest.raises(ValueError, match="step must be a whole number"):
            loop.step(1.5, dict)


def test_a_loop_without_with_says_once_that_sigterm_is_not_heeded(tmp_path, caplog):
    loop = Loop(CheckpointStore(tmp_path))
    assert not loop.step(1, dict)
    assert not loop.step(2, dict)
    assert caplog.text.count("SIGTERM is not heeded") == 1


def test_a_loop_is_not_entered_twice_at_once(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    loop = Loop(CheckpointStore(tmp_path))
    with loop, pytest.raises(RuntimeError, match="entered already"):
        loop.__enter__()
    assert signal.getsignal(signal.SIGTERM) == before
    with loop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert loop.step(1, dict)


class Preempted(Exception):  # noqa: N818  (as a student names it)
    pass


def test_an_earlier_handler_that_raises_while_restoring_makes_no_checkpoint_bad(tmp_path):
    def handler(_number, _frame):
        raise Preempted

    def load(file):
        os.kill(os.getpid(), signal.SIGTERM)
        return file.read()

    kept = Functions("raw", lambda state, file: file.write(state), load)
    CheckpointStore(tmp_path, serializer=kept).save(1, b"a")
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with Loop(CheckpointStore(tmp_path, serializer=kept)) as loop, pytest.raises(Preempted):
            loop.resume()
    finally:
        signal.signal(signal.SIGTERM, before)
