"""The one way out: Events in order for each pod, at a settable rate; a refusal stays in its namespace."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from forewarn.mirror import events
from forewarn.mirror.api import FAILURES, MERGE_PATCH, Api, Refusal
from forewarn.mirror.notices import Notice, Restatement
from forewarn.mirror.story import same_news
from forewarn.mirror.turns import Turns

if TYPE_CHECKING:
    from forewarn.mirror.events import Target

log = logging.getLogger(__name__)

IN_FLIGHT = 16
"""Requests at once."""
MOST_OWED = 50
"""Events owed to one pod; a namespace that refuses for hours must not fill the memory."""
TRANSPORT_WAITS = (0.2, 0.5, 1.0, 2.0, 4.0)
REFUSED_WAITS = (2.0, 5.0, 15.0, 30.0, 60.0)
BUSY_WAITS = (1.0, 300.0)
"""The shortest and the longest Retry-After that is heeded; without one it is the shortest."""
SAY_SECONDS = 10.0
REFUSED_EVERYWHERE = 10
"""As many namespaces that refuse, or all that there are, with no write going through: a mirror that cannot write."""


@dataclass(slots=True)
class Owed:
    """One Event to write: on the pod, or its copy on the Job that owns it."""

    said: Notice | Restatement
    pod: Target
    job: Target | None
    since: float
    """By the loop's clock, when it was decided."""
    copy: bool = False

    @property
    def key(self) -> str:
        """Events of one key are written one after the other."""
        return f"{self.pod.uid}/job" if self.copy else self.pod.uid


class Outcome(Enum):
    """What became of a write."""

    STORED = "stored"
    CONFLICT = "conflict"
    """The number is taken by other news: what is stored has to be read and decided upon again."""
    DROPPED = "dropped"
    """Nobody can read it any more (the namespace ends), or the API server takes it for invalid."""
    LATER = "later"


class Author(Protocol):
    """Who decides what is written, and is told what became of it."""

    @property
    def namespaces(self) -> int:
        """How many namespaces there are to write to."""

    def stored(self, owed: Owed, fresh: bool) -> None:
        """Take that an Event is stored; ``fresh`` if by this write."""

    def conflicted(self, owed: Owed) -> None:
        """Take that somebody else took the number; everything owed to the pod is dropped."""

    def dropped(self, owed: Owed, why: str) -> None:
        """Take that an Event is given up."""

    def refused(self, owed: Owed, error: Refusal) -> None:
        """Take that a namespace refuses; it is tried again later."""


@dataclass(slots=True)
class _Line:
    """What is owed under one key; ``busy`` while its first is being written or waits for its turn."""

    owed: deque[Owed] = field(default_factory=deque)
    busy: bool = False


@dataclass(slots=True)
class _Parked:
    """A namespace that refuses: how often it did in a row, and who waits."""

    times: int = 0
    keys: list[str] = field(default_factory=list)
    waiting: bool = False


