"""What many sessions cost: memory beside a bare kopf handler, start, idle CPU; and a start with much to tell."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from forewarn.mirror.writer import IN_FLIGHT
from tests.bench.mirror.load import cpu, kubeconfig_with_token, resident, sessions
from tests.bench.table import Row
from tests.integration.mirror.load import Cluster, cluster, each, most_in_a_second
from tests.integration.mirror.support import MirrorProcess, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import until

TITLE = "mirror: many sessions"
SIZES = (1000, 5000, 20000)
BURST_AT = 5000
BURST = 500
IDLE_SECONDS = 20.0
RATE = 300
KOPF_PODS = re.compile(r"^(\d+)$", re.MULTILINE)


def run(work: Path, say: Callable[[str], None]) -> list[Row]:
    """Measure each size on one growing cluster."""
    rows: list[Row] = []
    with ApiServer.start(work / "server") as server:
        server.create_namespace("team", {"forewarn/sessions": "enabled"})
        kubeconfig = kubeconfig_with_token(server)
        made = 0
        for size in SIZES:
            say(f"{size:,} sessions: making {size - made:,}")
            uvloop.run(_grow(server, made, size))
            made = size
            say(f"{size:,} sessions: a bare kopf handler")
            bare = _bare(server, work, size)
            say(f"{size:,} sessions: the mirror")
            rows += uvloop.run(_mirror(kubeconfig, work, size, bare))
    first, last = SIZES[0], SIZES[-1]
    by_name = {row.name: row.value for row in rows}
    growth = last / first
    for what in ("start", "start, CPU", "memory"):
        small, large = by_name[f"{first:,}: {what}"], by_name[f"{last:,}: {what}"]
        rows.append(Row(f"{what}, {last:,} by {first:,}", large / small, "×", limit=growth))
    return rows


async def _grow(server: ApiServer, start: int, end: int) -> None:
    async with cluster(server.kubeconfig, "team", events=False) as made:
        await sessions(made, [f"train-{number}" for number in range(start, end)])
        if end == BURST_AT:
            await each(range(start, start + BURST), lambda number: made.annotate(f"train-{number}", warning(9000)))


def _bare(server: ApiServer, work: Path, size: int) -> float:
    """Return the resident memory (MB) of the least that a kopf operator does, once it has seen every pod."""
    log = work / f"kopf.{size}.log"
    argv = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "-A",
        "--standalone",
        "-q",
        str(Path(__file__).with_name("bare_kopf.py")),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stderr=out, stdout=out, env={"KUBECONFIG": str(server.kubeconfig)})
        try:
            until(lambda: len(KOPF_PODS.findall(log.read_text())) >= size, "kopf has seen every pod", 300)
            # Its workers end after five idle seconds.
            time.sleep(8)
            return resident(process.pid)
        finally:
            process.kill()
            process.wait()


async def _mirror(kubeconfig: Path, work: Path, size: int, bare: float) -> list[Row]:
    async with cluster(kubeconfig, "team") as made:
        started = time.monotonic()
        with MirrorProcess(kubeconfig, work / f"mirror.{size}.log") as mirror:
            await asyncio.to_thread(mirror.ready, 300)
            ready = time.monotonic() - started
            pid = mirror.pid
            rows = [Row(f"{size:,}: start", ready, "s"), Row(f"{size:,}: start, CPU", cpu(pid), "s")]
            if size == BURST_AT:
                rows += await _burst(made, started)
            await asyncio.sleep(8)
            rows.append(Row(f"{size:,}: bare kopf", bare, "MB"))
            memory = resident(pid)
            limit = bare + 10 if size == BURST_AT else None
            rows.append(Row(f"{size:,}: memory", memory, "MB", ratio_to=f"{size:,}: bare kopf", limit=limit))
            used = cpu(pid)
            await asyncio.sleep(IDLE_SECONDS)
            share = (cpu(pid) - used) / IDLE_SECONDS * 100
            rows.append(Row(f"{size:,}: idle CPU", share, "% of a core", limit=1.0 if size == BURST_AT else None))
            assert mirror.metric("forewarn_mirror_sessions") == size
    return rows


async def _burst(made: Cluster, started: float) -> list[Row]:
    """Return how long the start took to tell all, and the most Events that it wrote in any second."""
    while len(made.stored) < BURST:
        if time.monotonic() - started > 120:
            raise AssertionError(f"{len(made.stored)} of {BURST} Events")
        await asyncio.sleep(0.05)
    return [
        Row(f"{BURST_AT:,}: {BURST} warned, all told", made.stored[-1].arrived - started, "s", limit=20.0),
        Row(f"{BURST_AT:,}: most Events in a second", most_in_a_second(made.stored), "/s", limit=RATE + IN_FLIGHT),
    ]
