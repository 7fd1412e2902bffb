"""What the writer makes of refusals: who waits, for how long, and when it takes itself for unable to write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from forewarn.mirror.api import Api, Refusal
from forewarn.mirror.events import Target
from forewarn.mirror.writer import Owed, Writer
from tests.support.waiting import eventually
from tests.unit.mirror.sessions import Told, seen, warned


class Server:
    """An API server that answers a namespace's writes with a refusal, or takes them."""

    def __init__(self) -> None:
        self.refuses: dict[str, Refusal] = {}
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        namespace = path.split("/")[5]
        self.asked.append(f"{method} {namespace}")
        if namespace in self.refuses:
            raise self.refuses[namespace]
        return {}


class Author:
    """Notes what became of each write."""

    def __init__(self, namespaces: int) -> None:
        self.namespaces = namespaces
        self.became: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda owed, *_: self.became.append(f"{name} {owed.pod.namespace}")


@asynccontextmanager
async def writing(server: Server, author: Author, rate: float = 1000) -> AsyncIterator[Writer]:
    writer = Writer(cast("Api", server), author, rate, "test")
    task = asyncio.create_task(writer.run())
    writer.begin()
    try:
        yield writer
    finally:
        task.cancel()


def owed(namespace: str) -> Owed:
    told = Told()
    told.look(0, seen(warned(900)))
    return Owed(
        told.notices[0], Target("Pod", namespace, "train", f"uid-{namespace}"), None, asyncio.get_running_loop().time()
    )


async def put(writer: Writer, author: Author, *namespaces: str) -> None:
    """Owe one Event in each namespace, and wait for what becomes of it."""
    before = len(author.became)
    for namespace in namespaces:
        writer.put(owed(namespace))
    await eventually(lambda: len(author.became) == before + len(namespaces), "what became of it")
    await asyncio.sleep(0.02)


FORBIDDEN = Refusal(403, "Forbidden", "no")


async def test_some_namespaces_that_refuse_are_no_mirror_that_cannot_write() -> None:
    server, author = Server(), Author(4)
    server.refuses = dict.fromkeys(("a", "b", "c", "d"), FORBIDDEN)
    async with writing(server, author) as writer:
        await put(writer, author, "a", "b", "c")
        assert writer.failing_for() == 0
        await put(writer, author, "d")
        assert writer.failing_for() > 0


async def test_one_of_many_namespaces_that_takes_an_event_is_enough() -> None:
    server, author = Server(), Author(500)
    many = [f"n{number}" for number in range(20)]
    server.refuses = dict.fromkeys(many, FORBIDDEN)
    async with writing(server, author) as writer:
        await put(writer, author, *many)
        assert writer.failing_for() > 0
        await put(writer, author, "free")
        assert writer.failing_for() == 0


async def test_an_event_that_is_invalid_shows_that_writes_go_through() -> None:
    server, author = Server(), Author(1)
    server.refuses["a"] = FORBIDDEN
    async with writing(server, author) as writer:
        await put(writer, author, "a")
        assert writer.failing_for() > 0
        server.refuses["b"] = Refusal(422, "Invalid", "no")
        await put(writer, author, "b")
        assert writer.failing_for() == 0
        assert author.became == ["refused a", "dropped b"]


async def test_a_mirror_that_does_not_lead_is_not_one_that_cannot_write() -> None:
    server, author = Server(), Author(1)
    server.refuses["a"] = FORBIDDEN
    async with writing(server, author) as writer:
        await put(writer, author, "a")
        assert writer.failing_for() > 0
        writer.stop()
        assert (writer.failing_for(), writer.refusing) == (0, ())
        server.refuses.clear()
        writer.begin()
        assert writer.failing_for() == 0
        await put(writer, author, "a")
        assert author.became == ["refused a", "stored a"]


@pytest.mark.parametrize("after", [0.0, None])
async def test_a_server_that_says_later_without_a_time_is_not_asked_at_once(after: float | None) -> None:
    server, author = Server(), Author(2)
    server.refuses["a"] = Refusal(429, "TooManyRequests", "later", (), after)
    async with writing(server, author) as writer:
        await put(writer, author, "a")
        await asyncio.sleep(0.5)
        assert server.asked == ["POST a"]
        server.refuses.clear()
        await eventually(lambda: author.became == ["refused a", "stored a"], "it is stored")


async def test_what_waits_for_its_turn_is_not_written_by_a_mirror_that_stopped() -> None:
    server, author = Server(), Author(2)
    async with writing(server, author, rate=2) as writer:
        for namespace in ("a", "b", "c"):
            writer.put(owed(namespace))
        await eventually(lambda: len(server.asked) == 2, "two writes")
        writer.stop()
        writer.begin()
        await eventually(writer.idle.is_set, "nothing is owed")
        assert server.asked == ["POST a", "POST b"]
