"""What is kept of a scenario that failed: its timeline, and its pods as the cluster knows them, before the cleanup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from lightkube.resources.core_v1 import Pod

from forewarn import kube
from forewarn.simulator import report

if TYPE_CHECKING:
    from lightkube import AsyncClient

    from forewarn.contract import Keys
    from forewarn.simulator.runner import Played


async def collect(played: Played, client: AsyncClient, keys: Keys) -> dict[str, str]:
    """Return, by file name, the timeline and each pod's manifest, Events and log.

    What cannot be had any more is named in the file that would hold it.
    """
    files = {"timeline.json": report.as_json(played, keys)}
    for name, pod in played.world.pods.items():
        if pod.placed is None:
            continue
        lines = [f"{line.at:%H:%M:%S.%f} {line.container} {line.text}\n" for line in pod.log]
        files[f"{name}.log"] = "".join(lines)
        files[f"{name}.yaml"] = await _pod(client, played.namespace, pod.placed.name)
        files[f"{name}.events.json"] = await _events(client, played.namespace, pod.placed.uid)
    return files


async def _pod(client: AsyncClient, namespace: str, name: str) -> str:
    try:
        found = await client.get(Pod, name, namespace=namespace)
    except kube.FAILURES as error:
        return f"# {kube.explain(error, f'get pod {name}')}\n"
    return yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False)


async def _events(client: AsyncClient, namespace: str, uid: str) -> str:
    events: list[dict[str, Any]] = []
    try:
        async for event in client.list(kube.AnyEvent, namespace=namespace, fields={"regarding.uid": uid}):
            events.append(dict(event))  # noqa: PERF401  (what came before a failure is kept)
    except kube.FAILURES as error:
        return json.dumps(str(kube.explain(error, "list Events")))
    return json.dumps(events, indent=2, default=str)
