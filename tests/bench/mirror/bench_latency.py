"""How long after a warning was written its Event is stored."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from tests.bench.mirror.load import Controller, controller, kubeconfig_with_token, percentile, sessions
from tests.bench.table import Row
from tests.integration.mirror.load import Cluster, cluster
from tests.integration.mirror.support import NO_WARNING, MirrorProcess, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually

TITLE = "mirror: from a warning written to its Event stored"
MANY = 1000
WITHIN_SECONDS = 4.0


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Measure 100 warnings, ten a second, and 1,000 within four seconds."""
    with ApiServer.start(work / "server", mutating_policies=False) as server:
        server.create_namespace("team")
        return uvloop.run(_measure(server, work, say))


async def _measure(server: ApiServer, work: Path, say: Callable[[str], None]) -> list[Row]:
    names = [f"train-{number}" for number in range(MANY)]
    kubeconfig = kubeconfig_with_token(server)
    async with cluster(server.kubeconfig, "team") as made, controller(server, kubeconfig, "team") as writes:
        say(f"making {MANY} sessions")
        await sessions(made, names)
        with MirrorProcess(kubeconfig, work / "mirror.log", "-n", "team") as mirror:
            await asyncio.to_thread(mirror.ready)
            say("100 warnings, ten a second")
            few = await _warn(made, writes, names[:100], 10.0)
            for name in names[:100]:
                await made.annotate(name, NO_WARNING)
            await eventually(lambda: len(_told(made, "TerminationWarningWithdrawn")) == 100, "100 withdrawals")
            made.stored.clear()
            # The kernel would write what earlier measurements left in memory to the disk now, with the CPU of this one.
            await asyncio.to_thread(os.sync)
            say(f"{MANY} warnings within {WITHIN_SECONDS:.0f} s")
            many = await _warn(made, writes, names, WITHIN_SECONDS)
    return [
        Row("100 warnings, p50", percentile(few, 0.5), "s"),
        Row("100 warnings, p99", percentile(few, 0.99), "s"),
        Row("1,000 warnings, stored", len(many), "", least=MANY),
        Row("1,000 warnings, p50", percentile(many, 0.5), "s", limit=0.5),
        Row("1,000 warnings, p99", percentile(many, 0.99), "s", limit=2.0),
    ]


def _told(made: Cluster, reason: str) -> dict[str, float]:
    return {stored.name: stored.arrived for stored in made.stored if stored.reason == reason}


async def _warn(made: Cluster, writes: Controller, names: list[str], seconds: float) -> list[float]:
    """Write a warning on each session, evenly within so many seconds; return how long each Event took."""
    written: dict[str, float] = {}
    start = time.monotonic()

    async def one(number: int, name: str) -> None:
        await asyncio.sleep(start + seconds * number / len(names) - time.monotonic())
        await writes.annotate(name, warning(9000))
        written[name] = time.monotonic()

    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            group.create_task(one(number, name))
    told = "TerminationWarningQueued"
    # Looking costs CPU that the API server needs, so it is not looked at while warnings are written.
    await eventually(lambda: len(made.stored) >= len(names), f"{len(names)} Events", 60)
    await eventually(lambda: len(_told(made, told)) >= len(names), f"{len(names)} Events", 60)
    return [max(arrived - written[name], 0.0) for name, arrived in _told(made, told).items()]
