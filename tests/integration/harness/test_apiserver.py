"""The API server of the integration tests is real, comes back on its port, and never outlives the run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer
from tests.support.waiting import until


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def test_a_pod_is_admitted_with_its_defaults(api_server: ApiServer, namespace: str) -> None:
    status, created = api_server.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod("a"))
    assert status == 201
    assert created["spec"]["terminationGracePeriodSeconds"] == 30
    assert created["spec"]["serviceAccountName"] == "default"


def test_an_account_may_do_only_what_it_was_granted(api_server: ApiServer, namespace: str) -> None:
    kubeconfig = api_server.kubeconfig_of_account(namespace, "nobody")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        api_server.kubectl("--kubeconfig", str(kubeconfig), "get", "pods", "-n", namespace)
    assert "forbidden" in raised.value.stderr.lower()


def test_mutating_admission_policies_are_served(api_server: ApiServer) -> None:
    status, listed = api_server.request("GET", "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies")
    assert (status, listed["items"]) == (200, [])


def test_it_comes_back_on_its_port_with_its_objects(tmp_path: Path) -> None:
    with ApiServer.start(tmp_path / "server") as server:
        server.create_namespace("kept")
        url = server.url
        server.kill()
        assert not server.ready()
        server.start_again()
        assert server.url == url
        assert server.request("GET", "/api/v1/namespaces/kept")[0] == 200


def test_it_dies_with_a_run_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from tests.support.apiserver import ApiServer\n"
        f"server = ApiServer.start(pathlib.Path({str(tmp_path / 'server')!r}))\n"
        "print(server._etcd.pid, server._server.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        run.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    until(lambda: all(map(is_gone, pids)), f"the end of {pids}", 10)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_its_folder_is_closed_to_others(api_server: ApiServer) -> None:
    assert api_server.directory.stat().st_mode & 0o077 == 0
