"""The mirror's parts put together: API, clock, watch, engine, lease, health; and their end on a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import uuid
from typing import TYPE_CHECKING, Any

from forewarn.mirror import health
from forewarn.mirror.api import FAILURES, Api, Refusal, new_session
from forewarn.mirror.clock import Clock
from forewarn.mirror.engine import Engine
from forewarn.mirror.lease import Lease
from forewarn.mirror.metrics import Metrics
from forewarn.mirror.pods import observe
from forewarn.mirror.watch import RENEW_SECONDS, Watch

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import SingleConfig

    from forewarn.mirror.notices import Rules
    from forewarn.mirror.watch import Scope

log = logging.getLogger(__name__)

WATCH_LOST_SECONDS = RENEW_SECONDS + 90
WRITES_LOST_SECONDS = 15
LAST_WORDS_SECONDS = 1.0
"""What is owed at SIGTERM gets this long; a standby waits for the Lease meanwhile."""


async def run(config: SingleConfig, scope: Scope, rules: Rules, values: dict[str, Any]) -> int:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = Clock()
    instance = f"{os.environ.get('HOSTNAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    async with new_session(config) as session:
        mirror = Mirror(config, scope, rules, values, clock, Api(config, session, clock.answered), instance)
        return await mirror.run(stop)


class Mirror:
    """One running mirror."""

    def __init__(
        self,
        config: SingleConfig,
        scope: Scope,
        rules: Rules,
        values: dict[str, Any],
        clock: Clock,
        api: Api,
        instance: str,
    ) -> None:
        self._clock, self._values = clock, values
        self._metrics = Metrics()
        self._engine = Engine(api, clock, scope, rules, self._metrics, values["event_rate"], instance)
        self._watch = Watch(config, scope, clock, self._engine, lambda pod: observe(pod, rules.keys))
        self._lease: Lease | None = None
        if values["lease"]:
            namespace, name = values["lease"]
            self._lease = Lease(api, namespace, name, instance, self._gained, self._lost)
        self._leading: asyncio.Task[None] | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Run until ``stop`` is set."""
        server, port = await health.serve(
            self._values["health_port"], self._metrics, self._refresh, self._dead, self._unready
        )
        log.info("mirror starts", extra={"fields": {"health_port": port}})
        tasks = [asyncio.create_task(self._engine.writer.run(), name="writer")]
        try:
            await self._persist(self._engine.find_namespaces, stop)
            self._watch.start()
            tasks.append(asyncio.create_task(self._elect(), name="election"))
            waiting = asyncio.create_task(stop.wait(), name="stop")
            await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            await self._end()
        finally:
            for task in tasks:
                task.cancel()
            self._watch.stop()
            await server.cleanup()
        return 0

    async def _elect(self) -> None:
        """Wait for the first lists, so that a standby is warm before it competes; then lead, or hold the lease."""
        await self._engine.listed_once.wait()
        log.info("the first lists are complete: %d sessions", len(self._engine.records))
        if self._lease is None:
            self._gained()
            await asyncio.Event().wait()
        else:
            await self._lease.run()

    def _gained(self) -> None:
        self._leading = asyncio.create_task(self._persist(self._engine.lead), name="recovery")

    def _lost(self) -> None:
        if self._leading is not None:
            self._leading.cancel()
        self._engine.follow()

    async def _persist(self, work: Any, stop: asyncio.Event | None = None) -> None:
        """Do ``work`` again until the API server lets it be done."""
        while stop is None or not stop.is_set():
            try:
                await work()
                return
            except (Refusal, *FAILURES) as error:
                log.warning("the cluster cannot be read, next try in 1 s: %s: %s", type(error).__name__, error)
            except Exception:
                # A mirror that holds the Lease and does nothing would keep another from doing it.
                log.exception("the cluster cannot be read, next try in 1 s")
            await asyncio.sleep(1.0)

    async def _end(self) -> None:
        """Say what is owed, then let a standby take over."""
        log.info("mirror stops")
        self._watch.stop()
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                if self._engine.leading:
                    await self._engine.writer.idle.wait()
        except TimeoutError:
            log.warning("%d Events are left for the next mirror", self._engine.writer.owed)
        self._engine.follow()
        if self._lease is not None:
            await self._lease.release()

    # ---- what the probes and the metrics ask

    def _dead(self) -> str:
        return "" if self._watch.alive or not self._watch.started else "the watch is dead"

    def _unready(self) -> str:
        if not self._engine.listed_once.is_set():
            return "the first list is under way"
        if (self._lease is None or self._lease.held) and not self._engine.leading:
            return "the stored Events are being read"
        if self._watch.age > WATCH_LOST_SECONDS:
            return f"no answer on the watch for {self._watch.age:.0f} s"
        if self._engine.writer.failing_for() > WRITES_LOST_SECONDS:
            return "no Event can be written"
        return ""

    def _refresh(self) -> None:
        metrics, engine = self._metrics, self._engine
        metrics.sessions.clear()
        for state, count in engine.count().items():
            metrics.sessions.labels(state).set(count)
        metrics.owed.set(engine.writer.owed)
        metrics.behind.set(engine.writer.behind())
        metrics.refusing.set(len(engine.writer.refusing))
        metrics.watch_age.set(self._watch.age)
        metrics.watch_restarts.set(self._watch.restarts)
        metrics.clock_offset.set(self._clock.offset)
