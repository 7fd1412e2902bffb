"""The mirror at work: observations and deadlines in, decisions of the machine, Events out."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from forewarn.mirror import events
from forewarn.mirror.api import FAILURES, Api, Refusal
from forewarn.mirror.episodes import RECENT, ended_unobserved, step
from forewarn.mirror.events import Identity, Recovered, Target
from forewarn.mirror.lookups import Lookups
from forewarn.mirror.notices import Notice, Restatement, Rules
from forewarn.mirror.pods import Seen, observe
from forewarn.mirror.records import Record, Records
from forewarn.mirror.schedule import Schedule
from forewarn.mirror.story import NOTHING
from forewarn.mirror.watch import NAMESPACES_PATH
from forewarn.mirror.writer import Owed, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from forewarn.mirror.clock import Clock
    from forewarn.mirror.metrics import Metrics
    from forewarn.mirror.watch import Scope

log = logging.getLogger(__name__)


CAUSE_WAITS = (0.0, 1.0, 2.0)
"""Seconds before each look for such an Event: three seconds in all."""
GONE_SECONDS = 60.0
"""A standby remembers a pod that is gone for this long: if the leader dies, its last word is the standby's to say."""
QUIET_SECONDS = 0.25
"""A first list is complete when none of its pods came for so long after its last page."""
AGAIN_WAITS = (0.5, 1.0, 2.0, 5.0)
BATCH = 200


