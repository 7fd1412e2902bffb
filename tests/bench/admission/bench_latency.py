"""What a pod's creation costs more: forewarn's webhook, a minimal Go one, kopf's own server, the CEL policy, none.

All are registered with one API server, each for a namespace of its own, and are measured in turn, round after round;
a number is the median of the rounds. What is shown is the milliseconds added to the creation that nobody looks at.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.admission.inject import InjectSettings
from forewarn.admission.policy import API_GROUP, policy
from forewarn.admission.registration import registration
from tests.bench.table import Row
from tests.support.apiserver import ApiServer
from tests.support.credentials import Authority
from tests.support.processes import Process

TITLE = "added latency of a pod's creation (ms), median of five alternating rounds"

HERE = Path(__file__).parent
ROUNDS = 5
CREATIONS = {1: 600, 16: 2400}
"""Clients → creations of each contender in a round."""
MOST_P50, MOST_P99, OF_KOPF = 1.2, 1.5, 0.6
MOST_RESIDENT = 60.0
OWN = "forewarn-bench"
NONE, GO, FOREWARN, KOPF, CEL = "none", "Go webhook", "forewarn", "kopf's server", "CEL policy"

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "session-", "labels": {"dsmlp/course": "CSE101", "dsmlp/user": "student"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "example.org/notebook:stable",
                "command": ["python", "train.py"],
                "env": [{"name": f"NAME_{number}", "value": "value"} for number in range(8)],
                "resources": {"limits": {"cpu": "2", "memory": "8Gi"}, "requests": {"cpu": "1", "memory": "4Gi"}},
                "volumeMounts": [
                    {"name": "home", "mountPath": "/home/student"},
                    {"name": "shm", "mountPath": "/dev/shm"},
                ],
            }
        ],
        "volumes": [
            {"name": "home", "persistentVolumeClaim": {"claimName": "home"}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    },
}


@dataclass(frozen=True)
class Contender:
    name: str
    namespace: str
    process: Process | None = None


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Measure all contenders; the whole takes about four minutes."""
    say("building the Go programs")
    load = _build("load", work)
    with ExitStack() as stack:
        server = stack.enter_context(ApiServer.start(work / "apiserver"))
        contenders = stack.enter_context(_contenders(server, work))
        (work / "pod.json").write_text(json.dumps(POD))
        added: dict[tuple[str, int, str], list[float]] = {}
        for round_number in range(ROUNDS + 1):
            # The first round warms caches and connections up; it is not counted.
            for clients, count in CREATIONS.items():
                say(f"round {round_number} of {ROUNDS}, {clients} client{'s' if clients > 1 else ''}")
                share = count if round_number else count // 4
                found = {each.name: _measure(load, server, work, each, clients, share) for each in contenders}
                for name, latencies in found.items():
                    for label, at in (("p50", 0.5), ("p99", 0.99)):
                        value = _quantile(latencies, at) - (_quantile(found[NONE], at) if name != NONE else 0.0)
                        if round_number:
                            added.setdefault((name, clients, label), []).append(value)
        (work / "rounds.json").write_text(json.dumps({" ".join(map(str, key)): value for key, value in added.items()}))
        resident = {each.name: _resident(each.process) for each in contenders if each.process is not None}
    medians = {key: statistics.median(values) for key, values in added.items()}
    return [*_rows(medians), *_memory_rows(resident)]


def _rows(medians: dict[tuple[str, int, str], float]) -> Iterator[Row]:
    for clients in CREATIONS:
        for label, most in (("p50", MOST_P50), ("p99", MOST_P99)):
            suffix = f"{label}, {clients} client{'s' if clients > 1 else ''}"
            go, kopf = medians[GO, clients, label], medians[KOPF, clients, label]
            yield Row(f"{NONE}: {suffix} of the creation itself", medians[NONE, clients, label], "ms")
            yield Row(f"{GO}: {suffix}", go, "ms")
            limit = min(most * go, OF_KOPF * kopf)
            value = medians[FOREWARN, clients, label]
            yield Row(f"{FOREWARN}: {suffix}", value, "ms", ratio_to=f"{GO}: {suffix}", limit=limit)
            yield Row(f"{KOPF}: {suffix}", kopf, "ms", ratio_to=f"{GO}: {suffix}")
            yield Row(f"{CEL}: {suffix}", medians[CEL, clients, label], "ms", ratio_to=f"{GO}: {suffix}")


def _memory_rows(resident: dict[str, float]) -> Iterator[Row]:
    for name, value in resident.items():
        yield Row(f"{name}: resident", value, "MB", limit=MOST_RESIDENT if name == FOREWARN else None)


def _quantile(values: list[float], at: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * at))]


def _build(name: str, work: Path) -> Path:
    target = work / name
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    subprocess.run(["go", "build", "-o", str(target), "."], cwd=HERE / "go" / name, env=environment, check=True)
    return target


