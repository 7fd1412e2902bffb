"""A trainer in a real pod heeds what the controller writes, loses no step to a preemption, and goes on in the next."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import kube
from forewarn.contract import Keys
from forewarn.simulator import command, report, scenario
from forewarn.simulator.runner import Played, Runner
from tests.support.cluster import Cluster
from tests.support.programs import cache, program

ROOT = Path(__file__).resolve().parents[2]
KEYS = Keys()
ENVIRONMENT = {"PYTHONPATH": "/data/numpy", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
TRAIN = "cd /data && exec python3 /data/pod.py /data/out.log /data/numpy_trainer.py checkpoints 100000 0.1"


def numpy_wheel() -> Path:
    """Return numpy's wheel for the container, as locked; downloaded once, since a pod has no network."""
    lock = (ROOT / "locks" / "torch.txt").read_text()
    found = re.search(r"^numpy==(\S+) \\\n(?: +--hash=\S+(?: \\)?\n)+", lock, re.MULTILINE)
    assert found
    directory = cache() / "wheels" / f"numpy-{found.group(1)}"
    if not list(directory.glob("*.whl")):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "numpy.txt").write_text(found.group())
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        target = ["--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_28_x86_64"]
        older = ["--platform=manylinux_2_27_x86_64", "--platform=manylinux2014_x86_64"]
        lock_file = ["--require-hashes", f"--requirement={directory / 'numpy.txt'}", f"--dest={directory}"]
        subprocess.run([*pip, *target, *older, *lock_file], check=True, timeout=120)
    return next(directory.glob("*.whl"))


