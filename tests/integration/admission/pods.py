"""Pods that tests create, and what they look at in the answers."""

from __future__ import annotations

from typing import Any

from forewarn import contract
from tests.support.apiserver import ApiServer

BARE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "session-"},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}


def create(server: ApiServer, namespace: str, pod: dict[str, Any], query: str = "") -> dict[str, Any]:
    """Create a pod; a body without a namespace, as clients send it."""
    status, answer = server.request("POST", f"/api/v1/namespaces/{namespace}/pods{query}", pod)
    assert status == 201, answer
    return dict(answer)


def podinfo_mounts(pod: dict[str, Any], field: str = "containers") -> list[bool]:
    return [
        any(m["mountPath"] == contract.MOUNT_PATH and m["readOnly"] for m in container.get("volumeMounts", []))
        for container in pod["spec"][field]
    ]


def podinfo_files(pod: dict[str, Any]) -> list[str]:
    (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == contract.VOLUME_NAME]
    return [item["path"] for item in volume["downwardAPI"]["items"]]
