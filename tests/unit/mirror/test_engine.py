"""What the engine makes of answers that come while the world goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from forewarn.mirror import events
from forewarn.mirror.api import Api
from forewarn.mirror.clock import Clock
from forewarn.mirror.engine import Engine
from forewarn.mirror.lookups import Lookups
from forewarn.mirror.metrics import Metrics
from forewarn.mirror.watch import Scope
from tests.unit.mirror.sessions import RULES, Told, at, seen, warned


class Cluster:
    """An API server that knows some namespaces, one Event, and what happens while it answers."""

    def __init__(self, namespaces: set[str], stored: list[dict[str, Any]], meanwhile: Callable[[], None]) -> None:
        self._namespaces, self._stored, self.meanwhile = namespaces, stored, meanwhile

    async def namespaces(self) -> set[str]:
        self.meanwhile()
        return set(self._namespaces)

    async def pods(self, _: str) -> list[dict[str, Any]]:
        self.meanwhile()
        return []

    async def stored(self, _: Any) -> list[dict[str, Any]]:
        return self._stored


def engine(cluster: Cluster) -> Engine:
    scope = Scope((), "forewarn/sessions=enabled", "")
    made = Engine(cast("Api", None), Clock(), scope, RULES, Metrics(), 300, "test")
    made._look = cast("Lookups", cluster)
    return made


async def test_a_namespace_that_changes_while_all_are_listed_stays_as_the_watch_has_it() -> None:
    def meanwhile() -> None:
        one.namespace("new", True)
        one.namespace("old", False)

    one = engine(Cluster({"old", "missed", "kept"}, [], lambda: None))
    for name in ("old", "kept", "lost"):
        one.namespace(name, True)
    cast("Any", one._look).meanwhile = meanwhile
    await one.find_namespaces()
    assert one._followed == {"kept", "new", "missed"}


async def test_a_pod_that_goes_while_its_namespace_is_loaded_has_its_story() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    target = events.Target("Pod", "team", "train", "u1")
    stored = [events.of_pod(notice, target, "test") for notice in told.notices]
    going = seen(warned(900), deleted=at(60))
    one = engine(Cluster({"team"}, stored, lambda: one.pod("DELETED", going)))
    one.namespace("team", True)
    one._loading.add("team")
    await one._load("team")
    record = one.records.get("u1")
    assert record is not None
    assert record.story.open


async def test_the_newest_word_of_the_controller_is_the_cause() -> None:
    def said(reason: str, made: str) -> dict[str, Any]:
        return {
            "reportingController": "gpu-reservation-controller",
            "reason": reason,
            "metadata": {"creationTimestamp": made},
        }

    class Stored:
        async def request(self, *_: Any) -> dict[str, Any]:
            earlier = said("ReservationReassigned", "2026-11-29T18:00:00Z")
            return {
                "items": [earlier, said("Preempted", "2026-11-29T19:00:00Z"), said("Other", "2026-11-29T20:00:00Z")]
            }

    look = Lookups(cast("Api", Stored()), Scope((), "", ""))
    assert await look.cause(events.Target("Pod", "team", "train", "u1")) == "Preempted"
