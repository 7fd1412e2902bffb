"""The webhook's server: a TLS context whose certificate can change, and a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from forewarn.admission.protocol import Connections
from forewarn.admission.review import LARGEST
from forewarn.errors import UserError

if TYPE_CHECKING:
    from forewarn.admission.app import Webhook
    from forewarn.admission.health import Readiness
    from forewarn.admission.material import Material

log = logging.getLogger("forewarn.admission")

PATIENCE = 3.0
"""Seconds that a request under way has at the end."""
SWEEP_EVERY = 10.0


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


async def serve(
    app: Webhook, context: ssl.SSLContext, listener: socket.socket, readiness: Readiness, drain: float
) -> None:
    """Serve until SIGTERM or SIGINT: then not ready, ``drain`` seconds of serving on, and an orderly end."""
    connections = Connections(app, LARGEST)
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    server = await loop.create_server(
        connections.make, sock=listener, ssl=context, backlog=1024, ssl_handshake_timeout=10, ssl_shutdown_timeout=1
    )
    sweeping = asyncio.create_task(_sweep(connections))
    try:
        await stopping.wait()
        readiness.set("stopping")
        app.draining = True
        log.info("stopping: no longer ready, serving on", extra={"fields": {"seconds": drain}})
        await asyncio.sleep(drain)
    finally:
        sweeping.cancel()
        server.close()
        await connections.end(PATIENCE)
        log.info("stopped")


async def _sweep(connections: Connections) -> None:
    while True:
        await asyncio.sleep(SWEEP_EVERY)
        connections.sweep(asyncio.get_running_loop().time())
