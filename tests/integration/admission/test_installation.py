"""The webhook's certificate and its ends: made, shared, kept, rotated; replicas that come, go and are killed."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.admission import keeper
from forewarn.admission.inject import InjectSettings
from tests.integration.admission.conftest import REGISTRATIONS, Installation, Replica
from tests.integration.admission.pods import BARE, create, podinfo_mounts
from tests.support.apiserver import ApiServer
from tests.support.waiting import until


@pytest.fixture
def replica(installation: Installation) -> Iterator[Replica]:
    started = installation.ready_replica()
    yield started
    started.process.stop()


def bundle(installation: Installation) -> str:
    return base64.b64decode(installation.registered()["webhooks"][0]["clientConfig"].get("caBundle", "")).decode()


def served(installation: Installation, port: int) -> bytes:
    """Return the certificate that is served, checked as the API server does."""
    context = ssl.create_default_context(cadata=bundle(installation))
    name = f"{installation.name}.{installation.namespace}.svc"
    with socket.create_connection(("127.0.0.1", port), 5) as raw, context.wrap_socket(raw, server_hostname=name) as tls:
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"").encode()


def patch_registration(installation: Installation, ca: str) -> None:
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ca}]
    path = f"{REGISTRATIONS}/{installation.name}"
    status, answer = installation.server.request("PATCH", path, patch, "application/json-patch+json")  # type: ignore[arg-type]
    assert status == 200, answer


def test_the_webhook_gone_does_not_stop_a_creation(
    installation: Installation, replica: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    assert podinfo_mounts(create(api_server, session_namespace, BARE)) == [True]
    replica.process.kill()
    started = time.monotonic()
    assert podinfo_mounts(create(api_server, session_namespace, BARE)) == [False]
    assert time.monotonic() - started < 3


def test_replicas_that_start_at_once_share_one_certificate(installation: Installation) -> None:
    # The first two listen on ports of their own: only their certificates are compared.
    replicas = [installation.replica(port=0 if n else None) for n in range(3)]
    try:
        for each in replicas:
            each.process.until(each.ready, "/readyz", 30)
        kept = base64.b64decode(installation.secret()["data"]["tls.crt"])
        assert served(installation, installation.port).split() == kept.split()
        made = sum(each.process.output().count("made a certificate") for each in replicas)
        assert made == 1
    finally:
        for each in replicas:
            each.process.stop()


def test_a_wiped_ca_bundle_is_written_again(
    installation: Installation, replica: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    patch_registration(installation, "")
    until(lambda: bundle(installation) != "", "the caBundle", keeper.EVERY + 2)
    assert podinfo_mounts(create(api_server, session_namespace, BARE)) == [True]


def test_a_registration_applied_anew_gets_its_ca_bundle_back(
    installation: Installation, replica: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    installation.remove()
    until(lambda: not replica.ready(), "not ready without a registration", keeper.EVERY + 2)
    installation.register()
    until(replica.ready, "ready", keeper.EVERY + 2)
    assert podinfo_mounts(create(api_server, session_namespace, BARE)) == [True]


def test_a_rotation_under_a_stream_of_creations_misses_no_pod(
    installation: Installation, replica: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    before = served(installation, installation.port)
    stop, pods = threading.Event(), list[dict[str, Any]]()

    def stream() -> None:
        while not stop.is_set():
            pods.append(create(api_server, session_namespace, BARE, "?dryRun=All"))

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        # An emptied Secret is how a rotation is asked for by hand.
        path = f"/api/v1/namespaces/{installation.namespace}/secrets/{installation.name}-tls"
        assert api_server.request("PATCH", path, {"data": None}, "application/merge-patch+json")[0] == 200
        until(lambda: served(installation, installation.port) != before, "a new certificate", 3 * keeper.EVERY)
    finally:
        stop.set()
        thread.join()
    assert len(pods) > 50
    assert [pod for pod in pods if podinfo_mounts(pod) != [True]] == []
    # A replica that serves the old one is still trusted.
    assert bundle(installation).count("BEGIN CERTIFICATE") == 2


def test_a_stop_serves_on_and_then_ends_in_order(
    installation: Installation, api_server: ApiServer, session_namespace: str
) -> None:
    replica = installation.ready_replica("--drain=8")
    create(api_server, session_namespace, BARE)
    replica.process.signal(15)
    until(lambda: not replica.ready(), "not ready", 5)
    assert podinfo_mounts(create(api_server, session_namespace, BARE)) == [True]
    assert replica.process.wait(20) == 0


def test_the_documented_rights_are_enough(installation: Installation, api_server: ApiServer) -> None:
    account, namespace, name = "webhook", installation.namespace, installation.name
    empty = {"metadata": {"name": f"{name}-tls"}}
    subject = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    group = "rbac.authorization.k8s.io"
    for path, body in (
        (f"/api/v1/namespaces/{namespace}/secrets", empty),
        (
            f"/apis/{group}/v1/namespaces/{namespace}/roles",
            {
                "metadata": {"name": account},
                "rules": [
                    {
                        "apiGroups": [""],
                        "resources": ["secrets"],
                        "resourceNames": [f"{name}-tls"],
                        "verbs": ["get", "update"],
                    }
                ],
            },
        ),
        (
            f"/apis/{group}/v1/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": account},
                "subjects": subject,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": account},
            },
        ),
        (
            f"/apis/{group}/v1/clusterroles",
            {
                "metadata": {"name": name},
                "rules": [
                    {
                        "apiGroups": ["admissionregistration.k8s.io"],
                        "resources": ["mutatingwebhookconfigurations"],
                        "resourceNames": [name],
                        "verbs": ["get", "patch"],
                    }
                ],
            },
        ),
        (
            f"/apis/{group}/v1/clusterrolebindings",
            {
                "metadata": {"name": name},
                "subjects": subject,
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            },
        ),
    ):
        status, answer = api_server.request("POST", path, body)
        assert status == 201, answer
    replica = installation.ready_replica(kubeconfig=api_server.kubeconfig_of_account(namespace, account))
    assert "warning" not in replica.process.output()
    replica.process.stop()


def test_a_second_call_in_one_admission_adds_nothing_twice(
    installation: Installation, api_server: ApiServer, session_namespace: str, tmp_path: Path
) -> None:
    """A second webhook that changes the pod after ours makes the API server ask ours again."""
    whole_map = Installation(api_server, tmp_path / "second", InjectSettings(whole_map=True))
    replicas = [installation.ready_replica(), whole_map.ready_replica()]
    try:
        before = [each.calls() for each in replicas]
        pod = create(api_server, session_namespace, BARE)
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "podinfo"]
        assert len(volume["downwardAPI"]["items"]) == 7
        assert podinfo_mounts(pod) == [True]
        assert len([m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["name"] == "podinfo"]) == 1
        assert sum(each.calls() for each in replicas) - sum(before) >= 3
    finally:
        whole_map.remove()
        for each in replicas:
            each.process.stop()
