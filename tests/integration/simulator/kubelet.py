"""Just enough of a kubelet for an API server without nodes: pods run, and end when they are deleted."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lightkube.resources.core_v1 import Pod
from lightkube.types import PatchType

from forewarn import kube
from forewarn.contract import UTC, format_instant

if TYPE_CHECKING:
    from lightkube import AsyncClient

EXIT_CODE = "test/exit-code"
"""Annotation: the code with which the pod's containers end."""
WAITING = "test/waiting"
"""Annotation: the reason for which the pod's containers never start."""


class Kubelet:
    """Runs while the block lasts: ``async with Kubelet(client, namespace)``."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._task: asyncio.Task[None] | None = None
        self._done: set[tuple[str, str]] = set()

    async def __aenter__(self) -> Kubelet:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(*kube.FAILURES):
                async for change, pod in self._client.watch(Pod, namespace=self._namespace):
                    if change != "DELETED":
                        await self._handle(pod)
            await asyncio.sleep(0.1)

    async def _handle(self, pod: Pod) -> None:
        metadata = pod.metadata
        assert metadata
        assert metadata.uid
        ending = metadata.deletionTimestamp is not None
        if (metadata.uid, "ended" if ending else "started") in self._done:
            return
        self._done.add((metadata.uid, "ended" if ending else "started"))
        notes = metadata.annotations or {}
        now = format_instant(datetime.now(UTC))
        if ending:
            state: dict[str, Any] = {
                "terminated": {"exitCode": int(notes.get(EXIT_CODE, "0")), "reason": "Completed", "finishedAt": now}
            }
        elif WAITING in notes:
            state = {"waiting": {"reason": notes[WAITING], "message": "so says the test"}}
        else:
            state = {"running": {"startedAt": now}}
        await self._status(pod, "Running" if "running" in state else "Pending" if not ending else "Succeeded", state)
        if ending:
            await self._client.delete(Pod, metadata.name or "", namespace=self._namespace, grace_period=0)

    async def _status(self, pod: Pod, phase: str, state: dict[str, Any]) -> None:
        assert pod.spec
        assert pod.metadata
        statuses = [
            {"name": c.name, "image": c.image, "imageID": "", "ready": True, "restartCount": 0, "state": state}
            for c in pod.spec.containers
        ]
        path = f"{pod.metadata.name}"
        body = {"status": {"phase": phase, "containerStatuses": statuses}}
        await self._client.patch(Pod.Status, path, body, namespace=self._namespace, patch_type=PatchType.MERGE)
