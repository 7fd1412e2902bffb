"""The launch wrappers against a real cluster: shells, scripts, batch launches, dropped connections."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.programs import program
from tests.support.waiting import until

WRAPPERS = Path(__file__).parents[2] / "wrappers"
PATIENCE = 90.0


@dataclass(frozen=True)
class Login:
    """A login node: the wrappers, a kubeconfig whose namespace is the student's, and a directory."""

    cluster: Cluster
    namespace: str
    directory: Path

    @property
    def environ(self) -> dict[str, str]:
        tools = f"{Path(sys.executable).parent}:{Path(program('kubectl')).parent}:{os.environ['PATH']}"
        own = {"PATH": tools, "KUBECONFIG": str(self.directory / "kubeconfig"), "HOME": str(self.directory)}
        return {**own, "K8S_DOCKER_IMAGE": self.cluster.image, "K8S_IMAGE_PULL_POLICY": self.pull_policy}

    @property
    def pull_policy(self) -> str:
        return "IfNotPresent" if self.cluster.foreign else "Never"

    def start(self, *flags: str, wrapper: str = "launch.sh", **streams: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [WRAPPERS / wrapper, "--user", "alice", "-Q", *flags],
            env=self.environ,
            cwd=self.directory,
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )

    def run(self, *flags: str, wrapper: str = "launch.sh", **streams: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*flags, wrapper=wrapper, **streams)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def script(self, text: str) -> str:
        path = self.directory / "work.sh"
        path.write_text(text)
        return str(path)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that are there and not being deleted."""
        found: list[dict[str, Any]] = self.cluster.get(self.namespace, "pods")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def running(self) -> str:
        """Return the name of the one pod, once it runs."""
        found = self.cluster.until(
            lambda: [pod for pod in self.pods() if pod["status"].get("phase") == "Running"], "a running pod"
        )
        return str(found[0]["metadata"]["name"])

    def gone(self) -> None:
        self.cluster.until(lambda: not self.pods(), "the end of every pod")


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    if not cluster.image:
        pytest.skip("FOREWARN_IMAGE names no image for a session")
    with cluster.namespace() as namespace:
        merged = cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json")
        config = json.loads(merged)
        for context in config["contexts"]:
            context["context"]["namespace"] = namespace
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        (tmp_path / "kubeconfig").chmod(0o600)
        yield Login(cluster, namespace, tmp_path)


@contextlib.contextmanager
def terminal(login: Login, *flags: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start launch.sh on a terminal of its own, as ssh does; closing the terminal is a dropped connection."""
    ours, theirs = pty.openpty()
    process = login.start(*flags, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with contextlib.suppress(OSError):
            os.close(ours)


def _own() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_until(descriptor: int, pattern: str) -> str:
    text = ""
    end = time.monotonic() + PATIENCE
    while not re.search(pattern, text):
        assert time.monotonic() < end, text
        text += os.read(descriptor, 4096).decode(errors="replace")
    return text


def children(pid: int, name: str) -> Sequence[int]:
    """Return the processes below ``pid`` whose command line holds ``name``."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            below = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            waiting += [int(one) for one in below]
            line = Path(f"/proc/{parent}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if parent != pid and name in line and "launch.sh" not in line:
                found.append(parent)
    return found


def test_a_script_is_streamed_and_its_exit_code_returned(login: Login) -> None:
    path = login.script('#!/bin/bash\necho "one $1"\necho "it\'s $HOME" >&2\nexit 7\n')
    done = login.run("-f", path, "--", 'a "b" $(HOME)')
    assert done.returncode == 7
    assert sorted(done.stdout.splitlines()) == ["it's /home/alice", 'one a "b" $(HOME)']
    login.gone()


def test_the_output_of_a_script_comes_while_it_runs(login: Login) -> None:
    path = login.script("echo started\nwhile [ ! -e /tmp/go ]; do sleep 0.1; done\necho done\n")
    process = login.start("-f", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    login.cluster.run_in(login.namespace, login.running(), "touch", "/tmp/go")
    assert process.communicate(timeout=PATIENCE)[0] == "done\n"
    assert process.returncode == 0


def test_a_broken_stream_goes_on_where_it_stopped(login: Login) -> None:
    path = login.script(
        "echo one\nwhile [ ! -e /tmp/go ]; do sleep 0.1; done\necho two\nwhile [ ! -e /tmp/end ]; do sleep 0.1; done\n"
    )
    process = login.start("-f", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    pod = login.running()
    (stream,) = children(process.pid, "logs --follow")
    os.kill(stream, signal.SIGKILL)
    login.cluster.run_in(login.namespace, pod, "touch", "/tmp/go")
    assert process.stdout.readline() == "two\n"
    login.cluster.run_in(login.namespace, pod, "touch", "/tmp/end")
    assert process.communicate(timeout=PATIENCE)[0] == ""
    assert process.returncode == 0


def test_a_preempted_script_returns_its_own_exit_code(login: Login) -> None:
    path = login.script("trap 'echo stopping; exit 75' TERM\necho started\nwhile :; do sleep 0.1; done\n")
    process = login.start("-f", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    login.cluster.kubectl("delete", "pod", login.running(), f"--namespace={login.namespace}", "--wait=false")
    assert process.communicate(timeout=PATIENCE)[0] == "stopping\n"
    assert process.returncode == 75


def test_a_script_of_another_language_runs_by_its_first_line(login: Login) -> None:
    path = login.script("#!/usr/bin/env python3\nimport os\nprint('pid', os.getpid())\nraise SystemExit(3)\n")
    done = login.run("-f", path)
    assert (done.returncode, done.stdout) == (3, "pid 1\n")


def test_a_shell_is_opened_and_the_pod_deleted_at_its_end(login: Login) -> None:
    with terminal(login, "-s") as (process, screen):
        login.running()
        os.write(screen, b"echo $((6 * 7)) of $HOME; ls /etc/podinfo | wc -l; exit\n")
        assert "42 of /home/alice" in read_until(screen, r"42 of \S+[\r\n]+6\s")
        assert process.wait(timeout=PATIENCE) == 0
    login.gone()


def test_commands_can_be_piped_into_the_shell(login: Login) -> None:
    (login.directory / "commands").write_text("echo from $NB_USER\nexit 3\n")
    with (login.directory / "commands").open() as commands:
        done = login.run("-s", stdin=commands)
    assert (done.returncode, done.stdout) == (3, "from alice\n")
    login.gone()


def test_a_dropped_terminal_deletes_the_pod(login: Login) -> None:
    with terminal(login, "-s") as (process, screen):
        login.running()
        until(lambda: children(process.pid, " exec "), "the shell", PATIENCE)
        os.close(screen)
        login.gone()
        process.wait(timeout=PATIENCE)


def test_a_dropped_connection_to_the_cluster_deletes_the_pod(login: Login) -> None:
    with terminal(login, "-s") as (process, _):
        login.running()
        (shell,) = until(lambda: children(process.pid, " exec "), "the shell", PATIENCE)
        os.kill(shell, signal.SIGKILL)
        assert process.wait(timeout=PATIENCE) != 0
    login.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_deletes_the_pod_and_leaves_no_process(login: Login, number: signal.Signals) -> None:
    process = login.start("-f", login.script("trap 'exit 0' TERM\necho started\nwhile :; do sleep 0.1; done\n"))
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    below = children(process.pid, "kubectl")
    assert below
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE) == 128 + number
    login.gone()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "the end of every kubectl")


def test_background_and_batch_launches_are_left_alone_and_name_themselves(login: Login) -> None:
    background = login.run("-b")
    batch = login.run("-B", "--", "python3", "-c", "print('done')")
    names = {background.stdout.strip(), batch.stdout.strip()}
    assert all(re.fullmatch(r"pod/alice-\d{6}-\d+", name) for name in names)
    assert names == {f"pod/{pod['metadata']['name']}" for pod in login.pods()}
    login.cluster.wait(login.namespace, batch.stdout.strip().removeprefix("pod/"), "jsonpath={.status.phase}=Succeeded")
    assert login.cluster.kubectl("logs", batch.stdout.strip(), f"--namespace={login.namespace}") == "done\n"


def test_an_idle_session_ends_at_sigterm(login: Login) -> None:
    name = login.run("-b", "-N", "idle").stdout.strip()
    login.running()
    started = time.monotonic()
    login.cluster.kubectl("delete", name, f"--namespace={login.namespace}")
    assert time.monotonic() - started < 60, "it would have kept its GPU for the whole grace"


def test_a_log_has_what_kubectl_shows_and_the_program_gets_its_signals(login: Login) -> None:
    code = (
        "import signal, sys, time\n"
        "def stop(*_):\n    print('stopping', flush=True)\n    sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('out', flush=True); print('err', file=sys.stderr, flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    login.run("-B", "-N", "logged", "--log", "run.log", "--", "python3", "-c", code)
    pod = login.running()
    read = ("cat", "/home/alice/run.log")
    login.cluster.until(lambda: login.cluster.run_in(login.namespace, pod, *read) == "out\nerr\n", "both lines")
    follow = [program("kubectl"), f"--kubeconfig={login.cluster.kubeconfig}", f"--namespace={login.namespace}"]
    logs = subprocess.Popen([*follow, "logs", "--follow", pod], stdout=subprocess.PIPE, text=True)
    assert logs.stdout is not None
    assert [logs.stdout.readline(), logs.stdout.readline()] == ["out\n", "err\n"]
    login.cluster.kubectl("delete", "pod", pod, f"--namespace={login.namespace}", "--wait=false")
    assert logs.communicate(timeout=PATIENCE)[0] == "stopping\n"


def test_dump_prints_json_and_starts_nothing(login: Login) -> None:
    done = login.run("-d", "-N", "dumped", wrapper="launch-scipy-ml.sh")
    pod = json.loads(done.stdout)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
    datascience = json.loads(login.run("-d", wrapper="launch-datascience.sh").stdout)
    assert datascience["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
    assert login.pods() == []


def test_a_mistake_starts_nothing_and_exits_2(login: Login) -> None:
    done = login.run("-m", "64")
    assert done.returncode == 2
    assert done.stderr == "error: -m: 64 is out of range; allowed: a whole number from 1 to 32 (GB of RAM of one pod)\n"
    assert login.pods() == []


def test_help_lists_the_flags(login: Login) -> None:
    done = login.run("-h")
    assert done.returncode == 0
    assert "-B, --batch" in done.stdout
