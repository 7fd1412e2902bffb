"""The connection's errors: each is one line with the place, the problem and what is allowed."""

from __future__ import annotations

import http.server
import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import yaml
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import Status
from lightkube.resources.core_v1 import Pod

from forewarn import kube
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def kubeconfig(path: Path, server: str = "http://127.0.0.1:1", **changes: Any) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(content | changes))
    return path


def message(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_flag_beats_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = kubeconfig(tmp_path / "one"), kubeconfig(tmp_path / "two", server="http://127.0.0.1:2")
    monkeypatch.setenv("KUBECONFIG", str(one))
    assert kube.connect(str(two)).cluster.server == "http://127.0.0.1:2"


def test_context_gives_the_namespace(tmp_path: Path) -> None:
    assert kube.connect(str(kubeconfig(tmp_path / "k"))).namespace == "team"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kubeconfig(tmp_path / "a", contexts=[], users=[])
    second = kubeconfig(tmp_path / "b", server="http://127.0.0.1:9")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    config = kube.connect()
    assert (config.cluster.server, config.user.token if config.user else None) == ("http://127.0.0.1:1", "t")


def test_no_kubeconfig_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert "KUBECONFIG is not set" in message(kube.connect)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [2\n", "k:3: cannot be read as YAML: while parsing a flow"),
        ("just text", "not a kubeconfig"),
        ("clusters: 5", "not a kubeconfig"),
        ("clusters:\n- nonsense\n", "an entry of clusters cannot be used"),
        ("clusters:\n- name: c\n  cluster: {server: 5}\n", "an entry of clusters cannot be used"),
        ("clusters: []\ncontexts: []\n", "no current context is set"),
        ("clusters: []\ncurrent-context: x\n", "there is no context 'x'; allowed: none"),
        ("clusters: []\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: y}}]", "names the cluster 'y'"),
        (
            "clusters: [{name: y, cluster: {}}]\ncurrent-context: x\n"
            "contexts: [{name: x, context: {cluster: y, user: z}}]",
            "names the user 'z'",
        ),
    ],
)
def test_broken_kubeconfig_names_file_and_problem(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    line = message(lambda: kube.connect(str(path)))
    assert expected in line
    assert str(path) in line


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert "there is no such file; allowed:" in message(lambda: kube.connect(str(tmp_path / "none")))
    assert "Is a directory" in message(lambda: kube.connect(str(tmp_path)))


def test_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    assert "no context 'x'; allowed: main" in message(lambda: kube.connect(str(kubeconfig(tmp_path / "k")), "x"))


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"client-certificate": "gone.crt", "client-key": "gone.key"}, "does not exist"),
        ({"client-certificate-data": "AAAA", "client-key-data": "AAAA"}, "certificates cannot be used"),
        ({"client-certificate-data": "not base64", "client-key-data": "!"}, "certificates cannot be used"),
        ({"client-certificate-data": "AAAA"}, "cannot be used"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider not supported"),
    ],
)
def test_credentials_that_cannot_be_used(tmp_path: Path, user: dict[str, Any], expected: str) -> None:
    path = kubeconfig(tmp_path / "k", users=[{"name": "u", "user": user}])
    line = message(lambda: kube.client(kube.connect(str(path))))
    assert expected in line
    assert str(path) in line


def list_pods(path: Path) -> None:
    with kube.explained("list pods"), kube.client(kube.connect(str(path))) as client:
        list(client.list(Pod))


