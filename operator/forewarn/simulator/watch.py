"""Watches the cluster while a scenario plays: pods, Events, logs, and the files in the containers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Pod

from forewarn import contract, kube
from forewarn.errors import UserError
from forewarn.simulator import seen
from forewarn.simulator.world import Blind, Ended, FileRead, Happening, Logged, Placed, Runs, Vanished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable

    from lightkube import AsyncClient

PATIENCE = timedelta(seconds=20)
"""How long the cluster may be out of reach before the scenario is given up."""

AGAIN = 0.5
"""Seconds between two attempts to take a broken stream up again."""

LOG_TURN = 0.01
"""Seconds that a log may take at a time, and that it then leaves to the other streams."""

READER_LOST = 3.0
"""Seconds after which a reader that died is told of."""


class Watch:
    """Follows pods by their uid, from when ``follow`` names them. ``tell`` gets every happening, in this loop.

    ``failure`` is set, and ``tell`` not called again, when the cluster stays out of reach or forbids a watch.
    """

    def __init__(
        self,
        client: AsyncClient,
        namespace: str,
        clock: Callable[[], datetime],
        tell: Callable[[Happening], None],
        interest: Callable[[str, str], bool],
    ) -> None:
        self._client, self._namespace, self._clock, self._tell = client, namespace, clock, tell
        self._interest = interest
        self._names: dict[str, str] = {}
        self._early: dict[str, list[dict[str, Any]]] = {}
        self._others: dict[str, tuple[str, Pod]] = {}
        self._placed: dict[str, Placed] = {}
        self._ended: set[tuple[str, str]] = set()
        self._gone: set[str] = set()
        self._streams: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()

    async def start(self, events: bool) -> None:
        """List pods and Events once, which shows at once what is forbidden (``UserError``), then watch them.

        Without ``events`` a scenario needs none: that they cannot be seen is told, and no more.
        """
        with kube.explained(f"watch pods in namespace {self._namespace}"):
            version = await self._list(Pod, self._pod)
        self._spawn(self._follow(Pod, version, self._pod, "pods"))
        try:
            with kube.explained(f"watch Events in namespace {self._namespace}"):
                version = await self._list(kube.AnyEvent, self._event)
            self._spawn(self._follow(kube.AnyEvent, version, self._event, "Events"))
        except UserError as error:
            if events:
                raise
            self._tell(Blind(self._clock(), "", "events", str(error)))

    def follow(self, pod: Pod, name: str) -> None:
        """Follow this pod as ``name`` from now on."""
        at = self._clock()
        placed = seen.placed(pod, at, name)
        self._names[placed.uid] = name
        self._placed[name] = placed
        self._tell(placed)
        # The watch may have been faster than the answer to our own request.
        self._pod(*self._others.pop(placed.uid, ("MODIFIED", pod)))
        for event in self._early.pop(placed.uid, ()):
            self._event("ADDED", event)

    async def stop(self) -> None:
        """End every stream."""
        tasks = [*self._tasks, *self._streams.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended_task)
        self._tasks.append(task)

    def _ended_task(self, task: asyncio.Task[None]) -> None:
        """A watch that ends by a mistake of this program's must not leave the scenario waiting for ever."""
        if not task.cancelled() and (error := task.exception()):
            self.failure = error
            self.failed.set()

    # ── pods and Events ──────────────────────────────────────────────────────────────────────────────────────────────
    async def _list(self, kind: Any, take: Callable[[str, Any], None]) -> str:
        listing = self._client.list(kind, namespace=self._namespace)
        async for item in listing:
            take("ADDED", item)
        return str(listing.resourceVersion)

    async def _follow(self, kind: Any, version: str | None, take: Callable[[str, Any], None], what: str) -> None:
        """Watch for good; takes a broken watch up again by a new list, and gives up after ``PATIENCE``."""
        lost: datetime | None = None
        while True:
            try:
                if version is None:
                    version = await self._list(kind, take)
                    lost = None
                stream = self._client.watch(kind, namespace=self._namespace, resource_version=version)
                async for change, item in stream:
                    lost = None
                    take(change, item)
            except kube.FAILURES as error:
                lost = lost or self._clock()
                forbidden = isinstance(error, ApiError) and error.status.code in (401, 403)
                if forbidden or self._clock() - lost >= PATIENCE:
                    self.failure = kube.explain(error, f"watch {what} in namespace {self._namespace}")
                    self.failed.set()
                    return
            version = None
            await asyncio.sleep(AGAIN)

    def _pod(self, change: str, pod: Pod) -> None:
        uid = (pod.metadata.uid if pod.metadata else None) or ""
        if (name := self._names.get(uid)) is None:
            self._others[uid] = (change, pod)
            return
        at = self._clock()
        for happening in seen.pod_happenings(pod, at, name):
            self._tell(happening)
            self._open_streams(happening)
        if change == "DELETED":
            self._gone.add(name)
            self._tell(Vanished(at, name))

    def _event(self, change: str, event: dict[str, Any]) -> None:
        uid = (event.get("regarding") or {}).get("uid") or ""
        if change == "DELETED" or not uid:
            return
        if (name := self._names.get(uid)) is None:
            self._early.setdefault(uid, []).append(event)
            return
        self._tell(seen.event_seen(event, self._clock(), name))

    # ── inside the pod ───────────────────────────────────────────────────────────────────────────────────────────────
    def _open_streams(self, happening: Happening) -> None:
        """Follow a container's log from its start to its end, and its files while it runs."""
        if isinstance(happening, Ended):
            self._ended.add((happening.pod, happening.container))
        elif not isinstance(happening, Runs):
            return
        placed = self._placed[happening.pod]
        self._stream("log", happening.pod, happening.container, self._log)
        if happening.container in placed.mounting and isinstance(happening, Runs):
            self._stream("files", happening.pod, happening.container, self._files)

    def _stream(
        self, what: str, pod: str, container: str, work: Callable[[str, str], Coroutine[Any, Any, None]]
    ) -> None:
        if (what, pod, container) not in self._streams:
            task = asyncio.create_task(work(pod, container))
            task.add_done_callback(self._ended_task)
            self._streams[what, pod, container] = task

    async def _log(self, pod: str, container: str) -> None:
        since: datetime | None = None
        while True:
            ended = (pod, container) in self._ended or pod in self._gone
            try:
                age = None if since is None else max(int((self._clock() - since).total_seconds()), 1)
                rested = time.monotonic()
                async for line in self._log_lines(pod, container, age):
                    if time.monotonic() - rested > LOG_TURN:
                        # Other streams need many turns of the loop where this one needs one.
                        await asyncio.sleep(LOG_TURN)
                        rested = time.monotonic()
                    since = self._clock()
                    text = line.partition(" ")[2]
                    # The stamp of a line takes longer to read than all the rest, and is wanted of few.
                    wanted = self._interest(pod, text)
                    self._tell(
                        seen.log_line(line, since, pod, container) if wanted else Logged(since, pod, container, text)
                    )
            except kube.FAILURES as error:
                if ended and since is not None:
                    return  # its last lines are told already
                # A container that has just begun may have no log for a moment.
                told = kube.explain(error, f"follow the log of container {container}")
                if ended or (isinstance(error, ApiError) and error.status.code in (401, 403, 404)):
                    self._tell(Blind(self._clock(), pod, f"log of {container}", str(told)))
                    return
            if ended:
                return
            await asyncio.sleep(AGAIN)

    async def _log_lines(self, pod: str, container: str, age: int | None) -> AsyncIterator[str]:
        name = self._placed[pod].name
        log: Any = self._client.log
        asked = {"namespace": self._namespace, "container": container, "since": age, "timestamps": True}
        try:
            async for line in log(name, follow=True, newlines=False, **asked):
                yield line
        except RuntimeError:
            # lightkube 1.0 cannot read the answer that refuses to follow; the same without following says why.
            async for line in log(name, follow=False, newlines=False, **asked):
                yield line

    async def _files(self, pod: str, container: str) -> None:
        command = ["sh", "-c", seen.READER, "sh", contract.MOUNT_PATH]
        while (pod, container) not in self._ended and pod not in self._gone:
            swap: list[FileRead] = []
            sink = _Lines(functools.partial(self._line, pod=pod, container=container, swap=swap))
            why = ""
            try:
                answer = await self._client.exec(
                    self._placed[pod].name,
                    namespace=self._namespace,
                    container=container,
                    command=command,
                    stdout=sink,  # type: ignore[arg-type]  # a writer is all that it needs of a BinaryIO
                    stderr=True,
                    timeout=seen.READER_SECONDS * 3,
                )
                if answer.exit_code:
                    why = f"the reader ended with {answer.exit_code}: {str(answer.stderr or '').strip()[:200]}"
            except kube.FAILURES as error:
                why = str(kube.explain(error, f"run a reader in container {container}"))
            if why:
                # A reader dies with its container, which we hear of a moment later.
                await asyncio.sleep(READER_LOST)
                if (pod, container) not in self._ended and pod not in self._gone:
                    self._tell(Blind(self._clock(), pod, f"files of {container}", why))

    def _line(self, line: bytes, pod: str, container: str, swap: list[FileRead]) -> None:
        """Take a line of a reader; all files of one swap are told at once, as the kubelet shows them."""
        if found := seen.read_line(line, self._clock(), pod, container):
            swap.append(found)
        elif line == seen.SWAPPED:
            for file in swap:
                self._tell(file)
            swap.clear()


class _Lines:
    """A writer that hands on whole lines."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take, self._rest = take, b""

    def write(self, data: bytes) -> int:
        """Take a piece of the stream."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._all(lines)
        return len(data)

    def _all(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with contextlib.suppress(UnicodeError):
                self._take(line)
