"""The webhook's server: uvicorn on a TLS context whose certificate can change, and a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.admission.app import Webhook
    from forewarn.admission.health import Readiness
    from forewarn.admission.material import Material

log = logging.getLogger("forewarn.admission")

KEEP_ALIVE_SECONDS = 300
"""Longer than the API server keeps an idle connection (90 s): the side that sends must be the one that closes."""


def tls_context() -> ssl.SSLContext:
    """Return a TLS context without a certificate yet; loading one again changes it for new connections only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/1.1: a connection for each concurrent call costs the API server nothing, and here it is the quicker one.
    context.set_alpn_protocols(["http/1.1"])
    return context


def load_material(context: ssl.SSLContext, material: Material) -> None:
    """Serve a certificate to every new connection of the context. ``ssl.SSLError`` where it cannot be used."""
    # The ssl module reads files only; this one is never in a folder that outlives the process.
    descriptor = os.memfd_create("forewarn-tls")
    with os.fdopen(descriptor, "wb") as file:
        file.write(f"{material.cert}\n{material.key}".encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")


def load_files(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Serve a certificate from files. Raises ``UserError`` that names the flag."""
    for flag, path in (("--tls-cert", cert), ("--tls-key", key)):
        if not Path(path).is_file():
            raise UserError(flag, f"there is no file {path!r}", "allowed: a PEM file")
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise UserError("--tls-cert", f"{cert} and {key} cannot be used: {error}", "a PEM pair") from None


def listen(flag: str, host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ``UserError`` that names ``flag`` where the address cannot be used."""
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, backlog=1024, dualstack_ipv6=family == socket.AF_INET6 and not host
        )
    except OSError as error:
        raise UserError(flag, f"{host or '*'}:{port} cannot be used: {error.strerror}", "a free port, or 0") from None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The signals are ours: after SIGTERM it goes on serving for a while.
        yield


async def serve(
    app: Webhook, context: ssl.SSLContext, listener: socket.socket, readiness: Readiness, drain: float
) -> None:
    """Serve until SIGTERM or SIGINT: then not ready, ``drain`` seconds of serving on, and an orderly end."""
    config = uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=3,
    )
    config.load()
    config.ssl = context
    server = _Server(config)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        readiness.set("stopping")
        app.draining = True
        log.info("stopping: no longer ready, serving on", extra={"fields": {"seconds": drain}})
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), drain)
        server.should_exit = True
    waiting.cancel()
    await running
    log.info("stopped")
