"""Generated requests, valid and broken, over TLS: an answer or 400 every time, and no growth in memory."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.admission.conftest import Replica, free_port
from tests.support.credentials import Authority
from tests.unit.admission import reviews

ROOM = 4 * 1024
"""kB that the memory may move by: the allocator's own pages, no leak of 18,000 requests."""


class Target:
    """A replica that serves a certificate from files, without a cluster."""

    def __init__(self, directory: Path) -> None:
        authority = Authority("fuzz")
        cert, key = authority.server(["127.0.0.1"]).write(directory, "server")
        port, health_port = free_port(), free_port()
        argv = [
            *(sys.executable, "-m", "forewarn.cli", "run", "admission", "--host=127.0.0.1", "--drain=0"),
            *(f"--port={port}", f"--health-port={health_port}", f"--tls-cert={cert}", f"--tls-key={key}"),
        ]
        self.replica = Replica(argv, directory / "replica.log", port, health_port)
        self.replica.process.until(self.replica.ready, "/readyz", 30)
        self.context = ssl.create_default_context(cadata=authority.pem.decode())
        self._connection: http.client.HTTPSConnection | None = None

    def send(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send one request, over a kept connection where the server keeps it."""
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self.replica.port, context=self.context, timeout=30
            )
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.status, response.read()
        if response.will_close:
            self._connection.close()
            self._connection = None
        return answer

    def resident(self) -> int:
        """Return the resident memory in kB."""
        status = Path(f"/proc/{self.replica.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path)
    yield made
    made.replica.process.stop()


def fuzz(target: Target, count: int) -> None:
    settled = 0
    for seed in range(count):
        kind, body = reviews.body(seed)
        status, answer = target.send("POST", "/mutate", body)
        assert status in ((200,) if kind == reviews.VALID else (200, 400)), (seed, status, answer)
        if kind == reviews.VALID:
            assert json.loads(answer)["response"]["uid"] == f"uid-{seed}"
        if seed == count // 10:
            settled = target.resident()
    assert target.resident() - settled < ROOM
    assert target.replica.metric('forewarn_admission_requests_total{outcome="failed"}') == 0
    assert target.replica.process.code is None


def test_two_thousand_generated_requests(target: Target) -> None:
    fuzz(target, 2000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_twenty_thousand_generated_requests(target: Target) -> None:
    fuzz(target, 20_000)


def test_a_large_body_is_refused_and_the_server_lives(target: Target) -> None:
    three = 3 * 1024 * 1024
    assert target.send("POST", "/mutate", b" " * (three + 1))[0] == 413
    assert target.send("POST", "/mutate", b" " * three)[0] == 400
    # Without a length, in pieces: it is counted as it comes.
    target._connection = None
    connection = http.client.HTTPSConnection("127.0.0.1", target.replica.port, context=target.context, timeout=30)
    connection.request(
        "POST", "/mutate", iter([b" " * 1024 * 1024] * 4), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
    )
    assert connection.getresponse().status == 413
    connection.close()
    assert target.send(*("POST", "/mutate"), reviews.body(0)[1])[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/mutate", 405), ("PUT", "/mutate", 405), ("POST", "/", 404)]
)
def test_what_is_no_call_is_told_what_is(target: Target, method: str, path: str, status: int) -> None:
    assert target.send(method, path, b"")[0] == status


def test_what_is_no_http_or_no_tls_harms_nobody(target: Target) -> None:
    for raw in (b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 200):
        with socket.create_connection(("127.0.0.1", target.replica.port), 5) as plain, contextlib.suppress(OSError):
            plain.sendall(raw)
            plain.settimeout(5)
            plain.recv(100)
    with (
        socket.create_connection(("127.0.0.1", target.replica.port), 5) as plain,
        target.context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        contextlib.suppress(OSError),
    ):
        secure.sendall(b"POST /mutate HTTP/9.9\r\nContent-Length: -5\r\n\r\n\xff")
        secure.settimeout(5)
        secure.recv(100)
    assert target.send("POST", "/mutate", reviews.body(0)[1])[0] == 200
