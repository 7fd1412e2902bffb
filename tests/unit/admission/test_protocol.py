"""The ASGI server side: whole requests, one write, and connections that end when they should."""

from __future__ import annotations

import asyncio
from typing import Any

from forewarn.admission.protocol import IDLE_SECONDS, MOST_HEADER_BYTES, REQUEST_SECONDS, Connection, Connections

MOST = 1000


class Transport:
    """What a connection writes."""

    def __init__(self) -> None:
        self.written, self.closed, self.reading = list[bytes](), False, True

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    text = f"{scope['method']} {scope['path']} {len(body)}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


def opened() -> tuple[Connections, Connection, Transport]:
    connections, transport = Connections(echo, MOST), Transport()
    connection = connections.make()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connections, connection, transport


def request(body: bytes = b"", line: str = "POST /a HTTP/1.1", *headers: str) -> bytes:
    return "\r\n".join((line, "Host: x", f"Content-Length: {len(body)}", *headers, "", "")).encode() + body


async def test_a_request_is_answered_in_one_write_and_the_connection_kept() -> None:
    _, connection, transport = opened()
    connection.data_received(request(b"hello"))
    assert transport.written == [b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nPOST /a 5"]
    assert not transport.closed


async def test_a_request_may_come_in_pieces_and_several_at_once() -> None:
    _, connection, transport = opened()
    raw = request(b"hello") + request(b"", "GET /b?c HTTP/1.1")
    for index in range(len(raw)):
        connection.data_received(raw[index : index + 1])
    connection.data_received(raw)
    assert [each.rpartition(b"\r\n")[2] for each in transport.written] == [b"POST /a 5", b"GET /b 0"] * 2


async def test_chunks_are_put_together() -> None:
    _, connection, transport = opened()
    connection.data_received(
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    )
    assert transport.written[0].endswith(b"POST /a 7")


async def test_of_a_large_body_one_byte_more_than_the_most_is_kept() -> None:
    _, connection, transport = opened()
    connection.data_received(request(b"x" * (3 * MOST)))
    assert transport.written[0].endswith(f"POST /a {MOST + 1}".encode())
    assert not transport.closed
    connection.data_received(request(b"", "POST /a HTTP/1.1")[:-4].replace(b": 0", b": 999999") + b"\r\n\r\n")
    connection.data_received(b"x" * (17 * MOST + 17))
    assert transport.closed


async def test_who_asks_to_close_is_closed_and_told() -> None:
    _, connection, transport = opened()
    connection.data_received(request(b"", "POST /a HTTP/1.1", "Connection: close"))
    assert b"connection: close\r\n" in transport.written[0]
    assert transport.closed


async def test_leave_to_send_the_body_is_given() -> None:
    _, connection, transport = opened()
    connection.data_received(request(b"hello", "POST /a HTTP/1.1", "Expect: 100-continue"))
    assert transport.written[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert transport.written[1].endswith(b"POST /a 5")


async def test_what_is_no_request_gets_400_and_the_end() -> None:
    for raw in (b"\x00\x01\x02", b"NONSENSE\r\n\r\n", b"POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        _, connection, transport = opened()
        connection.data_received(raw)
        assert transport.written[0].startswith(b"HTTP/1.1 400 Bad Request\r\n"), raw
        assert transport.closed


async def test_endless_headers_are_cut_off() -> None:
    _, connection, transport = opened()
    connection.data_received(b"POST /a HTTP/1.1\r\n")
    for _ in range(MOST_HEADER_BYTES // 1000 + 2):
        connection.data_received(b"X-Long: " + b"y" * 1000 + b"\r\n")
    assert transport.written[0].startswith(b"HTTP/1.1 431 ")
    assert transport.closed
    connection.data_received(b"\r\n")
    assert len(transport.written) == 1


async def test_idle_and_slow_connections_are_swept() -> None:
    connections, connection, transport = opened()
    connections.sweep(connection.since + IDLE_SECONDS - 1)
    assert not transport.closed
    connection.data_received(request(b"hello")[:-1])
    connections.sweep(connection.since + REQUEST_SECONDS - 1)
    assert not transport.closed
    connections.sweep(connection.since + REQUEST_SECONDS + 1)
    assert transport.closed
    connections, connection, transport = opened()
    connections.sweep(connection.since + IDLE_SECONDS + 1)
    assert transport.closed


async def test_an_end_closes_the_idle_and_lets_the_others_finish() -> None:
    connections, idle, idle_transport = opened()
    busy, busy_transport = connections.make(), Transport()
    busy.connection_made(busy_transport)  # type: ignore[arg-type]
    busy.data_received(request(b"hello")[:-1])
    ending = asyncio.create_task(connections.end(5))
    await asyncio.sleep(0)
    assert idle_transport.closed
    idle.connection_lost(None)
    assert not busy_transport.closed
    busy.data_received(b"o")
    assert busy_transport.written
    busy.connection_lost(None)
    await asyncio.wait_for(ending, 1)


async def test_who_does_not_read_its_answers_is_not_read_either() -> None:
    _, connection, transport = opened()
    connection.pause_writing()
    assert not transport.reading
    connection.resume_writing()
    assert transport.reading