def _measure(load: Path, server: ApiServer, work: Path, contender: Contender, clients: int, count: int) -> list[float]:
    url = f"{server.url}/api/v1/namespaces/{contender.namespace}/pods?dryRun=All"
    cert, key = server.admin_pair
    needed = '"name"' if contender.name == NONE else "termination-warning-at"
    argv = [str(load), url, str(server.directory / "ca.crt"), str(cert), str(key), str(work / "pod.json")]
    ran = subprocess.run([*argv, str(clients), str(count), needed], capture_output=True, text=True, timeout=300)
    if ran.returncode:
        raise RuntimeError(f"{contender.name}: {ran.stderr[:500]}")
    return [float(value) for value in json.loads(ran.stdout)]


@contextmanager
def _contenders(server: ApiServer, work: Path) -> Iterator[list[Contender]]:
    authority = Authority("bench")
    cert, key = authority.server(["127.0.0.1"]).write(work, "webhook")
    ports = {name: _free_port() for name in (GO, FOREWARN, KOPF)}
    commands: dict[str, tuple[list[str], dict[str, str]]] = {
        GO: ([str(_build("webhook", work)), f"127.0.0.1:{ports[GO]}", str(cert), str(key)], {}),
        FOREWARN: (
            # As it is deployed: it makes and keeps its own certificate.
            [
                *(sys.executable, "-m", "forewarn.cli", "run", "admission", "--host=127.0.0.1"),
                *(f"--port={ports[FOREWARN]}", f"--health-port={_free_port()}", f"--kubeconfig={server.kubeconfig}"),
                *(f"--namespace={OWN}", f"--registration={FOREWARN}"),
            ],
            {},
        ),
        KOPF: (
            [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace=kopf", str(HERE / "kopf_webhook.py")],
            {
                "KUBECONFIG": str(server.kubeconfig),
                "KOPF_PORT": str(ports[KOPF]),
                "KOPF_CERT": str(cert),
                "KOPF_KEY": str(key),
            },
        ),
    }
    namespaces = {name: f"bench-{number}" for number, name in enumerate((NONE, GO, FOREWARN, KOPF, CEL))}
    for namespace in namespaces.values():
        server.create_namespace(namespace, {"bench": namespace})
    server.create_namespace("kopf")
    server.create_namespace(OWN)
    with ExitStack() as stack:
        processes = {}
        for name, (argv, environment) in commands.items():
            process = stack.enter_context(Process(argv, work / f"{name.split()[0]}.log", env=environment))
            process.until(lambda name=name: _listens(ports[name]), "its port", 30)  # type: ignore[misc]
            client = None if name == FOREWARN else _by_address(authority, ports[name])
            _register(server, name, namespaces[name], ports[name], client)
            processes[name] = process
        _register_policy(server, namespaces[CEL])
        # Registrations reach the API server's own cache a moment later.
        for name in (GO, FOREWARN, KOPF, CEL):
            _wait_for_podinfo(server, namespaces[name], name)
        yield [Contender(name, namespace, processes.get(name)) for name, namespace in namespaces.items()]


def _by_address(authority: Authority, port: int) -> dict[str, Any]:
    bundle = base64.b64encode(authority.pem).decode()
    return {"url": f"https://127.0.0.1:{port}/mutate", "caBundle": bundle}


def _register(server: ApiServer, name: str, namespace: str, port: int, client: dict[str, Any] | None) -> None:
    """Register a webhook for a namespace: by its address, or (``None``) by a Service that leads to loopback."""
    service = "forewarn-admission"
    document = registration(
        InjectSettings(), ("bench", namespace), name=_name(name), namespace=OWN, service=service, port=port
    )
    if client is not None:
        document["webhooks"][0]["clientConfig"] = client
    else:
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        _create(server, f"/api/v1/namespaces/{OWN}/services", {"metadata": {"name": service}, "spec": spec})
    _create(server, f"/apis/{API_GROUP}/v1/mutatingwebhookconfigurations", document)


def _name(contender: str) -> str:
    return re.sub(r"[^a-z]+", "-", contender.lower())


def _register_policy(server: ApiServer, namespace: str) -> None:
    documents = policy(InjectSettings(), ("bench", namespace), name="bench", namespace="forewarn", version="v1beta1")
    plurals = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    for plural, document in zip(plurals, documents, strict=True):
        _create(server, f"/apis/{API_GROUP}/v1beta1/{plural}", document)


def _create(server: ApiServer, path: str, document: dict[str, Any]) -> None:
    status, answer = server.request("POST", path, document)
    if status != 201:
        raise RuntimeError(f"{path}: {status} {answer}")


def _wait_for_podinfo(server: ApiServer, namespace: str, name: str) -> None:
    deadline = time.monotonic() + 30
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    while "termination-warning-at" not in json.dumps(server.request("POST", path, POD)[1]):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name}: no pod gets its podinfo")
        time.sleep(0.1)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _resident(process: Process) -> float:
    """Return a process's resident memory in MB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")