def test_refused_connection_names_the_server(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
        line = message(lambda: list_pods(kubeconfig(tmp_path / "k", server)))
    assert f"cannot list pods: the API server {server} refuses the connection; start the cluster" in line


def test_unknown_host(tmp_path: Path) -> None:
    assert "is not known" in message(lambda: list_pods(kubeconfig(tmp_path / "k", "https://nowhere.invalid:6443")))


@pytest.mark.parametrize("server", ["ftp://127.0.0.1", "127.0.0.1:6443", "https://127.0.0.1:port"])
def test_address_that_is_none(tmp_path: Path, server: str) -> None:
    assert "cannot be used" in message(lambda: list_pods(kubeconfig(tmp_path / "k", server)))


def test_exec_plugin_that_is_not_installed(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "no-such-plugin"}
    path = kubeconfig(tmp_path / "k", users=[{"name": "u", "user": {"exec": plugin}}])
    assert "program no-such-plugin does not exist" in message(lambda: list_pods(path))


@pytest.fixture
def answering() -> Iterator[Callable[[int, bytes, dict[str, str]], str]]:
    """A server that gives one answer to everything; returns its address."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(code: int, body: bytes, headers: dict[str, str]) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (401, "Unauthorized", "does not accept the credentials (401); renew them"),
        (403, 'pods is forbidden: User "u" cannot list resource "pods"', "that right is needed"),
        (403, "exceeded quota: q", "cannot list pods: exceeded quota: q"),
        (404, 'namespaces "team" not found', 'namespaces "team" not found'),
        (409, 'pods "x" already exists', "delete it first, or choose another name"),
        (422, 'Pod "x" is invalid: spec.containers: Required value', "spec.containers: Required value"),
        (429, "slow down", "run it again later"),
        (500, "etcd is gone", "failed (500): etcd is gone"),
    ],
)
def test_status_codes(
    tmp_path: Path, answering: Callable[[int, bytes, dict[str, str]], str], code: int, text: str, expected: str
) -> None:
    status = json.dumps({"kind": "Status", "status": "Failure", "code": code, "message": text}).encode()
    server = answering(code, status, {"Content-Type": "application/json"})
    assert expected in message(lambda: list_pods(kubeconfig(tmp_path / "k", server)))


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/html"}])
def test_a_proxy_in_between(
    tmp_path: Path, answering: Callable[[int, bytes, dict[str, str]], str], headers: dict[str, str]
) -> None:
    server = answering(502, b"<h1>Bad Gateway</h1>\nmore", headers)
    line = message(lambda: list_pods(kubeconfig(tmp_path / "k", server)))
    assert "failed (502)" in line
    assert "more" not in line


def test_tls_against_plain_http(tmp_path: Path, answering: Callable[[int, bytes, dict[str, str]], str]) -> None:
    server = answering(200, b"", {}).replace("http://", "https://")
    assert "no TLS connection" in message(lambda: list_pods(kubeconfig(tmp_path / "k", server)))


def test_a_certificate_of_another_authority() -> None:
    cause = ssl.SSLCertVerificationError("unable to get local issuer certificate")
    error = httpx2.ConnectError("x")
    error.__cause__ = cause
    assert "not signed by the kubeconfig's certificate-authority" in str(kube.explain(error, "list pods"))


def test_silence_is_a_timeout(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        path = kubeconfig(tmp_path / "k", f"http://127.0.0.1:{silent.getsockname()[1]}")
        client = kube.client(kube.connect(str(path)), timeout=httpx2.Timeout(0.2))

        def attempt() -> None:
            with kube.explained("list pods"), client:
                list(client.list(Pod))

        assert "did not answer in time" in message(attempt)


def test_own_mistakes_are_not_explained_away() -> None:
    with pytest.raises(ZeroDivisionError), kube.explained("divide"):
        _ = 1 / 0
    with pytest.raises(KeyError), kube.explained("look up"):
        _ = dict[str, str]()["x"]


def test_an_api_error_without_a_request() -> None:
    error = ApiError(status=Status(code=410, message="too old resource version"))
    assert str(kube.explain(error, "watch pods")) == "cannot watch pods: too old resource version"


# ── as kubectl reads the kubeconfig ──────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_a_login_program_is_run_as_kubectl_runs_it(
    tmp_path: Path, answering: Callable[[int, bytes, dict[str, str]], str], version: str
) -> None:
    server = answering(200, b'{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}', {})
    code = """
import os, sys
open(sys.argv[1], "w").write(os.environ["KUBERNETES_EXEC_INFO"])
print('{"status": {"token": "t"}}')
"""
    plugin = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": sys.executable,
        "args": ["-c", code, str(tmp_path / "told")],
        "interactiveMode": "Never",
    }
    path = kubeconfig(tmp_path / "k", server)
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"] = {"exec": plugin}
    path.write_text(yaml.safe_dump(content))
    list_pods(path)
    told = json.loads((tmp_path / "told").read_text())
    assert told["apiVersion"] == plugin["apiVersion"]
    assert told["spec"] == {"interactive": False}


def test_a_proxy_of_the_kubeconfig_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "k", "https://cluster.invalid")
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = "http://proxy.example:3128"
    path.write_text(yaml.safe_dump(content))
    assert "proxy-url is not read; set HTTPS_PROXY instead" in message(lambda: list_pods(path))


def test_a_local_cluster_is_reached_past_the_environments_proxy(
    tmp_path: Path, answering: Callable[[int, bytes, dict[str, str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answering(200, b'{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}', {})
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    list_pods(kubeconfig(tmp_path / "k", server))
