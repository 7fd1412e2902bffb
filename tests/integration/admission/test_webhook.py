"""The webhook with a real API server: what pods get, what they never lose, and what a bad request gets."""

from __future__ import annotations

import copy
import subprocess

import pytest

from forewarn import contract
from tests.integration.admission.conftest import Replica
from tests.integration.admission.pods import BARE, create, podinfo_files, podinfo_mounts
from tests.support.apiserver import ApiServer
from tests.support.programs import program


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
def test_a_bare_pod_gets_podinfo_and_grace(
    webhook: Replica, api_server: ApiServer, session_namespace: str, query: str
) -> None:
    pod = create(api_server, session_namespace, BARE, query)
    assert podinfo_files(pod) == list(contract.PODINFO_NAMES)
    assert podinfo_mounts(pod) == [True]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 600


def test_init_containers_and_sidecars_get_it_too(
    webhook: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    pod = copy.deepcopy(BARE)
    pod["spec"]["containers"].append({"name": "second", "image": "x"})
    pod["spec"]["initContainers"] = [
        {"name": "init", "image": "x"},
        {"name": "sidecar", "image": "x", "restartPolicy": "Always"},
    ]
    made = create(api_server, session_namespace, pod)
    assert podinfo_mounts(made) == [True, True]
    assert podinfo_mounts(made, "initContainers") == [True, True]
    assert [c["name"] for c in made["spec"]["containers"]] == ["main", "second"]


def test_a_pod_outside_session_namespaces_is_not_touched(
    webhook: Replica, api_server: ApiServer, namespace: str
) -> None:
    before = webhook.calls()
    pod = create(api_server, namespace, BARE)
    assert podinfo_mounts(pod) == [False]
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert webhook.calls() == before


def test_a_pod_that_opted_out_costs_no_call(webhook: Replica, api_server: ApiServer, session_namespace: str) -> None:
    before = webhook.calls()
    pod = copy.deepcopy(BARE)
    pod["metadata"]["labels"] = {contract.INJECT_LABEL: contract.INJECT_DISABLED}
    assert podinfo_mounts(create(api_server, session_namespace, pod)) == [False]
    assert webhook.calls() == before


def test_a_complete_pod_costs_no_call(webhook: Replica, api_server: ApiServer, session_namespace: str) -> None:
    made = create(api_server, session_namespace, BARE, "?dryRun=All")
    before = webhook.calls()
    again = {**BARE, "spec": {**BARE["spec"], **{k: made["spec"][k] for k in ("terminationGracePeriodSeconds",)}}}
    again["spec"]["volumes"] = [v for v in made["spec"]["volumes"] if v["name"] == contract.VOLUME_NAME]
    again["spec"]["containers"] = [
        {**BARE["spec"]["containers"][0], "volumeMounts": [{"name": "podinfo", "mountPath": "/etc/podinfo"}]}
    ]
    assert podinfo_files(create(api_server, session_namespace, again)) == list(contract.PODINFO_NAMES)
    assert webhook.calls() == before


def test_the_owner_of_a_shell_as_pid_1_is_warned(
    webhook: Replica, api_server: ApiServer, session_namespace: str
) -> None:
    manifest = (
        "{apiVersion: v1, kind: Pod, metadata: {name: shell}, spec: {containers: [{name: main, image: x,"
        " command: [bash, -c, 'python prepare.py; python train.py']}]}}"
    )
    argv = [program("kubectl"), f"--kubeconfig={api_server.kubeconfig}", "create", "-n", session_namespace, "-f", "-"]
    ran = subprocess.run(argv, input=manifest, capture_output=True, text=True, timeout=60, check=True)
    assert "Warning: forewarn: container main: its PID 1 ignores SIGTERM" in ran.stderr
