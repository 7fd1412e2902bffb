"""A webhook process registered with the real API server, through a Service, as in a cluster."""

from __future__ import annotations

import http.client
import itertools
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from forewarn.admission.inject import InjectSettings
from forewarn.admission.registration import registration
from tests.support.apiserver import ApiServer
from tests.support.processes import Process

SESSIONS = ("forewarn/sessions", "enabled")
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_numbers = itertools.count(1)


def free_port() -> int:
    """Return a port of the system's choosing."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Replica:
    """One `forewarn run admission` process."""

    def __init__(self, argv: Sequence[str], log: Path, port: int, health_port: int) -> None:
        self.port, self.health_port = port, health_port
        self.process = Process(argv, log)

    def get(self, path: str) -> tuple[int, str]:
        """Ask the health port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def metric(self, name: str) -> float:
        """Return one metric's value (0 where it is not there)."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(name + " ")]
        return float(lines[0].rpartition(" ")[2]) if lines else 0.0

    def calls(self) -> float:
        """Return how many reviews it has answered."""
        return sum(
            self.metric(f'forewarn_admission_requests_total{{outcome="{outcome}"}}')
            for outcome in ("changed", "unchanged", "skipped")
        )


class Installation:
    """A namespace, a Service that leads to loopback, and the registration; replicas are started on demand."""

    def __init__(self, server: ApiServer, directory: Path, settings: InjectSettings) -> None:
        number = next(_numbers)
        self.server, self.directory, self.settings = server, directory, settings
        self.name = f"forewarn-admission-{number}"
        self.namespace = server.create_namespace(f"forewarn-{number}")
        self.port = free_port()
        # The API server resolves a Service of this type by its external name: the webhook is reached as in a cluster,
        # by the Service's DNS name and certificate, and still on loopback.
        body = {
            "metadata": {"name": self.name},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self.port}]},
        }
        assert server.request("POST", f"/api/v1/namespaces/{self.namespace}/services", body)[0] == 201
        self.register()

    def registration(self) -> dict[str, Any]:
        """Return the registration as the chart would write it."""
        return registration(
            self.settings, SESSIONS, name=self.name, namespace=self.namespace, service=self.name, port=self.port
        )

    def register(self) -> None:
        """Create the registration."""
        status, answer = self.server.request("POST", REGISTRATIONS, self.registration())
        assert status == 201, answer

    def registered(self) -> dict[str, Any]:
        """Read the registration."""
        status, answer = self.server.request("GET", f"{REGISTRATIONS}/{self.name}")
        assert status == 200, answer
        return dict(answer)

    def secret(self) -> dict[str, Any]:
        """Read the Secret."""
        status, answer = self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}-tls")
        assert status == 200, answer
        return dict(answer)

    def replica(self, *flags: str, kubeconfig: Path | None = None, port: int | None = None) -> Replica:
        """Start one replica; it is not waited for."""
        health_port, number = free_port(), next(_numbers)
        argv = [
            sys.executable,
            "-m",
            "forewarn.cli",
            "run",
            "admission",
            f"--kubeconfig={kubeconfig or self.server.kubeconfig}",
            "--host=127.0.0.1",
            f"--port={self.port if port is None else port}",
            f"--health-port={health_port}",
            f"--namespace={self.namespace}",
            f"--service={self.name}",
            f"--registration={self.name}",
            f"--tls-secret={self.name}-tls",
            f"--annotation-prefix={self.settings.prefix}",
            f"--whole-map={str(self.settings.whole_map).lower()}",
            "--drain=0.5",
            *flags,
        ]
        return Replica(argv, self.directory / f"replica-{number}.log", self.port if port is None else port, health_port)

    def ready_replica(self, *flags: str, kubeconfig: Path | None = None, port: int | None = None) -> Replica:
        """Start one replica and wait until it is ready."""
        replica = self.replica(*flags, kubeconfig=kubeconfig, port=port)
        replica.process.until(replica.ready, "/readyz", 30)
        return replica

    def remove(self) -> None:
        """Delete the registration, so that no other test's pods call it."""
        self.server.request("DELETE", f"{REGISTRATIONS}/{self.name}")


@pytest.fixture
def installation(api_server: ApiServer, tmp_path: Path) -> Iterator[Installation]:
    """An installation of its own, without a replica yet."""
    made = Installation(api_server, tmp_path, InjectSettings())
    yield made
    made.remove()


@pytest.fixture(scope="module")
def webhook(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """One ready replica, registered for every session namespace; shared by a module's tests."""
    made = Installation(api_server, tmp_path_factory.mktemp("webhook"), InjectSettings())
    replica = made.ready_replica()
    yield replica
    made.remove()
    replica.process.stop()
