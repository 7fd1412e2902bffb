"""When a watch is dead, and when a deadline is due."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

from lightkube.config.kubeconfig import PROXY_CONF

from forewarn.mirror.clock import Clock
from forewarn.mirror.schedule import Schedule
from forewarn.mirror.watch import DEAD_SECONDS, Scope, Watch


def make(scope: Scope) -> Watch:
    watch = Watch(PROXY_CONF, scope, Clock(), None, lambda pod: pod)  # type: ignore[arg-type]
    watch._thread = threading.current_thread()
    return watch


async def test_a_stream_that_is_not_even_attempted_is_dead() -> None:
    watch = make(Scope(("one", "two"), "a=b", ""))
    assert watch.alive
    watch.pulses["/api/v1/namespaces/two/pods"].tried = time.monotonic() - DEAD_SECONDS - 1
    assert not watch.alive


async def test_a_server_that_does_not_answer_makes_an_old_watch_but_no_dead_one() -> None:
    watch = make(Scope((), "a=b", ""))
    watch.pulses["/api/v1/pods"].answered = time.monotonic() - 600
    assert watch.age >= 600
    assert watch.alive


async def test_a_dead_thread_is_a_dead_watch() -> None:
    watch = make(Scope((), "a=b", ""))
    watch._thread = threading.Thread()
    assert not watch.alive


async def test_deadlines_come_in_order_and_the_last_one_set_counts() -> None:
    clock, due, done = Clock(), list[str](), asyncio.Event()

    def take(key: str) -> None:
        due.append(key)
        if key == "last":
            done.set()

    schedule = Schedule(clock, take)
    now = clock.now()
    for key, seconds in (("last", 0.09), ("moved", 0.01), ("first", 0.02), ("taken back", 0.03), ("moved", 0.05)):
        schedule.set(key, now + timedelta(seconds=seconds))
    schedule.set("taken back", None)
    assert len(schedule) == 3
    await asyncio.wait_for(done.wait(), 10)
    assert due == ["first", "moved", "last"]
    assert len(schedule) == 0


async def test_a_deadline_that_is_past_is_due_at_once() -> None:
    done = asyncio.Event()
    schedule = Schedule(Clock(), lambda _: done.set())
    schedule.set("late", Clock().now() - timedelta(hours=1))
    await asyncio.wait_for(done.wait(), 10)
