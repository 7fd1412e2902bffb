"""``forewarn render`` beside ``helm template`` of a one-pod chart: one launch as a process, and a class of 300."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.table import Row
from tests.support.programs import program

TITLE = "manifests: a launch rendered, as a process"
ROUNDS = 40
CLASS = 300
MEGABYTE = 1024  # wait4 counts in KiB on Linux

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: session\nversion: 0.1.0\n",
    "values.yaml": "image: python:3.12\ncpus: 1\nmemory: 1\ncommand: [python, train.py]\n",
    "templates/pod.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}
  labels: {dsmlp/user: alice}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 21600
  terminationGracePeriodSeconds: 600
  containers:
    - name: session
      image: {{ .Values.image | quote }}
      args: {{ .Values.command | toJson }}
      resources:
        limits: {cpu: {{ .Values.cpus }}, memory: {{ .Values.memory }}Gi}
""",
}


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Take turns, so that whatever else the machine does falls on all alike; the median of each is told."""
    chart = work / "chart"
    for name, text in CHART.items():
        path = chart / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    python = Path(sys.executable)
    forewarn = str(python.with_name("forewarn"))
    launch = ["-Q", "-g", "1", "-l", "gpu-class=small", "-B", "--", "python", "train.py"]
    helm = [str(program("helm")), "template", "train", str(chart)]
    commands = {
        "bare Python": [str(python), "-c", "pass"],
        "helm template": helm,
        "forewarn render": [forewarn, "render", *launch],
        "forewarn render -d": [forewarn, "render", "-d", *launch],
    }
    say(f"{ROUNDS} rounds of {', '.join(commands)}")
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            taken[name].append(_call(command)[0])
    median = {name: statistics.median(times) * 1000 for name, times in taken.items()}
    say(f"{CLASS} helm calls")
    started = time.perf_counter()
    for _ in range(CLASS):
        _call(helm)
    calls = time.perf_counter() - started
    many = work / "class.csv"
    rows = [f'student{n},lab-{n},1,gpu-class=small,"python lab.py --seed {n}"' for n in range(CLASS)]
    many.write_text("\n".join(["user,name,gpus,label,command", *rows]) + "\n")
    say(f"{CLASS} launches in one process")
    runs = [_call([forewarn, "render", "-Q", "--many", str(many), "-B"]) for _ in range(5)]
    once = statistics.median(seconds for seconds, _ in runs)
    limit = 2 * median["helm template"]
    return [
        Row("bare Python", median["bare Python"], "ms"),
        Row("helm template", median["helm template"], "ms"),
        Row("forewarn render", median["forewarn render"], "ms", "helm template", limit=limit),
        Row("forewarn render -d", median["forewarn render -d"], "ms", "helm template"),
        Row(f"{CLASS} helm calls", calls, "s"),
        Row(f"{CLASS} launches, one process", once, "s", f"{CLASS} helm calls", limit=calls / 20),
        Row("its peak memory", max(size for _, size in runs), "MB", limit=40),
    ]


def _call(command: Sequence[str]) -> tuple[float, float]:
    """Return the seconds that a command took and its peak memory in MB."""
    started = time.perf_counter()
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, usage.ru_maxrss / MEGABYTE
