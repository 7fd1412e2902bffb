"""kopf's watch streams in a thread of their own: every pod as it is seen, and how each stream fares.

kopf ends on errors that it takes for fatal (an API server that answers 403 or 500 while it starts); it is then run
again. Nothing but ``on.event`` is used of it, so that nothing is ever written onto a pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

import aiohttp
import kopf
import uvloop
from aiohttp import hdrs

from forewarn.mirror.api import new_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace

    from lightkube.config.kubeconfig import SingleConfig

    from forewarn.mirror.clock import Clock
    from forewarn.mirror.pods import Seen

log = logging.getLogger(__name__)

RENEW_SECONDS = 20
"""The API server ends a watch after this time and kopf takes it up where it stopped: proof that the stream lives."""
SILENT_SECONDS = 30
"""A watch without a byte for this time is cut."""
DEAD_SECONDS = 180
"""A stream that was not even attempted for this time is dead, and with it the mirror."""
BACKOFFS = (0.2, 0.5, 1.0, 2.0, 2.0)
AGAIN_SECONDS = 1.0
CHUNK = 250

PODS = "pods"
NAMESPACES = "namespaces"
NAMESPACES_PATH = "/api/v1/namespaces"


@dataclass(frozen=True)
class Scope:
    """What is watched: all pods and the labelled namespaces, or the pods of ``namespaces``; selectors are the API's."""

    namespaces: tuple[str, ...]
    sessions_label: str
    pod_selector: str

    @property
    def everywhere(self) -> bool:
        """Whether session namespaces are followed by their label."""
        return not self.namespaces

    @property
    def streams(self) -> tuple[str, ...]:
        """The URL paths of the pod streams."""
        if self.everywhere:
            return ("/api/v1/pods",)
        return tuple(f"/api/v1/namespaces/{namespace}/pods" for namespace in self.namespaces)


class Listener(Protocol):
    """Who is told, in the loop that started the watch."""

    def pod(self, kind: str | None, seen: Seen) -> None:
        """Take a pod; ``kind`` is the watch event's type, ``None`` for one of a first list."""

    def namespace(self, name: str, follows: bool) -> None:
        """Take a namespace that gained or lost the sessions label."""

    def listing(self, stream: str) -> None:
        """Take that a stream is listed anew."""

    def listed(self, stream: str) -> None:
        """Take that a stream's list is complete and its watch begins."""


@dataclass
class Pulse:
    """The last signs of life of a stream, by the monotonic clock: an attempt, and an answer that was no refusal."""

    tried: float
    answered: float
    listing: bool = False


