"""The webhook under a steady stream of creations: upgrade, new certificate, killed replica; nothing is lost unseen.

``failurePolicy: Ignore`` would hide a lost call: the pod would simply lack its podinfo. So every pod is looked at.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cryptography import x509
from lightkube.resources.core_v1 import Pod, Secret

from forewarn import contract, kube
from forewarn.admission.audit import sees_podinfo
from tests.kind.places import NAMESPACE
from tests.support.cluster import Cluster

RATE, CLIENTS = 24.0, 4
ADMISSION = (f"--namespace={NAMESPACE}", "deployment/forewarn-admission")
LABEL = "app.kubernetes.io/component=admission"

KILLER = """
import os, pathlib
for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        words = cmdline.read_bytes().split(b"\\0")
    except OSError:
        continue
    if words[-3:-1] == [b"run", b"admission"]:
        os.kill(int(cmdline.parent.name), 9)
        print("killed", cmdline.parent.name)
        break
"""
"""Kills one replica from the node's side: from inside its container, process 1 cannot be killed."""


@dataclass
class Stream:
    """Pods created at a steady rate by a few clients; no scheduler takes them, so that the node stays free."""

    cluster: Cluster
    namespace: str
    made: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Stream:
        self._started = time.monotonic()
        self._threads = [threading.Thread(target=self._create, args=(number,)) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.seconds = time.monotonic() - self._started

    def _create(self, number: int) -> None:
        client = kube.client(kube.connect(self.cluster.kubeconfig), namespace=self.namespace)
        container = {"name": "main", "image": self.cluster.image, "command": ["python3", "-c", "pass"]}
        step = CLIENTS / RATE
        due = time.monotonic() + number / RATE
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            body = {
                "metadata": {"generateName": "stream-", "namespace": self.namespace},
                "spec": {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]},
            }
            try:
                self.made.append(client.create(cast("Pod", Pod.from_dict(body))).to_dict())
            except kube.FAILURES as error:
                self.failed.append(str(error))
            due += step

    def missed(self) -> list[str]:
        """Return the names of the pods that got no podinfo."""
        return [pod["metadata"]["name"] for pod in self.made if not sees_podinfo(pod)]

    def went_on(self, seconds: float) -> Callable[[], bool]:
        """Return whether the stream has run for so long, as a condition to wait for."""
        return lambda: time.monotonic() - self._started >= seconds


def rolled_out(cluster: Cluster) -> bool:
    deployment = cluster.get(NAMESPACE, "deployment", "forewarn-admission")
    status, wanted = deployment["status"], deployment["spec"]["replicas"]
    counts = {status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")}
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {wanted}


def certificate(cluster: Cluster) -> str:
    client = kube.client(kube.connect(cluster.kubeconfig))
    data = client.get(Secret, "forewarn-admission-tls", namespace=NAMESPACE).data or {}
    return str(data.get("tls.crt", ""))


def all_serve(cluster: Cluster, served: str) -> bool:
    """Whether every replica says that it serves this certificate (as it stands in the Secret), by when that ends."""
    ends = x509.load_pem_x509_certificate(base64.b64decode(served)).not_valid_after_utc.timestamp()
    return all(ends == serves_until(cluster, pod["metadata"]["name"]) for pod in replicas(cluster))


def replicas(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get(NAMESPACE, "pods", selector=LABEL)
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def serves_until(cluster: Cluster, pod: str) -> float:
    told = cluster.kubectl("get", f"--raw=/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8080/proxy/metrics")
    (line,) = re.findall(r"^forewarn_admission_certificate_end_timestamp_seconds (\S+)$", told, re.MULTILINE)
    return float(line)


@pytest.mark.disruptive
def test_an_upgrade_and_a_new_certificate_under_a_stream_of_creations_miss_no_pod(
    operator: Cluster, session_namespace: str
) -> None:
    operator.until(lambda: rolled_out(operator), "a webhook to begin with")
    before = certificate(operator)
    with Stream(operator, session_namespace) as stream:
        operator.until(stream.went_on(5), "the stream", 30)
        operator.kubectl("rollout", "restart", *ADMISSION)
        operator.until(lambda: rolled_out(operator), "the upgrade", 120)
        # An emptied Secret is how a new certificate is asked for by hand.
        patch = '{"data": null}'
        at = f"--namespace={NAMESPACE}"
        operator.kubectl("patch", "secret", "forewarn-admission-tls", at, "--type=merge", f"--patch={patch}")
        operator.until(lambda: certificate(operator) not in ("", before), "a new certificate", 60)
        operator.until(lambda: all_serve(operator, certificate(operator)), "the new certificate in every replica", 60)
        operator.until(stream.went_on(60), "a minute of creations")
    assert stream.failed == []
    assert len(stream.made) / stream.seconds > 20
    assert stream.missed() == []


@pytest.mark.disruptive
def test_a_killed_replica_fails_no_creation_and_every_miss_is_reported(
    operator: Cluster, session_namespace: str
) -> None:
    operator.until(lambda: rolled_out(operator), "a webhook to begin with")

    def restarts() -> int:
        pods = operator.get(NAMESPACE, "pods", selector=LABEL)
        return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", []))

    before = restarts()
    with Stream(operator, session_namespace) as stream:
        operator.until(stream.went_on(3), "the stream", 30)
        operator.create("default", killer(operator))
        try:
            operator.until(lambda: restarts() > before, "a killed replica", 60)
            operator.until(lambda: rolled_out(operator), "the replica again", 60)
        finally:
            operator.kubectl("delete", "pod", "killer", "--namespace=default", "--wait=false")
    assert stream.failed == []
    assert len(stream.made) / stream.seconds > 20
    missed = set(stream.missed())
    print(f"{len(missed)} of {len(stream.made)} pods missed their podinfo")

    def reported() -> set[str]:
        events = operator.events(session_namespace)
        return {each["regarding"]["name"] for each in events if each["reason"] == "PodinfoMissing"}

    operator.until(lambda: reported() >= missed, "a report of every miss", 5)
    assert reported() == missed


def killer(cluster: Cluster) -> dict[str, Any]:
    """Return a pod that kills one replica of the webhook from the node's side."""
    container = {
        "name": "killer",
        "image": cluster.image,
        "command": ["python3", "-c", KILLER],
        "securityContext": {"privileged": True, "runAsUser": 0},
    }
    spec = {
        "nodeName": replicas(cluster)[0]["spec"]["nodeName"],
        "hostPID": True,
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
    }
    labels = {contract.INJECT_LABEL: contract.INJECT_DISABLED}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "killer", "labels": labels}, "spec": spec}
