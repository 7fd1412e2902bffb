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
from forewarn.mirror.notices import Around
from forewarn.mirror.watch import Scope
from tests.support.waiting import eventually
from tests.unit.mirror.sessions import KEYS, RULES, Told, at, seen, text, warned


class Cluster:
    """An API server that knows some namespaces, one Event, and what happens while it answers."""

    def __init__(self, namespaces: set[str], stored: list[dict[str, Any]], meanwhile: Callable[[], None]) -> None:
        self._namespaces, self._stored, self.meanwhile = namespaces, stored, meanwhile
        self.listed: list[dict[str, Any]] = []
        self.there: dict[str, Any] | None = None

    async def namespaces(self) -> set[str]:
        self.meanwhile()
        return set(self._namespaces)

    async def pods(self, _: str) -> list[dict[str, Any]]:
        self.meanwhile()
        return self.listed

    async def pod(self, _: events.Target) -> dict[str, Any] | None:
        self.meanwhile()
        return self.there

    async def stored(self, _: Any) -> list[dict[str, Any]]:
        return self._stored


def engine(cluster: Cluster) -> Engine:
    scope = Scope((), "forewarn/sessions=enabled", "")
    made = Engine(cast("Api", None), Clock(wall=at(30).timestamp), scope, RULES, Metrics(), 300, "test")
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


async def test_a_session_that_comes_into_sight_while_it_is_verified_is_kept() -> None:
    told = Told()
    told.look(0, seen(warned(900)))
    target = events.Target("Pod", "team", "train", "u1")
    late = seen(warned(900))
    cluster = Cluster({"team"}, [events.of_pod(told.notices[0], target, "test")], lambda: None)
    cluster.there = {"metadata": {"uid": "u1"}}
    one = engine(cluster)
    one.namespace("team", True)
    await one.lead()
    cluster.meanwhile = lambda: one.pod("ADDED", late)
    await one._verify(target)
    record = one.records.get("u1")
    assert record is not None
    assert record.story.open
    assert one.writer.owed == 0


async def test_a_session_whose_label_flaps_while_it_is_looked_for_is_kept() -> None:
    cluster = Cluster({"team"}, [], lambda: None)
    cluster.there = {"metadata": {"uid": "u1"}}
    one = engine(cluster)
    one.namespace("team", True)
    await one.lead()
    one.pod("ADDED", seen())
    one.pod("DELETED", seen())
    one.pod("ADDED", seen())
    await eventually(lambda: not one._tasks, "the look is over")
    assert one.records.get("u1") is not None
    one.pod("DELETED", seen())
    await eventually(lambda: not one._tasks, "the look is over")
    assert one.records.get("u1") is None


async def test_pods_that_are_loaded_one_by_one_tell_of_their_peers_once() -> None:
    around = Around(("train-1",), at(900))
    peer, marked = Told(), Told()
    peer.look(0, seen(group="job/j", uid="u0", name="train-0"), around)
    marked.look(0, seen(warned(900), group="job/j", uid="u1", name="train-1"))
    stored = [
        events.of_pod(told.notices[0], events.Target("Pod", "team", f"train-{number}", f"u{number}"), "test")
        for number, told in enumerate((peer, marked))
    ]
    cluster = Cluster({"team"}, stored, lambda: None)
    cluster.listed = [pod_of_job(f"train-{number}", f"u{number}", facts) for number, facts in enumerate(({}, WARNED))]
    one = engine(cluster)
    await one.lead()
    one.listing("/api/v1/pods")
    one.namespace("team", True)
    await one._load("team")
    assert len(one.records) == 2
    assert one.writer.owed == 0


async def test_a_namespace_that_joins_while_the_first_list_is_under_way_is_loaded() -> None:
    cluster = Cluster({"team"}, [], lambda: None)
    cluster.listed = [pod_of_job("train-0", "u0", {})]
    one = engine(cluster)
    one.listing("/api/v1/pods")
    one.namespace("team", True)
    await eventually(lambda: len(one.records) == 1, "its pod")


WARNED = {KEYS.key(name): value for name, value in warned(900).items()}


def pod_of_job(name: str, uid: str, annotations: dict[str, str]) -> dict[str, Any]:
    """Return a running pod of the Job ``j`` as the API server sends it, at the start of the tests' time."""
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "j", "controller": True}
    meta = {"name": name, "namespace": "team", "uid": uid, "annotations": annotations, "ownerReferences": [owner]}
    return {
        "metadata": {**meta, "labels": {"forewarn/inject": "disabled"}, "creationTimestamp": text(0)},
        "spec": {"nodeName": "node"},
        "status": {"startTime": text(0)},
    }


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
