"""The chart on a real API server: its rights are enough for the real programs, and an upgrade breaks nothing."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import contract
from tests.kind.places import CHART
from tests.support.apiserver import ApiServer
from tests.support.chart import helm
from tests.support.processes import Process

RELEASE = "charted"
READY_SECONDS = 30.0


@pytest.fixture
def installed(api_server: ApiServer, namespace: str) -> Iterator[str]:
    """The chart in a namespace of its own; no pods come of it here, so the programs are run by hand."""
    at = (f"--kubeconfig={api_server.kubeconfig}", f"--namespace={namespace}")
    helm("install", RELEASE, str(CHART), *at)
    yield namespace
    helm("uninstall", RELEASE, *at)


def bundle(server: ApiServer) -> str:
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{RELEASE}-admission"
    return str(server.request("GET", path)[1]["webhooks"][0]["clientConfig"].get("caBundle") or "")


def start(server: ApiServer, part: str, namespace: str, log: Path, *flags: str) -> Process:
    """Run a program with the variables of its Deployment, as its ServiceAccount."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{RELEASE}-{part}"
    container = server.request("GET", path)[1]["spec"]["template"]["spec"]["containers"][0]
    kubeconfig = server.kubeconfig_of_account(namespace, f"{RELEASE}-{part}")
    words = [sys.executable, "-m", "forewarn.cli", *container["command"][1:], f"--kubeconfig={kubeconfig}"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    return Process([*words, "--health-port=0", *flags], log, environment)


def test_admission_keeps_its_certificate_and_an_upgrade_keeps_the_bundle(
    api_server: ApiServer, installed: str, tmp_path: Path
) -> None:
    with start(api_server, "admission", installed, tmp_path / "log", "--port=0", "--drain=0") as admission:
        admission.until(lambda: bundle(api_server) != "", "the caBundle", READY_SECONDS)
    assert base64.b64decode(bundle(api_server)).startswith(b"-----BEGIN CERTIFICATE-----")
    before = bundle(api_server)
    secret = f"/api/v1/namespaces/{installed}/secrets/{RELEASE}-admission-tls"
    kept = api_server.request("GET", secret)[1]["data"]
    # Admission does not run now, so what the upgrade wiped would stay wiped.
    at = (f"--kubeconfig={api_server.kubeconfig}", f"--namespace={installed}")
    helm("upgrade", RELEASE, str(CHART), *at, "--set=annotationPrefix=horae/", "--set=podSelector=a=b")
    assert bundle(api_server) == before
    assert api_server.request("GET", secret)[1]["data"] == kept


def test_the_mirror_writes_an_event_with_the_charts_rights(
    api_server: ApiServer, installed: str, session_namespace: str, tmp_path: Path
) -> None:
    with start(api_server, "mirror", installed, tmp_path / "log") as mirror:
        pod = {
            "metadata": {
                "name": "warned",
                "annotations": {contract.DEFAULT_PREFIX + contract.WARNING_AT: "2026-11-29T19:30:00Z"},
            },
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        assert api_server.request("POST", f"/api/v1/namespaces/{session_namespace}/pods", pod)[0] == 201
        path = f"/apis/events.k8s.io/v1/namespaces/{session_namespace}/events"
        mirror.until(lambda: bool(api_server.request("GET", path)[1]["items"]), "an Event", READY_SECONDS)
        events = api_server.request("GET", path)[1]["items"]
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed}/leases/{RELEASE}-mirror"
        assert api_server.request("GET", lease)[1]["spec"]["holderIdentity"]
    assert {event["reportingController"] for event in events} == {contract.REPORTING_CONTROLLER}, json.dumps(events)
