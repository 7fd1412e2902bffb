"""/healthz, /readyz and /metrics, served by the loop that they speak of: a stuck loop does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.mirror.metrics import Metrics


async def serve(
    port: int, metrics: Metrics, refresh: Callable[[], None], dead: Callable[[], str], unready: Callable[[], str]
) -> tuple[web.AppRunner, int]:
    """Serve on a port (0: the system's choice) and return the server and its port.

    ``dead`` and ``unready`` say why, or nothing; ``refresh`` is called before the metrics are read.
    """

    def state(why: str) -> web.Response:
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")

    async def healthz(_: web.Request) -> web.Response:
        return state(dead())

    async def readyz(_: web.Request) -> web.Response:
        return state(unready())

    async def numbers(_: web.Request) -> web.Response:
        refresh()
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", numbers)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, None, port)
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise UserError("--health-port", f"port {port} cannot be used: {error.strerror}", "a free port, or 0") from None
    return runner, runner.addresses[0][1]
