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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.admission.app import Webhook
    from forewarn.admission.health import Readiness
    from forewarn.admission.material import Material

log = logging.getLogger("forewarn.admission")

KEEP_ALIVE_SECONDS = 300
"""Longer than the API server keeps an idle connection (90 s): the side that sends must be the one that closes."""
REQUEST_SECONDS = 30.0
"""How long one request may take to arrive."""
MOST_HEADER_BYTES = 64 * 1024
PATIENCE = 3
"""Seconds that a request under way has at the end."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


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


class _Connection(HttpToolsProtocol):
    """uvicorn's connection, with the size of a head bounded, and the time that a request takes to arrive."""

    _arriving = _in_head = False
    _head_size = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        # uvicorn's own timer begins with the first answer; one that never asks would stay for ever.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._arriving = False
        self._time()
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_size += len(data)
        super().data_received(data)
        self._time()
        if self._in_head and self._head_size > MOST_HEADER_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving = self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arriving = False
        self._head_size = 0
        self._time()
        super().on_message_complete()

    def _time(self) -> None:
        # A request that came whole, as nearly all do, starts no timer.
        if self._arriving and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        elif not self._arriving and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


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
        http=_Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # what a stranger sends is no news
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=PATIENCE,
        ssl_context_factory=lambda _config, _default: context,
    )
    server, stopping, loop = _Server(config), asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)

    async def stop() -> None:
        await stopping.wait()
        readiness.set("stopping")
        app.draining = True
        log.info("stopping: no longer ready, serving on", extra={"fields": {"seconds": drain}})
        await asyncio.sleep(drain)
        server.should_exit = True

    ending = asyncio.create_task(stop())
    try:
        await server.serve(sockets=[listener])
    finally:
        ending.cancel()
    log.info("stopped")
