"""What the mirror reads besides its watch: stored Events, single pods, session namespaces, the controller's word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.mirror import events
from forewarn.mirror.api import METADATA, Api, Refusal
from forewarn.mirror.watch import NAMESPACES_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.mirror.events import Target
    from forewarn.mirror.watch import Scope

CAUSES = ("Preempted", "ReservationCancelled", "ReservationReassigned")
"""Reasons of the reservation controller's own Events on a session that it stops."""
AT_ONCE = 8
"""Looks at a pod's Events at once: the API server searches the whole namespace for each."""


class Lookups:
    """Reads of one scope. Every method raises what ``Api.request`` raises."""

    def __init__(self, api: Api, scope: Scope) -> None:
        self._api, self._scope = api, scope
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def namespaces(self) -> set[str]:
        """Return the names of the session namespaces, or of those that were named."""
        if not self._scope.everywhere:
            return set(self._scope.namespaces)
        listed = self._api.list(NAMESPACES_PATH, {"labelSelector": self._scope.sessions_label}, accept=METADATA)
        return {str(each["metadata"]["name"]) async for each in listed}

    async def stored(self, namespaces: Iterable[str]) -> list[dict[str, Any]]:
        """Return our own stored Events, of these namespaces or, of none, of all."""
        selector = {"fieldSelector": f"reportingController={contract.REPORTING_CONTROLLER}"}
        paths = [events.path(namespace) for namespace in namespaces] or [f"{events.API}/events"]
        return [event for path in paths async for event in self._api.list(path, selector)]

    async def pods(self, stream: str) -> list[dict[str, Any]]:
        """Return the pods of a URL path that the pod selector takes."""
        selector = {"labelSelector": self._scope.pod_selector} if self._scope.pod_selector else {}
        return [pod async for pod in self._api.list(stream, selector)]

    async def pod(self, pod: Target) -> dict[str, Any] | None:
        """Return a pod's object, ``None`` if that pod is gone (also if another has its name)."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            there: dict[str, Any] = await self._api.request("GET", path)
        except Refusal as error:
            if error.code != 404:
                raise
            return None
        return there if there["metadata"]["uid"] == pod.uid else None

    async def events_of(self, pod: Target) -> list[dict[str, Any]]:
        """Return every Event on a pod, whoever wrote it."""
        async with self._gate:
            answer = await self._api.request(
                "GET", events.path(pod.namespace), {"fieldSelector": f"regarding.uid={pod.uid}"}
            )
        return list(answer.get("items") or [])

    async def cause(self, pod: Target) -> str:
        """Return the reason of the reservation controller's own Event on a session that it stops, if there is one."""
        newest_first = sorted(await self.events_of(pod), key=_made, reverse=True)
        for event in newest_first:
            by = (event.get("reportingController"), (event.get("deprecatedSource") or {}).get("component"))
            if contract.RESERVATION_CONTROLLER in by and event.get("reason") in CAUSES:
                return str(event["reason"])
        return ""


def _made(event: dict[str, Any]) -> str:
    # RFC 3339 in UTC, as the API server writes it, sorts as text.
    return str(event["metadata"].get("creationTimestamp") or "")
