"""launch.sh against a real API server without nodes: a pod's status is what the test says it is.

What needs a node (shells, output, exit codes) is tested in tests/e2e/test_wrappers.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import ApiServer
from tests.support.programs import program
from tests.support.waiting import until

LAUNCH = Path(__file__).parents[3] / "wrappers/launch.sh"
PATIENCE = 40.0
# create takes as long as the test likes, before its request and behind it.
SLOW_KUBECTL = """\
#!/bin/bash
if [[ $* == *--watch* ]]; then touch {directory}/watched; fi
if [[ $1 != create ]]; then exec {kubectl} "$@"; fi
touch {directory}/called
until [[ -e {directory}/ask ]]; do sleep 0.1; done
{kubectl} "$@"
code=$?
touch {directory}/asked
until [[ -e {directory}/return ]]; do sleep 0.1; done
exit $code
"""


@dataclass(frozen=True)
class Login:
    """A login node: a directory, and a kubeconfig of the student's namespace."""

    server: ApiServer
    namespace: str
    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *flags: str, **environ: str) -> subprocess.Popen[str]:
        tools = f"{Path(sys.executable).parent}:{Path(program('kubectl')).parent}:{os.environ['PATH']}"
        own = {"PATH": tools, "KUBECONFIG": str(self.directory / "kubeconfig"), "HOME": str(self.directory)}
        process = subprocess.Popen(
            [LAUNCH, "--user", "alice", *flags],
            env={**own, **environ},
            cwd=self.directory,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *flags: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*flags)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def path(self, kind: str = "pods", name: str = "") -> str:
        group = "apis/batch/v1" if kind == "jobs" else "api/v1"
        return f"/{group}/namespaces/{self.namespace}/{kind}{'/' if name else ''}{name}"

    def names(self, kind: str = "pods") -> list[str]:
        return [one["metadata"]["name"] for one in self.server.request("GET", self.path(kind))[1]["items"]]

    def status(self, name: str, status: Mapping[str, Any]) -> None:
        until(lambda: name in self.names(), "the pod", PATIENCE)
        content = "application/merge-patch+json"
        answer = self.server.request("PATCH", self.path("pods", f"{name}/status"), {"status": status}, content)
        assert answer[0] == 200, answer


@pytest.fixture
def login(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Login]:
    (tmp_path / "kubeconfig").write_bytes(api_server.kubeconfig.read_bytes())
    words = ["config", "set-context", "--current", f"--namespace={namespace}"]
    subprocess.run([program("kubectl"), f"--kubeconfig={tmp_path}/kubeconfig", *words], check=True, capture_output=True)
    (tmp_path / "work.sh").write_text("#!/bin/bash\nexec python train.py\n")
    found = Login(api_server, namespace, tmp_path)
    yield found
    for process in found.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("flags", [["-f", "work.sh"], ["-S"], ["-s"]], ids=" ".join)
