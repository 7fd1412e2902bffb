"""Many sessions at once: a quick client, and every Event as it is stored, expired ones included."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from forewarn import contract, kube
from forewarn.mirror.api import MERGE_PATCH, Api, new_session
from forewarn.mirror.events import story_of
from forewarn.mirror.story import Story
from tests.integration.mirror.support import at, pod_body


@dataclass(frozen=True)
class Stored:
    """An Event of ours: when it arrived on our watch (monotonic clock), and what it carries."""

    arrived: float
    uid: str
    name: str
    kind: str
    reason: str
    event: Mapping[str, Any]

    @property
    def story(self) -> Story | None:
        return story_of(self.event)


class Cluster:
    """The API server as a load client sees it."""

    def __init__(self, api: Api, session: aiohttp.ClientSession, url: str, namespace: str) -> None:
        self.api, self.session, self.url, self.namespace = api, session, url, namespace
        self.stored: list[Stored] = []

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    async def create(self, body: Mapping[str, Any], *, running: bool = True) -> str:
        made = await self.api.request("POST", self.path(), body=body)
        if running:
            status = {"status": {"phase": "Running", "startTime": at(0)}}
            await self.api.request(
                "PATCH", self.path(body["metadata"]["name"]) + "/status", body=status, content=MERGE_PATCH
            )
        return str(made["metadata"]["uid"])

    async def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        await self.api.request("PATCH", self.path(name), body=body, content=MERGE_PATCH)

    async def delete(self, name: str, grace: int | None = None) -> None:
        params = {} if grace is None else {"gracePeriodSeconds": str(grace)}
        await self.api.request("DELETE", self.path(name), params)

    async def follow_events(self) -> None:
        """Record each Event of ours that is made, until cancelled."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        listed = await self.api.request("GET", path, {"limit": "1"})
        version = listed["metadata"]["resourceVersion"]
        while True:
            params = {"watch": "true", "resourceVersion": version}
            timeout = aiohttp.ClientTimeout(total=None)
            try:
                async with self.session.get(self.url + path, params=params, timeout=timeout) as answer:
                    async for line in answer.content:
                        event = orjson.loads(line)
                        version = event["object"]["metadata"].get("resourceVersion", version)
                        if event["type"] == "ADDED":
                            self._take(event["object"])
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.2)

    def _take(self, event: Mapping[str, Any]) -> None:
        if event.get("reportingController") != contract.REPORTING_CONTROLLER:
            return
        regarding = event["regarding"]
        self.stored.append(
            Stored(
                time.monotonic(),
                regarding["uid"],
                regarding["name"],
                regarding["kind"],
                event["reason"],
                event,
            )
        )

    def of(self, name: str) -> list[Stored]:
        return [each for each in self.stored if each.name == name and each.kind == "Pod"]


def most_in_a_second(stored: Iterable[Stored]) -> int:
    """Return the most Events that were stored in one second, by the API server's clock."""
    return max(Counter(each.event["metadata"]["creationTimestamp"] for each in stored).values())


@asynccontextmanager
async def cluster(kubeconfig: Path, namespace: str, *, events: bool = True) -> AsyncIterator[Cluster]:
    """Connect, and follow the namespace's Events while the block runs."""
    config = kube.connect(str(kubeconfig))
    async with new_session(config) as session:
        made = Cluster(Api(config, session), session, config.cluster.server, namespace)
        task = asyncio.create_task(made.follow_events()) if events else None
        await asyncio.sleep(0.3 if events else 0)
        try:
            yield made
        finally:
            if task is not None:
                task.cancel()


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[Any]], at_once: int = 16) -> None:
    """Do ``work`` for every item, some at once."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: Any) -> None:
        async with gate:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


async def create_many(made: Cluster, names: Iterable[str], **changes: Any) -> None:
    """Create running sessions."""
    await each(names, lambda name: made.create(pod_body(name, **changes)))
