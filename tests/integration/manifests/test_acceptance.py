"""The real API server and the real kubectl take every golden manifest, and read it as it is meant."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.cli import main
from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import manifest
from tests.support.apiserver import ApiServer
from tests.support.programs import program
from tests.unit.manifests.golden import ALICE, cases, documents

PATHS = {"Pod": "/api/v1/namespaces/{}/pods", "Service": "/api/v1/namespaces/{}/services"}
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
EXPECTED = sorted({case.expected for case in cases()})


@pytest.mark.parametrize("document", [pytest.param(one, id=name) for name, one in documents(EXPECTED)])
def test_the_api_server_accepts_it(document: Mapping[str, Any], api_server: ApiServer, namespace: str) -> None:
    path = PATHS.get(document["kind"], JOBS).format(namespace)
    status, answer = api_server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", document)
    assert status == 201, answer


def test_the_api_server_accepts_every_job_at_the_edges(api_server: ApiServer, namespace: str) -> None:
    stock = profile.load("launch", "test")
    edges = {
        "--completions": ["", "1", "64"],
        "--parallelism": ["", "1", "64"],
        "--requeue": ["", "yes", "always"],
        "--backoff-limit": ["", "0", "1000"],
        "-N": ["a", "a" * 60],
        "--kind": ["Job"],
    }
    taken = 0
    for values in itertools.product(*edges.values()):
        given = [(flag, value) for flag, value in zip(edges, values, strict=True) if value]
        argv = [
            word for flag, value in given for word in ([f"{flag}={value}"] if flag == "--requeue" else [flag, value])
        ]
        if ("--completions", "1") in given and ("--parallelism", "64") in given:
            continue  # more at once than there are: refused by render
        request = launch(flags.parse([*argv, "--", "true"]), {}, stock, ALICE)
        for document in yaml.safe_load_all(manifest(request)):
            path = PATHS.get(document["kind"], JOBS).format(namespace)
            status, answer = api_server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", document)
            assert status == 201, (argv, answer)
            taken += document["kind"] == "Job"
    assert taken == 144


def test_kubectl_reads_every_manifest_as_it_is_meant(api_server: ApiServer, namespace: str) -> None:
    for case in cases():
        command = [program("kubectl"), f"--kubeconfig={api_server.kubeconfig}", "-n", namespace, "create"]
        command += ["--dry-run=client", "--validate=ignore", "-o", "json", "-f", str(case.expected)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, f"{case.name}: {answer.stderr}"
        decoder, text, read = json.JSONDecoder(), answer.stdout, list[dict[str, Any]]()
        while text.strip():
            value, end = decoder.raw_decode(text.strip())
            text = text.strip()[end:]
            read += value["items"] if value["kind"] == "List" else [value]
        meant = [document for _, document in documents([case.expected])]
        for one in read:
            one["metadata"].pop("namespace", None)
        assert read == meant, case.name


def test_server_dry_run_prints_the_manifest_that_the_cluster_would_take(
    api_server: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    call = ["render", "--server-dry-run", "--namespace", namespace, "-N", "asked", "--completions", "2", "--", "true"]
    assert main(call) == 0
    assert [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)] == ["Service", "Job"]
    status, answer = api_server.request("GET", JOBS.format(namespace))
    assert (status, answer["items"]) == (200, [])


def test_server_dry_run_says_in_one_line_why_the_cluster_refuses(
    api_server: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    limit = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    status, answer = api_server.request("POST", f"/api/v1/namespaces/{namespace}/limitranges", limit)
    assert status == 201, answer
    assert main(["render", "-Q", "--server-dry-run", "--namespace", namespace, "-N", "big", "-c", "2", "-s"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: cannot create pod big (a dry run): ")
    assert printed.err.count("\n") == 1


def test_server_dry_run_asks_the_cluster_of_the_kubeconfig_that_is_named(
    api_server: ApiServer, namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    call = ["render", "-Q", "--server-dry-run", "--kubeconfig", str(api_server.kubeconfig), "-N", "asked", "-s"]
    assert main([*call, "--namespace", namespace]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "asked"
    assert main([*call, "--namespace", "missing"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "missing" in printed.err


def test_a_later_launch_of_many_that_the_cluster_refuses_leaves_nothing_printed(
    api_server: ApiServer,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    limit = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    status, answer = api_server.request("POST", f"/api/v1/namespaces/{namespace}/limitranges", limit)
    assert status == 201, answer
    (tmp_path / "many.yaml").write_text("- {name: one, cpus: 1}\n- {name: two, cpus: 2}\n", encoding="utf-8")
    (tmp_path / "plan").write_text("", encoding="utf-8")
    call = ["render", "--server-dry-run", "--namespace", namespace, "--many", str(tmp_path / "many.yaml"), "-s"]
    assert main([*call, "--plan", str(tmp_path / "plan")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: cannot create pod two (a dry run): ")
    assert printed.err.count("\n") == 1
    assert (tmp_path / "plan").read_text(encoding="utf-8") == ""


def test_server_dry_run_without_a_cluster_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["render", "-Q", "--server-dry-run", "-s"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
