"""What the mirror needs, and what it says when that is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.mirror.support import MirrorProcess, Sessions, pod_body, warning
from tests.support.apiserver import ApiServer

RULES = [
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "get", "list"]},
]
LEASE_RULE = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "resourceNames": ["forewarn-mirror"],
    "verbs": ["get", "update"],
}


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "forewarn.cli", "run", "mirror", *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def assert_one_line(ran: subprocess.CompletedProcess[str], *words: str) -> None:
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    for word in words:
        assert word in ran.stderr


def account(server: ApiServer, namespace: str, name: str) -> Path:
    """Return the kubeconfig of an account that has exactly the chart's rights on the mirror's side."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    for path, kind, rules in (
        (rbac, "ClusterRole", RULES),
        (f"{rbac}/namespaces/{namespace}", "Role", [LEASE_RULE]),
    ):
        made = {"metadata": {"name": f"{namespace}-{name}"}, "rules": rules}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": f"{namespace}-{name}"}
        binding = {"metadata": {"name": f"{namespace}-{name}"}, "roleRef": reference, "subjects": [subject]}
        for plural, body in ((f"{kind.lower()}s", made), (f"{kind.lower()}bindings", binding)):
            status, answer = server.request("POST", f"{path}/{plural}", body)
            assert status == 201, answer
    lease = {"metadata": {"name": "forewarn-mirror"}}
    server.request("POST", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
    return server.kubeconfig_of_account(namespace, name)


def test_an_unknown_namespace_is_one_line(api_server: ApiServer) -> None:
    ran = run(f"--kubeconfig={api_server.kubeconfig}", "-n", "nowhere")
    assert_one_line(ran, "nowhere", "not found")


@pytest.mark.parametrize("name", ["", "a/b", "../kube-system", "Team", "-x-", "a b"])
def test_what_is_no_name_of_a_namespace_is_one_line(name: str) -> None:
    """An empty one, of an unset variable, would follow nothing in silence."""
    assert_one_line(run(f"--namespace={name}"), repr(name), "namespace")


def test_no_cluster_is_one_line(api_server: ApiServer, tmp_path: Path) -> None:
    config = api_server.kubeconfig.read_text().replace(api_server.url, "https://127.0.0.1:9")
    (tmp_path / "config").write_text(config)
    assert_one_line(run(f"--kubeconfig={tmp_path}/config"), "127.0.0.1:9")


def test_a_missing_right_is_one_line(api_server: ApiServer) -> None:
    ran = run(f"--kubeconfig={api_server.kubeconfig_of_user('nobody')}")
    assert_one_line(ran, "no permission to list pods in all namespaces")


def test_a_taken_health_port_is_one_line(api_server: ApiServer) -> None:
    ran = run(f"--kubeconfig={api_server.kubeconfig}", f"--health-port={api_server.port}", "--log-format=json")
    assert ran.returncode == 2
    assert "--health-port" in ran.stderr.splitlines()[-1]


def test_a_lease_that_nobody_made_and_we_may_not_make_is_one_line(
    api_server: ApiServer, session_namespace: str
) -> None:
    kubeconfig = account(api_server, session_namespace, "mirror")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{session_namespace}/leases"
    assert api_server.request("DELETE", f"{leases}/forewarn-mirror")[0] == 200
    ran = run(f"--kubeconfig={kubeconfig}", f"--lease={session_namespace}/forewarn-mirror")
    assert_one_line(ran, f"there is no Lease {session_namespace}/forewarn-mirror")


def test_the_charts_rights_are_enough(api_server: ApiServer, session_namespace: str, tmp_path: Path) -> None:
    kubeconfig = account(api_server, session_namespace, "mirror")
    sessions = Sessions(api_server, session_namespace)
    sessions.create(pod_body("train", warning(900)))
    flags = (f"--lease={session_namespace}/forewarn-mirror", "--log-format=json")
    with MirrorProcess(kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.ready()
        sessions.until("train", ["TerminationWarning"])
        for line in mirror.output().splitlines():
            json.loads(line)
        assert '"level": "error"' not in mirror.output(), mirror.output()
        assert '"level": "warning"' not in mirror.output(), mirror.output()


def test_a_login_by_a_program_is_renewed_when_it_is_refused(
    api_server: ApiServer, session_namespace: str, tmp_path: Path
) -> None:
    config = yaml.safe_load(account(api_server, session_namespace, "program").read_text())
    token = config["users"][0]["user"]["token"]
    # Every other token is not taken, so that each of the mirror's sessions meets a 401 first.
    version = "client.authentication.k8s.io/v1beta1"
    script = tmp_path / "login"
    script.write_text(
        f"""#!/bin/bash
echo x >> {tmp_path}/calls
token={token}
(($(wc -l < {tmp_path}/calls) % 2)) || token=expired
echo '{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "'$token'"}}}}'
"""
    )
    script.chmod(0o700)
    execute = {"apiVersion": version, "command": str(script), "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": execute}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    sessions = Sessions(api_server, session_namespace)
    with MirrorProcess(tmp_path / "config", tmp_path / "mirror.log") as mirror:
        mirror.ready()
        sessions.create(pod_body("train", warning(900)))
        sessions.until("train", ["TerminationWarning"])


def test_a_namespace_by_name_is_followed_unlabelled(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    sessions = Sessions(api_server, namespace)
    sessions.create(pod_body("train", warning(900)))
    flags = ("-n", namespace, "--pod-selector=session=yes")
    sessions.create(pod_body("other", warning(900), metadata={"labels": {"session": "yes"}}))
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.ready()
        sessions.until("other", ["TerminationWarning"])
        assert sessions.events("train") == []


def test_a_namespace_is_followed_while_it_is_labelled(
    api_server: ApiServer, namespace: str, session_namespace: str, tmp_path: Path
) -> None:
    late = Sessions(api_server, namespace)
    late.create(pod_body("train", warning(900)))
    path = f"/api/v1/namespaces/{namespace}"

    def label(value: str | None) -> None:
        body = {"metadata": {"labels": {"forewarn/sessions": value}}}
        late.ok("PATCH", path, body, "application/merge-patch+json")

    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log") as mirror:
        mirror.ready()
        mirror.until(lambda: "first lists are complete" in mirror.output(), "the first lists")
        assert late.events() == []
        label("enabled")
        late.until("train", ["TerminationWarning"])
        label(None)
        mirror.until(lambda: "no session namespace any more" in mirror.output(), "the label is gone")
        late.create(pod_body("later", warning(900)))
        label("enabled")
        late.until("later", ["TerminationWarning"])
        late.until("train", ["TerminationWarning"])
        label(None)


def test_once_prints_what_would_be_told_and_writes_nothing(api_server: ApiServer, session_namespace: str) -> None:
    sessions = Sessions(api_server, session_namespace)
    sessions.create(pod_body("train", warning(900)))
    ran = run(f"--kubeconfig={api_server.kubeconfig}", "--once")
    assert ran.returncode == 0, ran.stderr
    assert f"{session_namespace}/train  TerminationWarning  This session may be stopped" in ran.stdout
    assert sessions.events() == []


@pytest.mark.parametrize("flag", ["--event-rate=0", "--lease=x", "--restate-every=never"])
def test_a_value_out_of_range_is_one_line(flag: str) -> None:
    assert_one_line(run(flag), flag.partition("=")[0])