class Home:
    """A directory on a node that outlives the pods: what a home on NFS is there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.path = f"/var/tmp/forewarn-{namespace}"

    def pod(self, name: str, *argv: str) -> dict[str, object]:
        spec = {
            "restartPolicy": "Never",
            "volumes": [{"name": "home", "hostPath": {"path": self.path, "type": "DirectoryOrCreate"}}],
            "containers": [
                {
                    "name": "main",
                    "image": self.cluster.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": list(argv),
                    "env": [{"name": key, "value": value} for key, value in ENVIRONMENT.items()],
                    "volumeMounts": [{"name": "home", "mountPath": "/data"}],
                    # The image's own user is nobody; a home is written by its owner.
                    "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
                }
            ],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def run(self, *argv: str, data: bytes | None = None) -> str:
        words = [f"--kubeconfig={self.cluster.kubeconfig}", "exec", "-i", "-n", self.namespace, "home", "--", *argv]
        ran = subprocess.run([program("kubectl"), *words], input=data, capture_output=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    def put(self, name: str, data: bytes) -> None:
        self.run("sh", "-c", f"cat > /data/{name}", data=data)


@pytest.fixture
def home(session_namespace: str, operator: Cluster) -> Iterator[Home]:
    """The directory, with numpy, the trainer and what starts it."""
    if why := operator.why_no_host_path(session_namespace):
        pytest.skip(why)
    home = Home(operator, session_namespace)
    operator.create(session_namespace, home.pod("home", "sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"))
    operator.wait(session_namespace, "home")
    home.put("numpy.whl", numpy_wheel().read_bytes())
    home.run("python3", "-m", "zipfile", "-e", "/data/numpy.whl", "/data/numpy")
    home.put("numpy_trainer.py", (ROOT / "examples" / "numpy_trainer.py").read_bytes())
    home.put("pod.py", (ROOT / "tests" / "cases" / "inpod" / "pod.py").read_bytes())
    yield home
    home.run("sh", "-c", "rm -rf /data/*")


def story(home: Home) -> dict[str, object]:
    node = home.cluster.get(home.namespace, "pod", "home")["spec"]["nodeName"]
    pods = {}
    for name in ("first", "second"):
        manifest = home.pod(name, "sh", "-c", TRAIN)
        manifest["spec"]["nodeName"] = node  # type: ignore[index]
        pods[name] = {"manifest": manifest}
    first: list[dict[str, object]] = [
        {"expect-log": "step 20 "},
        {"warn": {"at": "now+50s", "risk": "0.50"}},
        {"expect-log": "termination warning; going on"},
        {"expect-event": {"reason": "TerminationWarning", "count": "1"}},
        {"withdraw": None},
        {"expect-log": "podinfo: withdrawn"},
        {"expect-event": {"reason": "TerminationWarningWithdrawn", "count": "1"}},
        {"warn": {"at": "now+50s", "risk": "1.00"}},
        {"expect-event": {"reason": "TerminationWarning", "count": "2"}},
        {"expect-file": "termination-warning-at"},
        {"preempt": None},
        {"expect-signal": "5s"},
        {"expect-exit": "75"},
        {"expect-grace": {"seconds": "600", "lasted-at-most": "20s"}},
        {"expect-gone": None},
    ]
    second: list[dict[str, object]] = [{"create": None}, {"expect-log": "step "}]
    steps = [{"pod": "first", **step} for step in first] + [{"pod": "second", **step} for step in second]
    return {"about": "a trainer that heeds", "pods": pods, "steps": steps}


async def play(path: Path, home: Home) -> Played:
    read = scenario.read(path, command.surroundings(KEYS, home.cluster.image))
    async with kube.async_client(kube.connect(home.cluster.kubeconfig)) as client:
        return await Runner(read, client, home.namespace, environ={}).play()


def told(played: Played) -> str:
    out = io.StringIO()
    with report.Screen(out, io.StringIO(), KEYS) as screen:
        screen.end(played)
    return out.getvalue()


@pytest.mark.timeout(400)
def test_the_numpy_trainer_loses_no_step_to_a_preemption(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "trainer.yaml"
    path.write_text(json.dumps(story(home)))
    played = asyncio.run(play(path, home))
    assert played.passed, told(played)

    output = home.run("cat", "/data/out.log").splitlines()
    interruptions = home.run("cat", "/data/interruptions.log").splitlines()
    saves = [line for line in interruptions if "termination warning; going on" in line]
    stopped = [line for line in interruptions if "SIGTERM; stopping" in line]
    assert len(saves) == 2, interruptions
    assert stopped, interruptions

    # Each warning was followed by a save within one step: that in progress, or the one that had just been printed.
    warned_at = [index for index, line in enumerate(output) if line == "podinfo: warned"]
    steps = [int(line.split()[1]) if line.startswith("step ") else 0 for line in output]
    assert len(warned_at) == 2, [line for line in output if line.startswith("podinfo")]
    for index, line in zip(warned_at, saves, strict=True):
        saved = int(re.search(r"step=(\d+)", line).group(1))  # type: ignore[union-attr]
        assert f"-step-{saved}.ckpt" in line
        # Less, where the watch's thread told it later than the loop saw it.
        assert saved <= max(steps[:index]) + 1

    # Withdrawn, it went on; preempted, it had saved before SIGTERM, and saved its last step after it.
    last = int(re.search(r"step=(\d+)", stopped[0]).group(1))  # type: ignore[union-attr]
    assert "warned=yes" in stopped[0]
    assert all("warned=no" in line for line in stopped[1:]), (
        "the second pod is stopped by the end of the scenario alone"
    )
    assert int(re.search(r"step=(\d+)", saves[1]).group(1)) <= last  # type: ignore[union-attr]

    # The next pod begins with the very next step, and its losses are those of a run that nobody stopped.
    lines = [line for line in output if line.startswith("step ")]
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > last
    reference = f"mkdir -p /tmp/r && cd /tmp/r && python3 /data/numpy_trainer.py c {len(numbers)}"
    whole = [line for line in home.run("sh", "-c", reference).splitlines() if line.startswith("step ")]
    assert lines == whole
