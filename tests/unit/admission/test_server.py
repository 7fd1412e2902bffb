"""The server over TLS: requests answered, what is too large or too slow bounded, connections that end in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from forewarn.admission import server
from forewarn.admission.app import Webhook
from forewarn.admission.health import Readiness
from forewarn.admission.inject import InjectSettings
from forewarn.admission.review import LARGEST
from tests.support.credentials import Authority
from tests.unit.admission import reviews

REVIEW = reviews.body(0)[1]
AUTHORITY = Authority("unit")
API_SERVER_KEEPS_IDLE = 90


class Client:
    """One TLS connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    async def answer(self) -> tuple[int, str, bytes]:
        """Return the next answer: its status, its head in small letters, its body."""
        head = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)).decode().lower()
        (length,) = [int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length:")]
        return int(head.split()[1]), head, await self._reader.readexactly(length)

    async def closed(self) -> bool:
        """Wait for the end of the connection; whether it came without another byte."""
        try:
            return await asyncio.wait_for(self._reader.read(), 10) == b""
        except ConnectionError:
            return True

    @property
    def certificate(self) -> bytes:
        found: bytes = self._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found


class Running:
    """A server within this process."""

    def __init__(self, directory: Path) -> None:
        self.context, self.readiness, self._directory = server.tls_context(), Readiness(), directory
        self.app = Webhook(InjectSettings(), ("kube-system",), lambda *_: None)
        self.renew()
        self._listener = server.listen("--port", "127.0.0.1", 0)
        self.port = self._listener.getsockname()[1]
        self._clients: list[asyncio.StreamWriter] = []

    def renew(self) -> None:
        """Serve another certificate from now on."""
        cert, key = AUTHORITY.server(["127.0.0.1"]).write(self._directory, "server")
        server.load_files(self.context, str(cert), str(key))

    async def connect(self) -> Client:
        trust = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trust)
        self._clients.append(writer)
        return Client(reader, writer)

    @contextlib.asynccontextmanager
    async def serving(self, drain: float = 0) -> AsyncIterator[asyncio.Task[None]]:
        running = asyncio.create_task(server.serve(self.app, self.context, self._listener, self.readiness, drain))
        await asyncio.sleep(0)
        yield running
        for each in self._clients:
            each.transport.abort()
        if not running.done():
            signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(running, 10)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Put back the handlers that a closed loop of uvloop leaves behind: later tests are in the same process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


def scenario(running: Running, body: Callable[[Client], Awaitable[None]]) -> None:
    """Run ``body`` with one connection, on the loop that the program itself runs on."""

    async def run() -> None:
        async with running.serving():
            await body(await running.connect())

    uvloop.run(run())


def request(body: bytes = REVIEW, line: str = "POST /mutate HTTP/1.1", *headers: str) -> bytes:
    return "\r\n".join((line, "Host: x", f"Content-Length: {len(body)}", *headers, "", "")).encode() + body


def test_requests_are_answered_one_after_another_on_one_connection(running: Running) -> None:
    async def body(client: Client) -> None:
        for _ in range(3):
            client.send(request())
            status, head, answer = await client.answer()
            assert (status, b"uid-0" in answer) == (200, True)
            assert "connection: close" not in head

    scenario(running, body)


def test_a_request_may_come_in_pieces_and_several_at_once(running: Running) -> None:
    async def body(client: Client) -> None:
        raw = request()
        for index in range(0, len(raw), 100):
            client.send(raw[index : index + 100])
            await asyncio.sleep(0)
        client.send(raw, raw)
        assert [(await client.answer())[0] for _ in range(3)] == [200] * 3

    scenario(running, body)