class Engine:
    """Follows sessions. Everything runs in one event loop, so nothing needs a lock."""

    def __init__(
        self, api: Api, clock: Clock, scope: Scope, rules: Rules, metrics: Metrics, rate: float, instance: str
    ) -> None:
        self.clock, self._scope, self._rules, self._metrics = clock, scope, rules, metrics
        self._look = Lookups(api, scope)
        self.writer = Writer(api, self, rate, instance)
        self.schedule = Schedule(clock, self._due)
        self.records = Records()
        self._recovered: dict[Identity, Recovered] = {}
        self._followed: set[str] = set(scope.namespaces)
        self._loading: set[str] = set()
        self._generations: dict[str, int] = dict.fromkeys(scope.streams, 0)
        self._unlisted = set(scope.streams)
        self._arrived = 0.0
        """By the loop's clock, when the newest pod of a list came, or its end."""
        self.listed_once = asyncio.Event()
        self.leading = False
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what the watch tells (Listener)

    def namespace(self, name: str, follows: bool) -> None:
        """Take a namespace that gained or lost the sessions label."""
        if not follows:
            if name in self._followed:
                log.info("namespace is no session namespace any more", extra={"fields": {"namespace": name}})
            self._followed.discard(name)
            for record in self.records:
                if record.seen.namespace == name:
                    self._forget(record.uid)
        elif name not in self._followed:
            log.info("namespace is a session namespace", extra={"fields": {"namespace": name}})
            self._followed.add(name)
            if any(self._generations.values()):
                # The list that is under way, or was made, may hold its pods no more.
                self._loading.add(name)
                self._spawn(self._load, name)

    def pod(self, kind: str | None, seen: Seen) -> None:
        """Take a pod as observed."""
        if kind is None:
            self._arrived = asyncio.get_running_loop().time()
        if seen.namespace not in self._followed:
            return
        record = self.records.get(seen.uid)
        if kind == "DELETED":
            if record is None and self.records.is_buried(seen.uid):
                return
            if seen.deleted is None:
                # Removed without grace, or only out of the selector's sight.
                record = record or self._add(seen)
                record.see(seen)
                self._spawn(self._verify, record.target, record.seen)
                return
            self._bury(record or self._add(seen), seen)
            return
        if record is None:
            if self.records.is_buried(seen.uid):
                return
            record = self._add(seen)
        elif seen.version < record.seen.version:
            return
        record.generation = self._generations.get(self._stream(seen.namespace), 0)
        record.see(seen)
        self._touch(record)

    def listing(self, stream: str) -> None:
        """Take that a stream is listed anew: what the list does not hold has gone unseen."""
        if stream in self._generations:
            self._generations[stream] += 1

    async def find_namespaces(self) -> None:
        """List the session namespaces: those that came or went while no watch told so are taken now."""
        before = frozenset(self._followed)
        found = await self._look.namespaces()
        # What changed while it was asked for, the watch has told.
        for name in before - found:
            self.namespace(name, False)
        for name in found - before:
            self.namespace(name, True)

    def listed(self, stream: str) -> None:
        """Take that a stream's list is complete."""
        if stream == NAMESPACES_PATH:
            self._spawn(self.find_namespaces)
        elif stream in self._unlisted:
            self._unlisted.discard(stream)
            if not self._unlisted:
                self._arrived = asyncio.get_running_loop().time()
                self._complete()
        else:
            self._spawn(self._sweep, stream, self._generations[stream])

    def _complete(self) -> None:
        """Wait for the last pods of the first lists, which are still on their way from kopf's workers."""
        loop = asyncio.get_running_loop()
        wait = self._arrived + QUIET_SECONDS - loop.time()
        if wait > 0:
            loop.call_later(wait, self._complete)
        else:
            self.listed_once.set()

    def _stream(self, namespace: str) -> str:
        return "/api/v1/pods" if self._scope.everywhere else f"/api/v1/namespaces/{namespace}/pods"

    # ---- records

    def _add(self, seen: Seen) -> Record:
        found = self._recovered.pop((seen.namespace, seen.uid), None)
        return self.records.add(seen, found.story if found else NOTHING)

    def _forget(self, uid: str) -> None:
        self.schedule.set(uid, None)
        self.records.forget(uid)

    def _bury(self, record: Record, seen: Seen, *, unseen: bool = False) -> None:
        """Take that a pod's object is gone."""
        self.records.bury(seen.uid)
        record.see(seen)
        record.unseen = unseen
        record.gone_at = self.clock.now()
        self._touch(record)
        if not self.leading:
            asyncio.get_running_loop().call_later(GONE_SECONDS, self._outlive, seen.uid)

    def _outlive(self, uid: str) -> None:
        if not self.leading:
            self._forget(uid)

    def _touch(self, record: Record) -> None:
        """Look at a record whose pod may have changed, and at those whose own look depends on it."""
        if self.records.get(record.uid) is not record:
            # Forgotten while something was looked up for it.
            return
        others = self.records.mark(record)
        for each in (record, *others):
            self._decide(each)

    def _due(self, uid: str) -> None:
        record = self.records.get(uid)
        if record is not None:
            self._decide(record)

    def _decide(self, record: Record) -> None:
        if not self.leading or record.settling or record.seen.namespace in self._loading:
            return
        uid = record.seen.uid
        try:
            result = step(record.story, record.seen, self.records.around(record), self.clock.now(), self._rules)
        except Exception:
            # One session that breaks the machine must not keep the others from being told.
            log.exception("a session cannot be decided upon", extra=_fields(record.target))
            return
        record.story = result.story
        for said in result.tell:
            self._owe(said, record.target, record.seen.job)
        self.schedule.set(uid, result.deadline)
        if record.leaving and not record.story.over and not record.asking:
            record.asking = True
            self._spawn(self._ask_cause, record)
        if record.gone_at is not None and record.story.over and not result.tell:
            self._forget(uid)

    def _owe(self, said: Notice | Restatement, pod: Target, owner: tuple[str, str] | None) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(said, Restatement):
            self.writer.put(Owed(said, pod, None, now))
            return
        log.info(said.note, extra=_fields(pod, reason=said.reason.name, episode=said.story.episode))
        record = self.records.get(pod.uid)
        self._metrics.told(said, record.seen if record else None, self._rules.keys)
        job = Target("Job", pod.namespace, *owner) if owner is not None else None
        self.writer.put(Owed(said, pod, job, now))
        if job is not None and said.on_job:
            self.writer.put(Owed(said, pod, job, now, copy=True))

    # ---- what became of the writes (Author)

    @property
    def namespaces(self) -> int:
        """How many namespaces are followed."""
        return len(self._followed)

    def stored(self, owed: Owed, fresh: bool) -> None:
        """Take that an Event is stored."""
        record = self.records.get(owed.pod.uid)
        if record is not None and not owed.copy:
            record.stored = owed.said.story
        if isinstance(owed.said, Restatement):
            self._metrics.restatements.inc()
        elif not owed.copy:
            if fresh:
                self._metrics.events.labels(owed.said.reason.name).inc()
            else:
                self._metrics.conflicts.inc()
        self._metrics.lag.observe(asyncio.get_running_loop().time() - owed.since)
        self._retire(owed)

    def dropped(self, owed: Owed, why: str) -> None:
        """Take that an Event is given up; without a reason its namespace ends and nobody could read it."""
        if why:
            self._metrics.dropped.inc()
            log.error(
                "an Event is given up: %s",
                why,
                extra=_fields(owed.pod),
            )
        self._retire(owed)

    def refused(self, owed: Owed, error: Refusal) -> None:
        """Take that a namespace refuses Events for now."""
        self._metrics.refusals.labels(owed.pod.namespace, str(error.code)).inc()

    def conflicted(self, owed: Owed) -> None:
        """Take that somebody else told the pod's next news: read it, and decide again."""
        self._metrics.conflicts.inc()
        record = self.records.get(owed.pod.uid)
        if record is not None and not record.settling:
            record.settling = True
            self._spawn(self._settle, record, owed.said.story.entry)

    def _retire(self, owed: Owed) -> None:
        record = self.records.get(owed.pod.uid)
        if record is not None and record.gone_at is not None and owed.said.story.over and not owed.copy:
            self._forget(owed.pod.uid)

    # ---- reading back

    def count(self) -> Counter[str]:
        """Count the sessions by the state of their warning."""
        return Counter(record.story.state if self.leading else "standby" for record in self.records)

    async def lead(self) -> None:
        """Recover every story from the stored Events and begin to write. Needs the first lists to be complete."""
        stored = await self._look.stored(sorted(self._scope.namespaces))
        found = events.recover(stored)
        for notice, pod, job in events.untold_jobs(stored, self.clock.now() - RECENT):
            if pod.namespace in self._followed:
                self.writer.put(Owed(notice, pod, job, asyncio.get_running_loop().time(), copy=True))
        for record in self.records:
            mine = found.pop(record.target.identity, None)
            record.recover(mine.story if mine else NOTHING)
            record.settling = False
        self._recovered = {which: one for which, one in found.items() if one.pod.namespace in self._followed}
        self.leading = True
        self.writer.begin()
        self._metrics.leading.set(1)
        log.info("this mirror writes Events: %d sessions, %d stories", len(self.records), len(found))
        for number, record in enumerate(self.records):
            self._touch(record)
            if number % BATCH == 0:
                await asyncio.sleep(0)
        for one in list(self._recovered.values()):
            if one.story.open:
                self._spawn(self._verify, one.pod)

    def follow(self) -> None:
        """Stop writing; what is owed is the new leader's to tell."""
        self.leading = False
        self.writer.stop()
        self._metrics.leading.set(0)

    async def _load(self, namespace: str) -> None:
        """Read the pods and stories of a namespace that became a session namespace."""
        pods = await self._look.pods(f"/api/v1/namespaces/{namespace}/pods")
        found = events.recover(await self._look.stored([namespace]))
        for record in self.records:
            if record.target.identity in found:
                record.recover(found.pop(record.target.identity).story)
        self._recovered |= found
        for pod in pods:
            self.pod(None, observe(pod, self._rules.keys))
        # Only with all of them is it known who is warned beside whom.
        self._loading.discard(namespace)
        for record in self.records:
            if record.seen.namespace == namespace:
                self._touch(record)
        for one in found.values():
            if one.story.open and one.pod.identity in self._recovered:
                self._spawn(self._verify, one.pod)

    async def _settle(self, record: Record, taken: int) -> None:
        """After a conflict over a number: take the story from what is stored and the pod as it is now."""
        pod = record.target
        mine = events.recover(await self._look.events_of(pod)).get(pod.identity)
        now_there = await self._look.pod(pod)
        story = mine.story if mine is not None and mine.story.entry >= record.stored.entry else record.stored
        # An Event that has the number and tells no story of ours must not be run into again.
        record.recover(story if story.entry >= taken else replace(story, entry=taken))
        record.settling = False
        if now_there is not None:
            record.see(observe(now_there, self._rules.keys))
        elif record.gone_at is None:
            record.gone_at, record.unseen = self.clock.now(), True
        self._touch(record)

    async def _verify(self, pod: Target, seen: Seen | None = None) -> None:
        """Tell the end of a pod that no list holds, if it is really gone; ``seen`` is what was seen of it last."""
        there = await self._look.pod(pod)
        record = self.records.get(pod.uid)
        if there is not None:
            # One that was seen meanwhile is in sight.
            if record is not None and record.seen is seen:
                # It is there, but out of the selector's sight: no session until its labels are changed back.
                self._recovered[pod.identity] = Recovered(pod, record.stored, record.seen.job)
                self._forget(pod.uid)
            return
        if record is not None:
            if record.gone_at is None:
                self._bury(record, record.seen)
            return
        one = self._recovered.pop(pod.identity, None)
        if one is not None and self.leading:
            for said in ended_unobserved(one.story, self.clock.now()).tell:
                self._owe(said, one.pod, one.job)

    async def _sweep(self, stream: str, generation: int) -> None:
        """After a list that was made anew: look for those who are not in it."""
        # The list's pods may still be on their way from kopf's workers; who is slow is only looked at in vain.
        await asyncio.sleep(2.0)
        missing = [
            record
            for record in self.records
            if record.generation < generation
            and record.gone_at is None
            and self._stream(record.seen.namespace) == stream
        ]
        for record in missing:
            if await self._look.pod(record.target) is None and record.gone_at is None:
                self._bury(record, record.seen, unseen=True)

    async def _ask_cause(self, record: Record) -> None:
        """Wait a few seconds for the reservation controller's own Event on a session that stops."""
        cause = ""
        late = record.seen.deleted is not None and self.clock.until(record.seen.deleted) < -30
        for wait in CAUSE_WAITS[:1] if late else CAUSE_WAITS:
            await asyncio.sleep(wait)
            try:
                cause = await self._look.cause(record.target)
            except (Refusal, *FAILURES) as error:
                log.warning("the controller's Events cannot be read: %s", error)
            if cause:
                break
        record.cause = cause
        self._touch(record)

    # ---- tasks

    def _spawn(self, look: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Look at the cluster in the background, again and again while the API server is away."""
        task = asyncio.get_running_loop().create_task(self._persist(look, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _persist(self, look: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        for wait in itertools.chain(AGAIN_WAITS, itertools.repeat(AGAIN_WAITS[-1])):
            try:
                await look(*arguments)
                return
            except (Refusal, *FAILURES) as error:
                log.warning(
                    "a look at the cluster failed, next try in %.1f s: %s: %s", wait, type(error).__name__, error
                )
            except Exception:
                log.exception("a look at the cluster failed")
                return
            await asyncio.sleep(wait)


def _fields(pod: Target, **more: Any) -> dict[str, Any]:
    """Return the ``extra`` of a log line about a pod."""
    return {"fields": {"namespace": pod.namespace, "pod": pod.name, **more}}
