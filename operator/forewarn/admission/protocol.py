"""A small ASGI server side for answers that wait for nothing: whole requests in, one write out.

A general ASGI server makes a task for each request and writes head and body apart: measured on two cores, that costs a
call 0.1 to 0.2 ms, half of what the whole answer takes. Here the application runs to its end within the callback that
completes the request. Parsing HTTP is httptools', TLS the event loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httptools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Application = Callable[
        [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
    ]

MOST_HEADER_BYTES = 64 * 1024
IDLE_SECONDS = 300.0
"""Longer than the API server keeps an idle connection (90 s): the side that sends must be the one that closes."""
REQUEST_SECONDS = 30.0
"""How long one request may take to arrive."""

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_ASGI = {"version": "3.0", "spec_version": "2.4"}


class Connections:
    """The open connections of a server, and the application that they serve.

    ``most_body`` is how many bytes of a body are kept: of a larger one the application gets one byte more than that,
    and the rest is read and dropped, so that the answer still arrives.
    """

    def __init__(self, application: Application, most_body: int) -> None:
        self.application, self.most_body = application, most_body
        self.open: set[Connection] = set()
        self._last_gone: asyncio.Event | None = None

    def make(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self)

    def sweep(self, now: float) -> None:
        """Close what has been idle, or in the middle of a request, for too long; ``now`` is the loop's time."""
        for each in [*self.open]:
            if now - each.since > (REQUEST_SECONDS if each.receiving else IDLE_SECONDS):
                each.close()

    async def end(self, patience: float) -> None:
        """Close idle connections at once, the others after their answer, and all after ``patience`` seconds."""
        for each in [*self.open]:
            if not each.receiving:
                each.close()
        if self.open:
            self._last_gone = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last_gone.wait(), patience)
        for each in [*self.open]:
            each.abort()

    def gone(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.open.discard(connection)
        if not self.open and self._last_gone is not None:
            self._last_gone.set()


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self.receiving = False
        self.since = asyncio.get_running_loop().time()
        self.on_message_begin()
        self.receiving = False

    # ---- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = transport  # type: ignore[assignment]
        self._connections.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's signature)
        """Forget the transport."""
        self._connections.gone(self)
        # Parser and connection hold each other; what is gone must not wait for the collector.
        self._transport = self._parser = None

    def data_received(self, data: bytes) -> None:
        """Parse what came; answer each request that it completes."""
        self.since = asyncio.get_running_loop().time()
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._write(400, [(b"content-type", b"text/plain")], b"this is no HTTP/1.1 request\n", keep=False)

    def pause_writing(self) -> None:
        """Read no further requests of a client that does not read its answers."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read on."""
        if self._transport is not None:
            self._transport.resume_reading()

    # ---- what the parser calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.receiving = True
        self._url, self._headers, self._parts = b"", list[tuple[bytes, bytes]](), list[bytes]()
        self._size = self._header_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the request's target."""
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a client that waits for leave to send its body gets it."""
        name = name.lower()
        self._headers.append((name, value))
        self._count_header(len(name) + len(value))
        if name == b"expect" and value.lower() == b"100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _count_header(self, count: int) -> None:
        self._header_size += count
        if self._header_size > MOST_HEADER_BYTES:
            self._write(431, [(b"content-type", b"text/plain")], b"the headers are too large\n", keep=False)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, as far as it is kept."""
        most = self._connections.most_body + 1
        if self._size < most:
            self._parts.append(body if self._size + len(body) <= most else body[: most - self._size])
        self._size += len(body)
        if self._size > 16 * most:
            self.close()

    def on_message_complete(self) -> None:
        """Run the application on the whole request and write its answer at once."""
        self.receiving = False
        parser = self._parser
        if parser is None or self._transport is None or self._transport.is_closing():
            return
        target = httptools.parse_url(self._url) if self._url.startswith(b"/") else None
        scope: Message = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": parser.get_http_version(),
            "method": parser.get_method().decode("ascii"),
            "scheme": "https",
            "path": target.path.decode("latin-1") if target is not None else "",
            "raw_path": self._url,
            "query_string": (target.query or b"") if target is not None else b"",
            "headers": self._headers,
        }
        status, headers, body = 500, list[tuple[bytes, bytes]](), b""

        async def receive() -> Message:
            parts = self._parts
            return {
                "type": "http.request",
                "body": parts[0] if len(parts) == 1 else b"".join(parts),
                "more_body": False,
            }

        async def send(message: Message) -> None:
            nonlocal status, headers, body
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                body += message["body"]

        answering = self._connections.application(scope, receive, send).__await__()
        try:
            next(answering)
        except StopIteration:
            keep = parser.should_keep_alive() and (b"connection", b"close") not in headers
            self._write(status, headers, body, keep=keep)
        else:
            raise RuntimeError("an application of this server may wait for nothing")

    # ---- writing and closing

    def _write(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes, *, keep: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        lines = [name + b": " + value + b"\r\n" for name, value in headers if name != b"content-length"]
        if not keep and (b"connection", b"close") not in headers:
            lines.append(b"connection: close\r\n")
        length = b"content-length: %d\r\n\r\n" % len(body)
        self._transport.write(b"".join((_STATUS_LINES[status], *lines, length, body)))
        if not keep:
            self._transport.close()

    def close(self) -> None:
        """Close once what is written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
