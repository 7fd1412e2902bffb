"""`forewarn policy` and `forewarn check` against a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from forewarn import cli
from tests.integration.admission.pods import BARE, create
from tests.support.apiserver import ApiServer


def test_the_policy_is_printed_in_the_version_that_the_cluster_has_and_is_accepted(
    api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["policy", "--kubeconfig", str(api_server.kubeconfig), "--name", "printed"]) == 0
    text = capsys.readouterr().out
    assert [each["apiVersion"] for each in yaml.safe_load_all(text)] == ["admissionregistration.k8s.io/v1beta1"] * 2
    said = api_server.kubectl("create", "--dry-run=server", "-f", "-", input=text)
    assert said.count("created (server dry run)") == 2


def test_without_a_cluster_the_version_must_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["policy", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "--api-version v1 or v1beta1" in capsys.readouterr().err
    assert cli.main(["policy", "--kubeconfig", str(tmp_path / "none"), "--api-version", "v1", "--format", "json"]) == 0
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)["items"]] == [
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ]


def test_check_looks_at_the_pods_of_session_namespaces(
    api_server: ApiServer, session_namespace: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = create(api_server, session_namespace, BARE)
    create(api_server, namespace, BARE)
    assert cli.main(["check", "-A", "--kubeconfig", str(api_server.kubeconfig), "--format", "json"]) == 1
    rows = [row for row in json.loads(capsys.readouterr().out) if row["source"] in (session_namespace, namespace)]
    assert [(row["object"], row["seesWarnings"]) for row in rows] == [(f"Pod/{pod['metadata']['name']}", False)]


def test_check_says_in_which_namespace_each_pod_is(
    api_server: ApiServer, session_namespace: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {**BARE, "metadata": {"name": "train"}}
    flags = ["--kubeconfig", str(api_server.kubeconfig)]
    for each in (session_namespace, namespace):
        flags += ["-n", each]
        create(api_server, each, pod)
    assert cli.main(["check", *flags]) == 1
    heads = [line.partition(": does")[0] for line in capsys.readouterr().out.splitlines() if ": does" in line]
    assert heads == [f"{each}: Pod/train" for each in (session_namespace, namespace)]


def test_check_says_where_there_is_nothing_to_look_at(
    api_server: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ["--kubeconfig", str(api_server.kubeconfig)]
    assert cli.main(["check", "-n", "no-such-namespace", *cluster]) == 2
    printed = capsys.readouterr().err
    assert "no-such-namespace" in printed
    assert printed.count("\n") == 1
    assert cli.main(["check", "-n", namespace, *cluster]) == 0
    assert capsys.readouterr().err == f"no pods in {namespace}\n"
    assert cli.main(["check", "-A", "--sessions-label", "nobody/has=this", *cluster]) == 0
    assert capsys.readouterr().err == "no session namespace\n"


def test_check_says_who_may_not_list_pods(
    api_server: ApiServer, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = api_server.kubeconfig_of_user("nobody")
    assert cli.main(["check", "-n", namespace, "--kubeconfig", str(kubeconfig)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "cannot list pods" in printed.err
    assert printed.err.count("\n") == 1


def test_run_admission_opens_no_port_where_there_is_no_kubeconfig(
    tmp_path: Path,
) -> None:
    none = str(tmp_path / "none")
    argv = [sys.executable, "-m", "forewarn.cli", "run", "admission", "--host=127.0.0.1", "--port=0", "--health-port=0"]
    ran = subprocess.run([*argv, f"--kubeconfig={none}"], capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 2
    (line,) = (ran.stdout + ran.stderr).splitlines()
    assert line.startswith("error: ")
    assert none in line
