"""The least that a kopf operator does: one on.event handler for pods, everything at its default."""

from __future__ import annotations

import sys
from typing import Any

import kopf


@kopf.on.event("", "v1", "pods")
async def pod(event: Any, **_: Any) -> None:
    """Count the pods, so that the measurement knows when all were seen."""
    global seen
    seen += 1
    print(seen, file=sys.stderr, flush=True)


seen = 0
