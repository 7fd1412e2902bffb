"""/healthz, /readyz and /metrics over plain HTTP, in a thread of their own."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from forewarn.admission.review import OUTCOMES

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from forewarn.admission.review import Answer

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)


class Metrics:
    """What the webhook counts, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        requests = Counter(
            "forewarn_admission_requests", "Requests by what became of them", ["outcome"], registry=self.registry
        )
        self._requests = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        self._findings = Counter(
            "forewarn_admission_warnings", "Warnings given, by rule", ["rule"], registry=self.registry
        )
        self._seconds = Histogram(
            "forewarn_admission_decision_seconds",
            "Seconds from a whole request to its answer",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.certificate_ends = Gauge(
            "forewarn_admission_certificate_end_timestamp_seconds",
            "When the served certificate ends",
            registry=self.registry,
        )

    def seen(self, answer: Answer, seconds: float) -> None:
        """Count one answer."""
        self._requests[answer.outcome].inc()
        self._seconds.observe(seconds)
        for finding in answer.decision.findings:
            self._findings.labels(finding.rule).inc()


class Readiness:
    """Whether the replica should get requests, and if not why. Safe to read from another thread."""

    def __init__(self) -> None:
        self.why_not = "starting"

    def set(self, why_not: str = "") -> None:
        """Note that the replica is ready, or why it is not."""
        self.why_not = why_not


@contextlib.contextmanager
def serving(listener: socket.socket, metrics: Metrics, readiness: Readiness) -> Iterator[int]:
    """Serve /healthz, /readyz and /metrics on a listening socket while the block runs; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._send(200, "ok\n")
            elif self.path == "/readyz":
                why_not = readiness.why_not
                self._send(503 if why_not else 200, f"not ready: {why_not}\n" if why_not else "ok\n")
            elif self.path == "/metrics":
                self._send(200, generate_latest(metrics.registry).decode(), CONTENT_TYPE_LATEST)
            else:
                self._send(404, "here are /healthz, /readyz and /metrics\n")

        def _send(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a probe every few seconds is no news."""

    port = int(listener.getsockname()[1])
    server = ThreadingHTTPServer(("", port), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
