"""The right to exec: what the cluster's version asks for, no more. A real API server of 1.35 is not at hand."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forewarn import kube
from forewarn.errors import UserError
from forewarn.simulator import model
from forewarn.simulator.document import Place
from forewarn.simulator.preflight import preflight
from tests.unit.simulator.test_kube import kubeconfig

PLACE = Place("s.yaml", 1)
STEP = model.Step(PLACE, "expect-file", "p", condition=model.FileHolds("guaranteed-until", "galends/guaranteed-until"))
SCENARIO = model.Scenario("s", "", (model.ExistingPod("p", PLACE, "p"),), (STEP,))
NOW = datetime(2026, 11, 29, 19, 30, tzinfo=UTC)


class Cluster(http.server.BaseHTTPRequestHandler):
    """An API server whose user lacks ``lacking``; ``needed`` are the verbs on pods/exec that it asks of an exec."""

    lacking: tuple[str, ...]
    needed: tuple[str, ...]

    def answer(self, code: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        if "/exec?" in self.path:
            refused = set(self.needed) & set(self.lacking)
            self.answer(403 if refused else 404, {"kind": "Status", "code": 403 if refused else 404})
        else:
            self.answer(200, {"metadata": {"name": "team"}})

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = review["spec"]["resourceAttributes"]
        allowed = asked.get("subresource") != "exec" or asked["verb"] not in self.lacking
        self.answer(201, review | {"status": {"allowed": allowed}})

    def do_PATCH(self) -> None:
        self.answer(200, {"metadata": {"name": "p"}})

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cluster)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("needed", "lacking", "missing"),
    [
        (("get",), (), None),
        (("get",), ("create",), None),
        (("get",), ("get", "create"), "may not get pods/exec there"),
        (("get", "create"), (), None),
        (("get", "create"), ("create",), "may not create pods/exec there"),
        (("get", "create"), ("get",), "may not get pods/exec there"),
        (("get", "create"), ("get", "create"), "may not get pods/exec there"),
    ],
)
async def test_an_exec_needs_create_only_where_the_cluster_asks_for_it(
    server: http.server.ThreadingHTTPServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    needed: tuple[str, ...],
    lacking: tuple[str, ...],
    missing: str | None,
) -> None:
    monkeypatch.setattr(Cluster, "needed", needed, raising=False)
    monkeypatch.setattr(Cluster, "lacking", lacking, raising=False)
    config = kube.connect(str(kubeconfig(tmp_path / "k", f"http://127.0.0.1:{server.server_port}")))
    async with kube.async_client(config) as client:
        if missing is None:
            assert await preflight(SCENARIO, client, "team", lambda: NOW) == timedelta()
            return
        with pytest.raises(UserError) as caught:
            await preflight(SCENARIO, client, "team", lambda: NOW)
    assert missing in str(caught.value)
