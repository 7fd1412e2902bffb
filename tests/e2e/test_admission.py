"""What the webhook does to pods on a real cluster, and that nobody is kept from starting one when it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn import contract
from tests.support.cluster import OPERATOR_NAMESPACE, Cluster

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


def injects(cluster: Cluster, namespace: str) -> bool:
    """Whether a pod that is created now (as a dry run) comes back changed."""
    answer = cluster.kubectl(
        *("run", "dry", f"--namespace={namespace}", f"--image={cluster.image}", "--restart=Never", "--dry-run=server"),
        *("--output=jsonpath={.spec.terminationGracePeriodSeconds}", "--command", "--", *SLEEP),
    )
    return answer == str(contract.GRACE_SECONDS)


@pytest.mark.disruptive
def test_a_pod_is_created_while_the_webhook_is_scaled_to_zero(operator: Cluster, session_namespace: str) -> None:
    at = (f"--namespace={OPERATOR_NAMESPACE}", "deployment/forewarn-admission")
    operator.kubectl("scale", *at, "--replicas=0")
    try:
        label = "app.kubernetes.io/component=admission"
        operator.until(lambda: not operator.get(OPERATOR_NAMESPACE, "pods", selector=label), 60, "no webhook left")
        operator.create(session_namespace, pod(operator, "unchanged"))
        assert not mounts(operator.get(session_namespace, "pod", "unchanged")["spec"]["containers"][0])
    finally:
        operator.kubectl("scale", *at, "--replicas=2")
        operator.kubectl("rollout", "status", *at, "--timeout=90s", timeout=100)
        # The node's own rules follow a moment later.
        operator.until(lambda: injects(operator, session_namespace), 30, "the webhook is called again")


@pytest.mark.disruptive
def test_an_upgrade_of_the_webhook_drops_no_call(operator: Cluster, session_namespace: str) -> None:
    """failurePolicy Ignore would hide a dropped call: the pod would simply lack its mounts."""
    operator.until(lambda: injects(operator, session_namespace), 30, "the webhook is called")
    operator.kubectl("rollout", "restart", f"--namespace={OPERATOR_NAMESPACE}", "deployment/forewarn-admission")
    generation = operator.get(OPERATOR_NAMESPACE, "deployment", "forewarn-admission")["metadata"]["generation"]

    def rolled_out() -> bool:
        status = operator.get(OPERATOR_NAMESPACE, "deployment", "forewarn-admission")["status"]
        counts = {status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")}
        return status.get("observedGeneration") == generation and counts == {2}

    calls: list[bool] = []
    while not rolled_out():
        calls.append(injects(operator, session_namespace))
        assert len(calls) < 500, "the rollout does not end"
    assert len(calls) > 3
    assert all(calls), f"{calls.count(False)} of {len(calls)} calls were dropped"
