"""The deployed webhook changes pods of session namespaces, and no others."""

from __future__ import annotations

from typing import Any

from forewarn import contract
from tests.support.cluster import Cluster

SLEEP = ["python3", "-c", "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); signal.pause()"]


def pod(cluster: Cluster, name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": cluster.image, "command": SLEEP}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def mounts(container: dict[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts", []) if mount["name"] == contract.VOLUME_NAME]


def test_a_bare_pod_gets_volume_mounts_and_grace(operator: Cluster, session_namespace: str) -> None:
    operator.create(session_namespace, pod(operator, "bare"))
    made = operator.get(session_namespace, "pod", "bare")
    assert made["spec"]["terminationGracePeriodSeconds"] == contract.GRACE_SECONDS
    assert mounts(made["spec"]["containers"][0]) == [contract.MOUNT_PATH]
    operator.wait(session_namespace, "bare")
    listed = operator.run_in(session_namespace, "bare", "ls", contract.MOUNT_PATH)
    assert set(listed.split()) >= set(contract.PODINFO_NAMES)


def test_a_pod_outside_the_session_namespaces_is_left_alone(operator: Cluster, plain_namespace: str) -> None:
    operator.create(plain_namespace, pod(operator, "plain"))
    made = operator.get(plain_namespace, "pod", "plain")
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert not mounts(made["spec"]["containers"][0])
