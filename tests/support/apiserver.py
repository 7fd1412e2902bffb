"""A real etcd and kube-apiserver as plain processes on loopback: no docker, about three seconds."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.credentials import Authority, new_key, write_kubeconfig
from tests.support.processes import Process
from tests.support.programs import program

START_SECONDS = 60.0
"""How long a start may take; two cores that also compile something are slow."""

GOGC = "400"
"""Go's GOGC: on a heap as small as a test's the default collects many times a second."""


class ApiServer:
    """One API server on its own etcd. Use ``with ApiServer.start(directory) as server``.

    ``kubeconfig`` is cluster-admin's; ``url``, ``ca`` (PEM) and ``admin_pair`` (files of certificate and key) serve
    clients that are configured by hand. No controller manager runs: nothing makes a namespace's default ServiceAccount
    (``create_namespace`` does), finishes the deletion of a namespace, or collects garbage.
    """

    def __init__(self, directory: Path, flags: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        self.directory = directory
        self._flags = tuple(flags)
        self._authority = Authority("forewarn-test")
        self.ca = self._authority.pem
        # The socket stays bound, never listening, next to the API server's (SO_REUSEPORT): the port is ours alone from
        # the moment the system chose it, also while the API server is down.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self._starts = 0
        self._etcd: Process | None = None
        self._server: Process | None = None
        self._write_credentials()

    @classmethod
    def start(
        cls,
        directory: Path,
        flags: Sequence[str] = (),
        *,
        event_ttl: str = "1h",
        mutating_policies: bool = True,
    ) -> ApiServer:
        """Start etcd and the API server below ``directory`` and return when ``/readyz`` says so.

        ``flags`` are added to kube-apiserver's; ``event_ttl`` is a Go duration; ``mutating_policies`` turns on
        MutatingAdmissionPolicy (beta in 1.34, off by default).
        """
        policies = (
            "--feature-gates=MutatingAdmissionPolicy=true",
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        )
        server = cls(directory, (f"--event-ttl={event_ttl}", *(policies if mutating_policies else ()), *flags))
        try:
            server._start_etcd()
            server.start_again()
        except BaseException:
            server.close()
            raise
        return server

    def _write_credentials(self) -> None:
        self._server_pair = self._authority.server(["127.0.0.1", "localhost"]).write(self.directory, "server")
        (self.directory / "ca.crt").write_bytes(self.ca)
        _, accounts = new_key()
        key = self.directory / "accounts.key"
        key.touch(0o600)
        key.write_bytes(accounts)
        admin = self._authority.client("test-admin", ["system:masters"])
        self.admin_pair = admin.write(self.directory, "admin")
        self.kubeconfig = write_kubeconfig(self.directory / "kubeconfig", self.url, self.ca, admin)

    def _start_etcd(self) -> None:
        # Socket files in a folder that only we may enter: nothing on the network, no port to collide on. etcd insists
        # on "host:port" and takes it, whole, as the file's name in its working directory.
        self._etcd = Process(
            [
                program("etcd"),
                "--name=test",
                f"--data-dir={self.directory}/etcd",
                "--listen-client-urls=unix://client:0",
                "--advertise-client-urls=unix://client:0",
                "--listen-peer-urls=unix://peer:0",
                "--initial-advertise-peer-urls=unix://peer:0",
                "--initial-cluster=test=unix://peer:0",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            self.directory / "etcd.log",
            directory=self.directory,
        )
        self._etcd.until((self.directory / "client:0").is_socket, "its socket", START_SECONDS)

    def start_again(self) -> None:
        """Start the API server on its port and etcd (again, after ``stop`` or ``kill``); return when it is ready."""
        if self._server is not None and self._server.code is None:
            return
        self._starts += 1
        certificate, key = self._server_pair
        self._server = Process(
            [
                program("kube-apiserver"),
                f"--etcd-servers=unix://{self.directory}/client:0",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={self.port}",
                "--permit-port-sharing",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                f"--client-ca-file={self.directory}/ca.crt",
                f"--cert-dir={self.directory}/certs",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={self.directory}/accounts.key",
                f"--service-account-key-file={self.directory}/accounts.key",
                "--service-cluster-ip-range=10.96.0.0/24",
                "--endpoint-reconciler-type=none",
                "--allow-privileged=true",
                "--profiling=false",
                "--v=1",
                *self._flags,
            ],
            self.directory / f"kube-apiserver.{self._starts}.log",
            env={"GOGC": GOGC},
        )
        self._server.until(self.ready, "/readyz", START_SECONDS)

    def ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content: str = "application/json"
    ) -> tuple[int, Any]:
        """Send one request as cluster-admin; return the status and the parsed JSON (or the text).

        ``OSError`` where the API server cannot be reached. For what a client library would hide.
        """
        context = ssl.create_default_context(cadata=self.ca.decode())
        context.load_cert_chain(*self.admin_pair)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=context)
        try:
            raw = None if body is None else json.dumps(body).encode()
            connection.request(method, path, raw, {"Content-Type": content} if raw else {})
            response = connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def _must(self, method: str, path: str, body: Mapping[str, Any], ignore: Iterable[int] = ()) -> Any:
        status, answer = self.request(method, path, body)
        if status >= 300 and status not in ignore:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace and its default ServiceAccount, without which no pod is admitted; return ``name``."""
        meta = {"name": name, "labels": dict(labels or {})}
        self._must("POST", "/api/v1/namespaces", {"metadata": meta})
        self.create_service_account(name, "default")
        return name

    def create_service_account(self, namespace: str, name: str) -> None:
        """Create a ServiceAccount, if it is not there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._must("POST", path, {"metadata": {"name": name}}, ignore=(409,))

    def kubeconfig_of_user(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return the kubeconfig of a user who may do only what RBAC grants to the user or the groups."""
        pair = self._authority.client(user, groups)
        return write_kubeconfig(self.directory / f"user-{user}.kubeconfig", self.url, self.ca, pair)

    def kubeconfig_of_account(self, namespace: str, name: str, seconds: int = 3600) -> Path:
        """Return the kubeconfig of a ServiceAccount (made where it is missing) by a token of its own."""
        self.create_service_account(namespace, name)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self._must("POST", path, {"spec": {"expirationSeconds": seconds}})
        target = self.directory / f"account-{namespace}-{name}.kubeconfig"
        return write_kubeconfig(target, self.url, self.ca, answer["status"]["token"])

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002  (as subprocess names it)
        """Run kubectl as cluster-admin and return its output; ``CalledProcessError`` where it fails."""
        argv = [program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        ran = subprocess.run(argv, input=input, check=True, capture_output=True, text=True, timeout=60)
        return ran.stdout

    def stop(self) -> None:
        """Stop the API server alone; etcd, the port and every object stay."""
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """Kill the API server alone, as a crash would."""
        if self._server is not None:
            self._server.kill()

    def close(self) -> None:
        """End the API server and etcd."""
        for process in (self._server, self._etcd):
            if process is not None:
                # Nothing of either is wanted afterwards, so neither gets time to say goodbye.
                process.kill()
        self._reserved.close()

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
