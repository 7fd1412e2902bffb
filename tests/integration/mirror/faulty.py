"""The API server seen through a reverse proxy that cuts, stalls, refuses, or has another clock."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.support.apiserver import ApiServer

Rule = Callable[[web.Request], "web.Response | None"]


class Faults:
    """A plain-HTTP proxy in a thread; its faults are switched while it runs.

    ``cut`` closes every open watch, ``stall`` lets them say nothing more; ``refuse`` is a function that answers in the
    API server's place; ``ahead`` moves the Date of every answer. ``base`` is a path that the API server is below.
    """

    def __init__(self, server: ApiServer, directory: Path, base: str = "") -> None:
        self._server, self._base = server, base
        self.kubeconfig = directory / "faulty.kubeconfig"
        self.refuse: Rule | None = None
        self.ahead = timedelta()
        self.requests = 0
        self._watches: dict[web.StreamResponse, asyncio.Event] = {}
        self._started = threading.Event()
        # What still waits at the end is cancelled there.
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Faults:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the proxy does not end"

    async def _serve(self) -> None:
        self._loop, self._ends = asyncio.get_running_loop(), asyncio.Event()
        await self._open()
        self._started.set()
        await self._ends.wait()
        await self._runner.cleanup()
        await self._session.close()

    async def _open(self) -> None:
        admin = yaml.safe_load(self._server.kubeconfig.read_text())
        context = ssl.create_default_context(cadata=self._server.ca.decode())
        context.load_cert_chain(*self._server.admin_pair)
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        admin["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}{self._base}"}
        admin["users"][0]["user"] = {}
        self.kubeconfig.write_text(yaml.safe_dump(admin))

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.refuse is not None and (refusal := self.refuse(request)) is not None:
            return refusal
        headers = {key: value for key, value in request.headers.items() if key.lower() in ("accept", "content-type")}
        url = self._server.url + request.raw_path.removeprefix(self._base)
        async with self._session.request(
            request.method, url, data=await request.read() or None, headers=headers
        ) as answer:
            passed = web.StreamResponse(status=answer.status)
            for key in ("Content-Type", "Retry-After"):
                if key in answer.headers:
                    passed.headers[key] = answer.headers[key]
            passed.headers["Date"] = format_datetime(datetime.now(UTC) + self.ahead, usegmt=True)
            await passed.prepare(request)
            flows = asyncio.Event()
            flows.set()
            if request.query.get("watch") == "true":
                self._watches[passed] = flows
            try:
                async for chunk in answer.content.iter_any():
                    await flows.wait()
                    await passed.write(chunk)
            finally:
                self._watches.pop(passed, None)
            return passed

    def cut(self) -> None:
        """Close every open watch in the middle."""

        def close() -> None:
            for watch in list(self._watches):
                if watch._req is not None and watch._req.transport is not None:
                    watch._req.transport.abort()

        self._loop.call_soon_threadsafe(close)

    def stall(self) -> int:
        """Let every open watch say nothing more, without closing it; return how many there are."""
        for flows in list(self._watches.values()):
            self._loop.call_soon_threadsafe(flows.clear)
        return len(self._watches)


def status(code: int, reason: str, message: str = "", retry_after: int | None = None) -> web.Response:
    """Return an answer as the API server refuses."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return web.Response(status=code, text=json.dumps(body), content_type="application/json", headers=headers)
