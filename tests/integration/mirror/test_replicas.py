"""Two mirrors: one Lease, or, by force, none."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

from tests.integration.mirror.load import cluster, create_many
from tests.integration.mirror.support import MirrorProcess, Sessions, pod_body, warning
from tests.integration.mirror.test_crash_storm import Storm, check, controller, still_open
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually, until


def pair(server: ApiServer, namespace: str, directory: Path) -> tuple[MirrorProcess, MirrorProcess]:
    """Start two mirrors on one lease; return the one that leads first."""
    flags = ("-n", namespace, f"--lease={namespace}/mirror")
    made = [MirrorProcess(server.kubeconfig, directory / f"{number}.log", *flags).ready() for number in (1, 2)]
    until(lambda: sum(each.metric("forewarn_mirror_leading") for each in made) == 1, "one mirror leads")
    made.sort(key=lambda each: -each.metric("forewarn_mirror_leading"))
    return made[0], made[1]


def test_a_standby_takes_over_a_killed_leader_within_15_seconds(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    sessions = Sessions(api_server, namespace)
    sessions.create(pod_body("before", warning(900)))
    sessions.create(pod_body("after"))
    leader, standby = pair(api_server, namespace, tmp_path)
    with leader, standby:
        sessions.until("before", ["TerminationWarning"])
        leader.kill()
        killed = time.monotonic()
        sessions.annotate("after", warning(900))
        sessions.until("after", ["TerminationWarning"], 15)
        print(f"takeover after SIGKILL: {time.monotonic() - killed:.1f} s")
        sessions.until("before", ["TerminationWarning"])


def test_a_standby_takes_over_a_stopped_leader_within_2_seconds(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    sessions = Sessions(api_server, namespace)
    sessions.create(pod_body("after"))
    leader, standby = pair(api_server, namespace, tmp_path)
    with leader, standby:
        leader.signal(signal.SIGTERM)
        stopped = time.monotonic()
        sessions.annotate("after", warning(900))
        sessions.until("after", ["TerminationWarning"], 2)
        print(f"takeover after SIGTERM: {time.monotonic() - stopped:.1f} s")
        assert leader.wait(10) == 0


def test_two_mirrors_that_both_write_tell_nothing_twice(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    names = [f"train-{number}" for number in range(30)]

    async def play() -> None:
        dice = random.Random(5)
        storm = Storm(base=float(int(time.time()) + 100_000))
        async with cluster(api_server.kubeconfig, namespace) as made:
            await create_many(made, names)
            both = [MirrorProcess(api_server.kubeconfig, tmp_path / f"{n}.log", "-n", namespace) for n in (1, 2)]
            with both[0], both[1]:
                for each in both:
                    await asyncio.to_thread(each.ready)
                storm.up.append((time.monotonic(), float("inf")))
                stop = asyncio.Event()
                work = [controller(made, storm, name, stop, random.Random(dice.random()), 2.5) for name in names]
                running = asyncio.gather(*work)
                await asyncio.sleep(15)
                stop.set()
                await running
                await eventually(lambda: not still_open(made, names), "every episode is ended")
                conflicts = [each.metric("forewarn_mirror_event_conflicts_total") for each in both]
                assert sum(conflicts) > 0, "both tried to write"
                assert not any("level=error" in each.output() for each in both)
                print(f"conflicts: {conflicts}")
            check(made, storm, names)

    asyncio.run(play())