class Writer:
    """Writes what is owed while ``open`` is set. Start ``run`` as a task."""

    def __init__(self, api: Api, author: Author, rate: float, instance: str) -> None:
        self._api, self._author, self._instance = api, author, instance
        self._turns = Turns(rate)
        self._lines: dict[str, _Line] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._parked: dict[str, _Parked] = {}
        self._failures = 0
        self._said = float("-inf")
        self._failing_since: float | None = None
        self.open = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def owed(self) -> int:
        """How many Events are owed."""
        return sum(len(line.owed) for line in self._lines.values())

    def behind(self) -> float:
        """Return the age in seconds of the oldest Event that is owed; 0 if none is."""
        now = asyncio.get_running_loop().time()
        return now - min((line.owed[0].since for line in self._lines.values() if line.owed), default=now)

    @property
    def refusing(self) -> tuple[str, ...]:
        """The namespaces that refuse Events now."""
        return tuple(self._parked)

    def failing_for(self) -> float:
        """Return for how many seconds no write at all went through although some were tried; 0 if some do."""
        if self._failing_since is None or not self.open.is_set():
            return 0.0
        return asyncio.get_running_loop().time() - self._failing_since

    def put(self, owed: Owed) -> None:
        """Owe one more Event."""
        line = self._lines.setdefault(owed.key, _Line())
        if len(line.owed) >= MOST_OWED:
            # The second is the oldest that nobody is writing right now.
            self._author.dropped(line.owed[1], "too much is owed to this pod")
            del line.owed[1]
        line.owed.append(owed)
        self.idle.clear()
        if not line.busy:
            line.busy = True
            self._ready.put_nowait(owed.key)

    def forget(self, key: str) -> None:
        """Drop what is owed under a key."""
        line = self._lines.get(key)
        if line is not None:
            line.owed.clear()

    def begin(self) -> None:
        """Write what is owed from now on."""
        self._failures, self._failing_since = 0, None
        self.open.set()

    def stop(self) -> None:
        """Write nothing more, and drop everything: somebody else writes now."""
        self.open.clear()
        for line in self._lines.values():
            line.owed.clear()
        for parked in self._parked.values():
            # Its workers find nothing owed, and end the line.
            for key in parked.keys:
                self._ready.put_nowait(key)
        self._parked.clear()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            await self.open.wait()
            line = self._lines[key]
            if not line.owed:
                self._finish(key, line)
                continue
            first = line.owed[0]
            parked = self._parked.get(first.pod.namespace)
            if parked is not None and parked.waiting:
                parked.keys.append(key)
                continue
            wait = self._turns.take(asyncio.get_running_loop().time())
            if wait:
                await asyncio.sleep(wait)
                if not line.owed or line.owed[0] is not first:
                    # It was forgotten meanwhile.
                    self._ready.put_nowait(key)
                    continue
            outcome = await self._write(first)
            if outcome is not Outcome.LATER:
                # It may have been forgotten meanwhile.
                if line.owed and line.owed[0] is first:
                    line.owed.popleft()
                self._finish(key, line)

    def _finish(self, key: str, line: _Line) -> None:
        if line.owed:
            self._ready.put_nowait(key)
            return
        line.busy = False
        del self._lines[key]
        if not self._lines:
            self.idle.set()

    async def _write(self, owed: Owed) -> Outcome:
        try:
            fresh = await self._send(owed)
        except Refusal as error:
            return await self._refused(owed, error)
        except FAILURES as error:
            return await self._failed(owed, f"{type(error).__name__}: {error}")
        self._succeeded(owed.pod.namespace)
        self._author.stored(owed, fresh)
        return Outcome.STORED

    async def _send(self, owed: Owed) -> bool:
        """Send one Event; return whether it is new. Raises what ``Api.request`` raises."""
        said, namespace = owed.said, owed.pod.namespace
        if isinstance(said, Restatement):
            path = events.path(namespace, events.entry_name(owed.pod, said.story.current))
            await self._api.request("PATCH", path, body=events.restatement(said), content=MERGE_PATCH)
            return False
        body = self._body(owed, said)
        await self._api.request("POST", events.path(namespace), body=body)
        return True

    def _body(self, owed: Owed, said: Notice) -> dict[str, Any]:
        if owed.copy and owed.job is not None:
            return events.of_job(said, owed.job, owed.pod, self._instance)
        return events.of_pod(said, owed.pod, self._instance, owed.job)

    async def _refused(self, owed: Owed, error: Refusal) -> Outcome:
        if error.code == 409 and isinstance(owed.said, Notice):
            return await self._taken(owed, owed.said)
        if error.code == 404 or "NamespaceTerminating" in error.causes:
            # The namespace or, of a restatement, the Event has gone: there is nobody left to tell.
            self._succeeded(owed.pod.namespace)
            self._author.dropped(owed, "")
            return Outcome.DROPPED
        if error.code in (400, 413, 422):
            self._succeeded(owed.pod.namespace)
            self._author.dropped(owed, str(error))
            return Outcome.DROPPED
        if error.code in (403, 429):
            self._author.refused(owed, error)
            self._park(owed, error)
            return Outcome.LATER
        return await self._failed(owed, str(error))

    async def _taken(self, owed: Owed, said: Notice) -> Outcome:
        """Read the Event that has the number: our own whose answer was lost, a twin's same news, or other news."""
        if owed.copy:
            self._succeeded(owed.pod.namespace)
            self._author.stored(owed, False)
            return Outcome.STORED
        path = events.path(owed.pod.namespace, events.entry_name(owed.pod, said.story.entry))
        try:
            there = await self._api.request("GET", path)
        except Refusal as error:
            if error.code == 404:
                # It expired in between, so the number is free again.
                self._ready.put_nowait(owed.key)
                return Outcome.LATER
            return await self._refused(owed, error)
        except FAILURES as error:
            return await self._failed(owed, f"{type(error).__name__}: {error}")
        self._succeeded(owed.pod.namespace)
        story = events.story_of(there)
        if there.get("reason") == said.reason.name and story is not None and same_news(story, said.story):
            self._author.stored(owed, False)
            return Outcome.STORED
        self.forget(owed.key)
        self._author.conflicted(owed)
        return Outcome.CONFLICT

    def _succeeded(self, namespace: str) -> None:
        self._failures = 0
        self._failing_since = None
        self._said = float("-inf")
        parked = self._parked.pop(namespace, None)
        if parked is not None:
            for key in parked.keys:
                self._ready.put_nowait(key)

    async def _failed(self, owed: Owed, why: str) -> Outcome:
        """Wait, with this one of the workers, and try again: the API server is away, for everybody."""
        self._fail()
        wait = TRANSPORT_WAITS[min(self._failures, len(TRANSPORT_WAITS) - 1)]
        self._failures += 1
        now = asyncio.get_running_loop().time()
        if now - self._said > SAY_SECONDS:
            self._said = now
            log.warning("Events cannot be written now and are tried again: %s", why)
        await asyncio.sleep(wait)
        self._ready.put_nowait(owed.key)
        return Outcome.LATER

    def _fail(self) -> None:
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()

    def _park(self, owed: Owed, error: Refusal) -> None:
        namespace = owed.pod.namespace
        parked = self._parked.setdefault(namespace, _Parked())
        parked.keys.append(owed.key)
        if parked.waiting:
            return
        wait = REFUSED_WAITS[min(parked.times, len(REFUSED_WAITS) - 1)]
        if error.code == 429:
            wait = min(max(error.retry_after or 0.0, BUSY_WAITS[0]), BUSY_WAITS[1])
        parked.times += 1
        parked.waiting = True
        log.warning(
            "Events are refused, next try in %.0f s: %s", wait, error, extra={"fields": {"namespace": namespace}}
        )
        if len(self._parked) >= min(self._author.namespaces, REFUSED_EVERYWHERE):
            self._fail()
        asyncio.get_running_loop().call_later(wait, self._unpark, namespace)

    def _unpark(self, namespace: str) -> None:
        """Let one of a namespace's waiters try; the others follow when it succeeds."""
        parked = self._parked.get(namespace)
        if parked is None:
            return
        parked.waiting = False
        keys, parked.keys = parked.keys, []
        for key in keys:
            self._ready.put_nowait(key)