class Watch:
    """The watch streams of a scope. ``start`` and ``stop`` it; ``pulses`` tell how the streams fare."""

    def __init__(
        self, config: SingleConfig, scope: Scope, clock: Clock, listener: Listener, read: Callable[[Any], Seen]
    ) -> None:
        self._config, self._scope, self._clock, self._listener, self._read = config, scope, clock, listener, read
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._kopf_loop: asyncio.AbstractEventLoop | None = None
        self._ends: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        now = time.monotonic()
        streams = (*scope.streams, NAMESPACES_PATH) if scope.everywhere else scope.streams
        self.pulses = {stream: Pulse(now, now) for stream in streams}
        self.restarts = 0

    def start(self) -> None:
        """Start the thread."""
        for pulse in self.pulses.values():
            pulse.tried = pulse.answered = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it is a daemon, so nobody needs to wait."""
        self._stopping.set()
        if self._kopf_loop is not None and self._ends is not None:
            # Between two runs the loop is closed, and there is nothing to stop.
            with contextlib.suppress(RuntimeError):
                self._kopf_loop.call_soon_threadsafe(self._ends.set)

    @property
    def started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    @property
    def alive(self) -> bool:
        """Whether the thread runs and every stream is at least attempted: a dead stream is not, for minutes."""
        return self._thread.is_alive() and time.monotonic() - min(p.tried for p in self.pulses.values()) < DEAD_SECONDS

    @property
    def age(self) -> float:
        """Seconds since the slowest stream last had an answer; up to ``RENEW_SECONDS`` is as good as new."""
        return time.monotonic() - min(pulse.answered for pulse in self.pulses.values())

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._stopping.is_set():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(self._watch())
            # Whatever ends kopf, the streams must come back.
            except Exception as error:
                if not self._stopping.is_set():
                    log.error("the watch ended and is started again: %s: %s", type(error).__name__, error)
            self.restarts += 1
            self._stopping.wait(AGAIN_SECONDS)

    async def _watch(self) -> None:
        # kopf waits for a threading.Event in a thread that would then outlive its own failure.
        self._ends = asyncio.Event()
        self._kopf_loop = asyncio.get_running_loop()
        await kopf.operator(
            registry=self._registry(),
            settings=self._settings(),
            clusterwide=self._scope.everywhere,
            namespaces=self._scope.namespaces,
            standalone=True,
            stop_flag=self._ends,
        )

    def _settings(self) -> kopf.OperatorSettings:
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.persistence.diffbase_storage = _Nothing()
        settings.process.ultimate_exiting_timeout = None
        settings.networking.error_backoffs = BACKOFFS
        settings.networking.request_timeout = 60
        settings.networking.connect_timeout = 10
        settings.queueing.idle_timeout = 1.0
        settings.queueing.exit_timeout = 0.5
        settings.watching.chunk_size = CHUNK
        settings.watching.server_timeout = RENEW_SECONDS
        settings.watching.inactivity_timeout = SILENT_SECONDS
        if self._scope.pod_selector:
            settings.watching.label_selectors[_is_pods] = self._scope.pod_selector
        settings.watching.label_selectors[_is_namespaces] = self._scope.sessions_label
        return settings

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            session = new_session(self._config, self._trace())
            return kopf.AiohttpSession(server=self._config.cluster.server, aiohttp_session=session)

        @kopf.on.event("", "v1", PODS, registry=registry)
        async def pod(event: kopf.RawEvent, **_: Any) -> None:
            self._tell(self._listener.pod, event["type"], self._read(event["object"]))

        if self._scope.everywhere:

            @kopf.on.event("", "v1", NAMESPACES, registry=registry)
            async def namespace(event: kopf.RawEvent, **_: Any) -> None:
                # The label is the API server's filter: a namespace that loses it arrives as deleted.
                name = str(event["object"]["metadata"]["name"])
                self._tell(self._listener.namespace, name, event["type"] != "DELETED")

        return registry

    def _trace(self) -> aiohttp.TraceConfig:
        trace = aiohttp.TraceConfig()
        # An API server behind another one (Rancher's, a gateway) is below a path of its own.
        base = urlsplit(self._config.cluster.server).path.rstrip("/")

        async def start(_: Any, context: SimpleNamespace, request: aiohttp.TraceRequestStartParams) -> None:
            context.asked = time.monotonic()
            stream = request.url.path.removeprefix(base)
            pulse = self.pulses.get(stream)
            if pulse is None:
                return
            pulse.tried = context.asked
            watching = request.url.query.get("watch") == "true"
            if watching and pulse.listing:
                pulse.listing = False
                self._tell(self._listener.listed, stream)
            elif not watching and "continue" not in request.url.query:
                pulse.listing = True
                self._tell(self._listener.listing, stream)

        async def end(_: Any, context: SimpleNamespace, request: aiohttp.TraceRequestEndParams) -> None:
            answered = time.monotonic()
            date = request.response.headers.get(hdrs.DATE)
            self._loop.call_soon_threadsafe(self._clock.answered, date, context.asked, answered)
            pulse = self.pulses.get(request.url.path.removeprefix(base))
            if pulse is not None and request.response.status < 400:
                pulse.answered = answered

        trace.on_request_start.append(start)
        trace.on_request_end.append(end)
        return trace


def _is_pods(resource: kopf.Resource) -> bool:
    return resource.group == "" and resource.plural == PODS


def _is_namespaces(resource: kopf.Resource) -> bool:
    return resource.group == "" and resource.plural == NAMESPACES


class _Nothing(kopf.DiffBaseStorage):
    """No memory of what a pod was: kopf would otherwise copy and compare every pod at every event."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:  # noqa: ARG002  (kopf's signature)
        return cast("kopf.BodyEssence", {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002  (kopf's signature)
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:  # noqa: ARG002  (kopf's signature)
        return None
