"""What the mirror's measurements share: a process's memory and CPU, percentiles, many sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from tests.integration.mirror.load import Cluster, each
from tests.integration.mirror.support import KEYS, at, pod_body

TICKS = os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Return a process's resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("no VmRSS")


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


async def sessions(made: Cluster, names: Sequence[str]) -> None:
    """Create sessions as the controller leaves them: admitted, guaranteed, on a node."""
    annotations = {
        KEYS.key("guaranteed-until"): at(7200),
        KEYS.key("guarantee-status"): "guaranteed",
        KEYS.key("booking-reference"): "res-4812",
        KEYS.key("reservation-kind"): "booking",
        KEYS.key("reservation-start"): at(-600),
        KEYS.key("reservation-end"): at(7200),
        KEYS.key("gpu-class-name"): "medium",
        KEYS.key("admitted-at"): at(-600),
        KEYS.key("pod-runtime-limit-seconds"): "21600",
    }
    labels = {"dsmlp/course": "CSE_1", "dsmlp/user": "student"}
    body = {"metadata": {"labels": labels, "annotations": annotations}}

    async def one(name: str) -> None:
        meta = {"metadata": {"name": name, **body["metadata"]}, "activeDeadlineSeconds": 21600}
        await made.create(pod_body(name, **meta), running=False)

    await each(names, one, 32)
    await asyncio.sleep(0)
