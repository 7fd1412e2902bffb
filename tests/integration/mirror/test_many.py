"""A start with much to tell: all of it, and never faster than allowed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from forewarn.mirror.writer import IN_FLIGHT
from tests.integration.mirror.load import cluster, create_many, each, most_in_a_second
from tests.integration.mirror.support import MirrorProcess, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually


async def start(server: ApiServer, namespace: str, log: Path, sessions: int, warned: int, rate: int) -> float:
    """Start a mirror where sessions are warned already; return how long it took to tell all of them."""
    names = [f"train-{number}" for number in range(sessions)]
    async with cluster(server.kubeconfig, namespace) as made:
        await create_many(made, names)
        await each(names[:warned], lambda name: made.annotate(name, warning(9000)))
        started = time.monotonic()
        with MirrorProcess(server.kubeconfig, log, "-n", namespace, f"--event-rate={rate}"):
            await eventually(lambda: len(made.stored) >= warned, "all are told", 120)
            took = made.stored[-1].arrived - started
            await asyncio.sleep(1)
        assert {stored.name for stored in made.stored} == set(names[:warned])
        assert len(made.stored) == warned
        # No second sends more than the rate; a server that was held up stores those in flight at once.
        assert most_in_a_second(made.stored) <= rate + IN_FLIGHT
        return took


def test_a_start_tells_all_and_never_faster_than_the_rate(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    took = asyncio.run(start(api_server, namespace, tmp_path / "mirror.log", sessions=150, warned=100, rate=25))
    assert took >= 100 / 25 - 1


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_five_thousand_sessions_are_caught_up_with_in_twenty_seconds(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    took = asyncio.run(start(api_server, namespace, tmp_path / "mirror.log", sessions=5000, warned=500, rate=300))
    print(f"5,000 sessions, 500 warned: {took:.1f} s")
    assert took <= 20