def test_chunks_are_put_together(running: Running) -> None:
    async def body(client: Client) -> None:
        client.send(b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in (REVIEW[:50], REVIEW[50:], b""):
            client.send(b"%x\r\n" % len(part), part, b"\r\n")
        assert (await client.answer())[0] == 200

    scenario(running, body)


@pytest.mark.parametrize("size", [LARGEST + 1, 4 * LARGEST])
def test_a_body_that_is_too_large_is_read_to_its_end_and_its_answer_arrives(running: Running, size: int) -> None:
    async def body(client: Client) -> None:
        client.send(request(b" " * size))
        status, head, _ = await client.answer()
        assert (status, "connection: close" in head) == (413, True)
        assert await client.closed()

    scenario(running, body)


def test_a_body_without_end_is_cut_off(running: Running) -> None:
    async def body(client: Client) -> None:
        client.send(b"POST /mutate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.send(*[b"100000\r\n" + b" " * 0x100000 + b"\r\n"] * 32)
        assert (await client.answer())[0] == 413
        assert await client.closed()

    scenario(running, body)


def test_who_asks_to_close_is_told_and_closed(running: Running) -> None:
    async def body(client: Client) -> None:
        client.send(request(REVIEW, "POST /mutate HTTP/1.1", "Connection: close"))
        status, head, _ = await client.answer()
        assert (status, "connection: close" in head) == (200, True)
        assert await client.closed()

    scenario(running, body)


def test_leave_to_send_the_body_is_given(running: Running) -> None:
    async def body(client: Client) -> None:
        raw = request(REVIEW, "POST /mutate HTTP/1.1", "Expect: 100-continue")
        client.send(raw[: -len(REVIEW)])
        leave = await asyncio.wait_for(client._reader.readuntil(b"\r\n\r\n"), 10)
        assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(REVIEW)
        assert (await client.answer())[0] == 200

    scenario(running, body)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02",
        b"NONSENSE\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_400_and_the_end(running: Running, raw: bytes) -> None:
    async def body(client: Client) -> None:
        client.send(raw)
        assert (await client.answer())[0] == 400
        assert await client.closed()

    scenario(running, body)


@pytest.mark.parametrize("line", [b"X-Long: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["many", "one"])
def test_headers_without_end_are_cut_off(running: Running, line: bytes) -> None:
    async def body(client: Client) -> None:
        client.send(b"POST /mutate HTTP/1.1\r\nX-First: ", line * (1 + server.MOST_HEADER_BYTES // 1000))
        assert (await client.answer())[0] == 431
        client.send(b"\r\n\r\n")
        assert await client.closed()

    scenario(running, body)


def test_each_request_has_its_own_bound(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 1)

    async def body(client: Client) -> None:
        raw = request(REVIEW + b" " * 10_000)
        client.send(raw[:20])
        # Never is there nothing of a request: what ends one also begins the next.
        for _ in range(30):
            client.send(raw[20:], raw[:20])
            assert (await client.answer())[0] == 200
            await asyncio.sleep(0.05)

    scenario(running, body)


@pytest.mark.parametrize(
    "start", [request()[: -len(REVIEW)], b"POST /mutate HTTP/1.1\r\nX-Slow: "], ids=["body", "head"]
)
def test_a_request_that_takes_too_long_is_closed(
    running: Running, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)

    async def drip(client: Client) -> None:
        while True:
            client.send(b"y")
            await asyncio.sleep(0.05)

    async def body(client: Client) -> None:
        client.send(request())
        assert (await client.answer())[0] == 200
        client.send(start)
        # What comes meanwhile does not put it off.
        dripping = asyncio.create_task(drip(client))
        assert await client.closed()
        dripping.cancel()

    scenario(running, body)


def test_an_idle_connection_outlives_the_api_servers_own_limit() -> None:
    assert server.KEEP_ALIVE_SECONDS > API_SERVER_KEEPS_IDLE


@pytest.mark.parametrize("asked", [True, False])
def test_an_idle_connection_is_closed_in_the_end(
    running: Running, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.3)

    async def body(client: Client) -> None:
        if asked:
            client.send(request())
            assert (await client.answer())[0] == 200
        assert await client.closed()

    scenario(running, body)


def test_a_new_certificate_is_for_new_connections_and_closes_none(running: Running) -> None:
    async def body(client: Client) -> None:
        running.renew()
        second = await running.connect()
        assert client.certificate != second.certificate
        for each in (client, second):
            each.send(request())
            assert (await each.answer())[0] == 200

    scenario(running, body)


def test_an_end_closes_the_idle_and_lets_the_others_finish(running: Running) -> None:
    async def run() -> None:
        async with running.serving(drain=0.2) as ending:
            idle, busy, draining = [await running.connect() for _ in range(3)]
            busy.send(request()[:-1])
            signal.raise_signal(signal.SIGTERM)
            head = ""
            while "connection: close" not in head:
                draining.send(request())
                status, head, _ = await draining.answer()
                assert status == 200
            assert running.readiness.why_not == "stopping"
            assert await idle.closed()
            busy.send(request()[-1:])
            assert (await busy.answer())[0] == 200
            assert await busy.closed()
            await asyncio.wait_for(ending, server.PATIENCE)

    uvloop.run(run())