def test_a_pod_that_fails_before_its_container_started_ends_the_launch_with_why(login: Login, flags: list[str]) -> None:
    process = login.start("-Q", "-N", "one", *flags)
    login.status("one", {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy\ndevices"})
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("error: one ended ")
    assert "UnexpectedAdmissionError no healthy" in err
    assert login.names() == []


def test_a_script_whose_pod_is_deleted_before_it_began_ends(login: Login) -> None:
    process = login.start("-Q", "-N", "one", "-f", "work.sh")
    until(lambda: login.names() == ["one"], "the pod", PATIENCE)
    login.server.request("DELETE", login.path("pods", "one"))
    assert process.communicate(timeout=PATIENCE) == ("", "error: one was deleted without an exit code\n")
    assert process.returncode == 1


def test_why_a_pod_waits_is_told_once_for_each_reason(login: Login) -> None:
    def waiting(reason: str, message: str) -> Mapping[str, Any]:
        state = {"waiting": {"reason": reason, "message": message}}
        one = {"name": "session", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        return {"phase": "Pending", "containerStatuses": [one]}

    process = login.start("-N", "one", "-s")
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(2)]
    login.status("one", {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes: a|b"}]})
    told.append(process.stderr.readline())
    login.status("one", {"conditions": [{"type": "PodScheduled", "status": "True"}]})
    for _ in range(2):
        login.status("one", waiting("ErrImagePull", "not found:\nMODIFIED it is not"))
        login.status("one", waiting("ImagePullBackOff", "Back-off pulling image x"))
    login.status("one", waiting("InvalidImageName", "x"))
    told += [process.stderr.readline() for _ in range(3)]
    assert told[1:] == [
        "pod/one created\n",
        "waiting: 0/1 nodes: a|b\n",
        "waiting: ErrImagePull not found:\n",
        "waiting: ImagePullBackOff Back-off pulling image x\n",
        "waiting: InvalidImageName x\n",
    ]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert login.names() == []


@pytest.fixture
def slow(login: Login) -> dict[str, str]:
    path = login.directory / "slow"
    path.write_text(SLOW_KUBECTL.format(kubectl=program("kubectl"), directory=login.directory))
    path.chmod(0o755)
    return {"KUBECTL": str(path)}


@pytest.mark.parametrize("moment", ["called", "asked", "watched"])
@pytest.mark.parametrize("flags", [["-s"], ["-s", "-N", "one"], ["-f", "work.sh"], ["-S"]], ids=" ".join)
def test_a_connection_that_drops_leaves_no_pod(
    login: Login, slow: dict[str, str], flags: list[str], moment: str
) -> None:
    process = login.start("-Q", *flags, **slow)
    _drop(login, process, moment, signal.SIGHUP)
    assert process.returncode == 128 + signal.SIGHUP
    assert login.names() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_during_create_leaves_no_pod(login: Login, slow: dict[str, str], number: signal.Signals) -> None:
    process = login.start("-Q", "-s", **slow)
    _drop(login, process, "asked", number, group=False)
    assert process.returncode == 128 + number
    assert login.names() == []


def test_a_pod_of_that_name_that_was_there_before_is_never_deleted(login: Login, slow: dict[str, str]) -> None:
    login.run("-Q", "-N", "one", "-b")
    process = login.start("-Q", "-N", "one", "-s", **slow)
    _drop(login, process, "asked", signal.SIGHUP)
    assert login.run("-Q", "-N", "one", "-s").returncode == 1
    assert login.names() == ["one"]


def test_a_launch_that_is_left_alone_says_what_it_created_when_it_is_interrupted(
    login: Login, slow: dict[str, str]
) -> None:
    process = login.start("-Q", "-N", "one", "-b", **slow)
    _, err = _drop(login, process, "called", signal.SIGHUP)
    assert err == f"error: what was created is left: {slow['KUBECTL']} delete pod/one ends it\n"
    assert login.names() == ["one"]


def _drop(
    login: Login, process: subprocess.Popen[str], moment: str, number: signal.Signals, *, group: bool = True
) -> Sequence[str]:
    """Send a signal at a moment to launch.sh, as a closing terminal does to its group first; many, as two may merge."""
    for word in {"called": [], "asked": ["ask"], "watched": ["ask", "return"]}[moment]:
        (login.directory / word).touch()
    until(lambda: (login.directory / moment).exists(), moment, PATIENCE)
    if group:
        os.killpg(process.pid, number)
    for _ in range(200):
        process.send_signal(number)
        time.sleep(0.0005)
    (login.directory / "ask").touch()
    (login.directory / "return").touch()
    return process.communicate(timeout=PATIENCE)


def test_a_launch_of_which_only_a_part_is_created_says_what_is_left(login: Login) -> None:
    call = ["-Q", "-N", "ranks", "--completions", "2", "--", "true"]
    assert login.run(*call).returncode == 0
    login.server.request("DELETE", login.path("jobs", "ranks"), {"propagationPolicy": "Background"})
    assert (login.names("jobs"), login.names("services")) == ([], ["ranks"])
    done = login.run(*call)
    assert done.returncode == 1
    assert done.stderr.endswith("error: what was created is left: kubectl delete job.batch/ranks ends it\n")
    assert login.names("jobs") == ["ranks"]


def test_many_rows_without_a_name_are_all_created(login: Login) -> None:
    (login.directory / "same.csv").write_text('command\n"python a.py"\n"python b.py"\n')
    done = login.run("-Q", "-B", "--many", "same.csv")
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == [f"pod/{name}" for name in sorted(login.names())]
    assert len(login.names()) == 2
