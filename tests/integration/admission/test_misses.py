"""A pod that the webhook missed is reported within five seconds of its appearance; one that it served is not."""

from __future__ import annotations

from pathlib import Path

from tests.integration.admission.conftest import Installation
from tests.integration.admission.pods import BARE, create, podinfo_mounts
from tests.integration.mirror.support import MirrorProcess
from tests.support.apiserver import ApiServer
from tests.support.waiting import until

WITHIN = 5.0


def reported(server: ApiServer, namespace: str) -> set[str]:
    status, answer = server.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    assert status == 200
    return {each["regarding"]["name"] for each in answer["items"] if each["reason"] == "PodinfoMissing"}


def test_every_pod_that_the_webhook_missed_is_reported_and_no_other(
    installation: Installation, api_server: ApiServer, session_namespace: str, tmp_path: Path
) -> None:
    replica = installation.ready_replica()
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", f"--namespace={session_namespace}") as mirror:
        mirror.ready()
        served = [create(api_server, session_namespace, BARE) for _ in range(5)]
        replica.process.kill()
        missed = [create(api_server, session_namespace, BARE) for _ in range(20)]
        names = {pod["metadata"]["name"] for pod in missed}
        until(lambda: names <= reported(api_server, session_namespace), "a report of every missed pod", WITHIN)
    assert all(podinfo_mounts(pod) == [True] for pod in served)
    assert all(podinfo_mounts(pod) == [False] for pod in missed)
    assert reported(api_server, session_namespace) == names
