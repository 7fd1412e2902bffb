"""The mirror is killed at random moments while warnings come and go: each episode is told once, none is lost."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forewarn import contract
from forewarn.mirror.catalogue import OPENINGS
from tests.integration.mirror.load import Cluster, cluster, create_many
from tests.integration.mirror.support import KEYS, NO_WARNING, MirrorProcess
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(400)
SEEN_SECONDS = 2.0
"""An episode that a caught-up mirror could see for so long must have been told."""
STORM_SECONDS = 75.0
BOUNDED_KILLS = 12
OPENING_NAMES = {reason.name for reason in OPENINGS}
INSTANTS = 300
"""Seconds between the instants of two episodes: each Event tells by its instant which episode it belongs to."""


@dataclass
class Episode:
    """One warning as the controller wrote it, on our monotonic clock."""

    number: int
    set_at: float
    withdrawn_at: float = float("inf")


@dataclass
class Storm:
    """What happened: the episodes of each pod, and when a mirror was caught up."""

    base: float
    episodes: dict[str, list[Episode]] = field(default_factory=dict)
    up: list[tuple[float, float]] = field(default_factory=list)
    kills: int = 0

    def instant(self, number: int, half: int = 0) -> str:
        return contract.format_instant(datetime.fromtimestamp(self.base + (2 * number + half) * INSTANTS, UTC))

    def number(self, instant: datetime) -> int:
        return int(instant.timestamp() - self.base + 1) // (2 * INSTANTS)

    def seen(self, start: float, end: float) -> bool:
        """Whether a caught-up mirror saw a span of time for long enough."""
        return any(min(end, until) - max(start, since) >= SEEN_SECONDS for since, until in self.up)


async def controller(
    made: Cluster, storm: Storm, name: str, stop: asyncio.Event, dice: random.Random, hold: float
) -> None:
    """Warn, sometimes move the warning, withdraw after ``hold`` seconds at most, and again."""
    mine = storm.episodes.setdefault(name, [])
    at_key = KEYS.key(contract.WARNING_AT)
    while not stop.is_set():
        number = len(mine)
        await made.annotate(name, {at_key: storm.instant(number), KEYS.key(contract.WARNING_RISK): "0.33"})
        mine.append(Episode(number, time.monotonic()))
        await asyncio.sleep(dice.uniform(0.5, hold))
        if dice.random() < 0.3:
            await made.annotate(name, {at_key: storm.instant(number, 1)})
            await asyncio.sleep(dice.uniform(0.5, 4))
        await made.annotate(name, NO_WARNING)
        mine[-1].withdrawn_at = time.monotonic()
        await asyncio.sleep(dice.uniform(0.5, 5))


async def killer(start: MirrorStart, storm: Storm, kills: int, seconds: float, dice: random.Random) -> MirrorProcess:
    """Kill and start the mirror, until enough is enough; then leave one running and caught up."""
    enough = time.monotonic() + seconds
    for number in range(kills + 1):
        if time.monotonic() > enough and number < kills:
            # A busy machine starts few mirrors in the time that a test may take.
            print(f"storm: {number} kills, not {kills}, in {seconds:.0f} s")
            number = kills
        mirror = start(number)
        # One in four dies while it starts, the others some time after they have caught up.
        early = time.monotonic() + dice.uniform(0.2, 3.0) if number < kills and dice.random() < 0.25 else float("inf")
        ready = False
        while time.monotonic() < early and not ready:
            ready = (await asyncio.to_thread(mirror.get, "/readyz"))[0] == 200
            await asyncio.sleep(0.05)
        since = time.monotonic()
        if number == kills:
            storm.up.append((since, float("inf")))
            return mirror
        if ready:
            await asyncio.sleep(dice.uniform(0.2, 6.0))
            # What it has decided and not yet stored, on a busy machine, it had not caught up with.
            storm.up.append((since, time.monotonic() - mirror.metric("forewarn_mirror_behind_seconds")))
        mirror.kill()
        storm.kills += 1
    raise AssertionError("the last mirror did not become ready")


class MirrorStart:
    """Starts one mirror after the other."""

    def __init__(self, server: ApiServer, directory: Path, flags: tuple[str, ...]) -> None:
        self._server, self._directory, self._flags = server, directory, flags

    def __call__(self, number: int) -> MirrorProcess:
        return MirrorProcess(self._server.kubeconfig, self._directory / f"mirror.{number}.log", *self._flags)


async def play(
    server: ApiServer,
    namespace: str,
    directory: Path,
    pods: int,
    kills: int,
    flags: tuple[str, ...] = (),
    hold: float = 5.0,
    seconds: float = STORM_SECONDS,
) -> Storm:
    seed = int(os.environ.get("FOREWARN_SEED", "0")) or random.randrange(1, 10**6)
    print(f"storm: FOREWARN_SEED={seed}")
    dice = random.Random(seed)
    storm = Storm(base=float(int(time.time()) + 100_000))
    names = [f"train-{number}" for number in range(pods)]
    async with cluster(server.kubeconfig, namespace) as made:
        await create_many(made, names)
        stop = asyncio.Event()
        controllers = [
            asyncio.create_task(controller(made, storm, name, stop, random.Random(dice.random()), hold))
            for name in names
        ]
        mirror = await killer(MirrorStart(server, directory, ("-n", namespace, *flags)), storm, kills, seconds, dice)
        try:
            await asyncio.sleep(3)
            stop.set()
            await asyncio.gather(*controllers)
            await eventually(lambda: not still_open(made, names), f"every episode ended: {still_open(made, names)}")
        finally:
            mirror.kill()
        check(made, storm, names)
        return storm


def still_open(made: Cluster, names: list[str]) -> list[str]:
    """Return the pods whose last Event leaves an episode open: none is warned any more."""
    last = {each.name: each for each in made.stored}
    return [name for name in names if name in last and last[name].story is not None and last[name].story.open]  # type: ignore[union-attr]


def check(made: Cluster, storm: Storm, names: list[str]) -> None:
    required = told = 0
    for name in names:
        openings = Counter[int]()
        was_open = False
        for event in made.of(name):
            assert event.story is not None
            is_opening = event.reason in OPENING_NAMES
            if is_opening:
                assert not was_open, f"{name}: an opening inside an open episode"
                assert event.story.warning_at is not None
                openings[storm.number(event.story.warning_at)] += 1
            if event.reason == "TerminationWarningWithdrawn":
                assert was_open, f"{name}: a withdrawal without an opening"
            was_open = event.story.open
        assert not was_open
        told += openings.total()
        assert max(openings.values(), default=0) <= 1, f"{name}: told twice: {openings}"
        for before, episode in zip([None, *storm.episodes[name]], storm.episodes[name], strict=False):
            merged = (
                before is not None
                and not storm.seen(before.withdrawn_at, episode.set_at)
                and not storm.seen(before.withdrawn_at, before.withdrawn_at + SEEN_SECONDS)
            )
            if storm.seen(episode.set_at, episode.withdrawn_at) and not merged:
                required += 1
                assert openings[episode.number] == 1, f"{name}: episode {episode.number} was never told"
    total = sum(map(len, storm.episodes.values()))
    print(f"storm: {total} episodes, {required} had to be told, {told} were, {len(storm.up)} mirrors were caught up")
    assert required > 0


def test_every_episode_is_told_once_however_often_the_mirror_dies(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    asyncio.run(play(api_server, namespace, tmp_path, pods=40, kills=BOUNDED_KILLS))


def test_expired_events_cause_no_doubles(tmp_path: Path) -> None:
    with ApiServer.start(tmp_path / "server", event_ttl="20s") as server:
        namespace = server.create_namespace("storm")
        asyncio.run(play(server, namespace, tmp_path, pods=20, kills=8, flags=("--restate-every=4",), hold=25.0))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_three_hundred_sessions_and_a_hundred_kills(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    assert asyncio.run(play(api_server, namespace, tmp_path, pods=300, kills=100, seconds=2700.0)).kills == 100
