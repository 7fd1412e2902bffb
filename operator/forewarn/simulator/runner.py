"""Plays a scenario against a cluster: does what the controller decides, watches, and cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Pod

from forewarn import contract, kube
from forewarn.contract import UTC, Keys
from forewarn.errors import UserError
from forewarn.simulator import controller, model
from forewarn.simulator.checks import interest
from forewarn.simulator.collect import collect
from forewarn.simulator.preflight import FIELD_MANAGER, Pods, preflight
from forewarn.simulator.watch import Watch
from forewarn.simulator.world import Blind, Did, Happening, World

if TYPE_CHECKING:
    from lightkube import AsyncClient

RUN_LIMIT = 300.0
"""Seconds that a ``run`` step may take."""
CLEANUP_LIMIT = 30.0
"""Seconds to wait for a pod that was made to go away."""


@dataclass
class Played:
    """A scenario as it was played: how far it came, and all that happened. Grows while it is played."""

    scenario: model.Scenario
    namespace: str
    state: controller.State
    world: World
    left: list[str] = field(default_factory=list)
    """What the cleanup left behind, in words."""
    kept: dict[str, str] = field(default_factory=dict)
    """Of a scenario that failed: what the cluster showed before the cleanup, by file name."""

    @property
    def passed(self) -> bool:
        """Whether every step was done."""
        return all(progress.stage is controller.Stage.DONE for progress in self.state.steps)


Tell = Callable[[Played, Happening | None], None]
"""Is called with what has just happened, or ``None`` where only a step came further."""


class Runner:
    """Plays one scenario. ``keep`` leaves the pods that it creates; nothing else of it is ever left."""

    def __init__(
        self,
        scenario: model.Scenario,
        client: AsyncClient,
        namespace: str,
        *,
        environ: dict[str, str],
        keys: Keys | None = None,
        keep: bool = False,
        tell: Tell = lambda _played, _happening: None,
    ) -> None:
        self._scenario, self._client, self._namespace = scenario, client, namespace
        self._keys, self._keep, self._tell = keys or Keys(), keep, tell
        self._environ = environ
        self._pods = Pods(client, namespace)
        self._offset = timedelta()
        self._over = False
        self._news = asyncio.Event()
        self._names: dict[str, str] = {}
        self._created: dict[str, str] = {}
        wanted = interest(scenario)
        self._watch = Watch(client, namespace, self._now, self._happened, wanted)
        self.played = Played(scenario, namespace, controller.begin(scenario, self._now()), World(wanted))

    def _now(self) -> datetime:
        """Return the time on the API server's clock: instants that we write are compared with it."""
        return datetime.now(UTC) + self._offset

    def _happened(self, happening: Happening) -> None:
        if not self._over and self.played.world.apply(happening):
            self._news.set()
            self._tell(self.played, happening)

    async def play(self) -> Played:
        """Check what can be checked before anything is touched, play, clean up; returns what happened.

        Raises ``UserError`` where the cluster, the user's rights or a manifest stand in the way.
        """
        self._offset = await preflight(self._scenario, self._client, self._namespace, self._now)
        self.played.state = controller.begin(self._scenario, self._now())
        try:
            await self._watch.start(any(isinstance(s.condition, model.EventCount) for s in self._scenario.steps))
            await self._loop()
            if not self.played.passed:
                self.played.kept = await collect(self.played, self._client, self._keys)
        finally:
            # The cleanup is no part of the story.
            self._over = True
            await self._clean_up()
            await self._watch.stop()
        return self.played

    async def _loop(self) -> None:
        played = self.played
        while not played.state.finished:
            if self._watch.failure is not None:
                raise self._watch.failure
            self._news.clear()
            decision = controller.decide(self._scenario, played.state, played.world, self._now(), self._keys)
            moved, played.state = decision.state != played.state, decision.state
            if moved:
                self._passed_over(played)
                self._tell(played, None)
            if decision.act is not None:
                step = self._scenario.steps[decision.act]
                failure = await self._act(step)
                played.state = controller.acted(played.state, decision.act, step, self._now(), failure)
                continue
            if not played.state.finished:
                await self._sleep(decision.wake)

    def _passed_over(self, played: Played) -> None:
        """Tell of each warning that was just left stale: it is the controller's doing that it did nothing."""
        told = {h for h in played.world.history if isinstance(h, Did) and h.verb == "leave-stale"}
        done = [
            Did(progress.ended, step.pod, step.verb, says=step.says)
            for step, progress in zip(self._scenario.steps, played.state.steps, strict=True)
            if step.verb == "leave-stale" and progress.stage is controller.Stage.DONE and progress.ended
        ]
        for happening in done:
            if happening not in told:
                self._happened(happening)

    async def _sleep(self, wake: datetime | None) -> None:
        """Wait for news, for the failure of the watch, or until ``wake``."""
        waits = [asyncio.create_task(self._news.wait()), asyncio.create_task(self._watch.failed.wait())]
        timeout = None if wake is None else max((wake - self._now()).total_seconds(), 0.0)
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    # ── the actions ──────────────────────────────────────────────────────────────────────────────────────────────────
    async def _act(self, step: model.Step) -> str | None:
        """Do a step's action; returns why it failed. A cluster that is out of reach is a ``UserError``."""
        try:
            match step.action:
                case model.Create():
                    await self._create(step)
                case model.Write(values=values):
                    await self._write(step, values)
                case model.Delete(reason=reason, note=note):
                    await self._delete(step, reason, note)
                case model.Run(command=command):
                    return await self._run(step, command)
        except kube.FAILURES as error:
            failure = kube.explain(error, f"{step.verb} pod {self._names.get(step.pod, step.pod)}")
            if not isinstance(error, ApiError):
                raise failure from error
            self._happened(Blind(self._now(), step.pod, "FAILED", str(failure)))
            return str(failure)
        return None

    async def _create(self, step: model.Step) -> None:
        source = self._scenario.pod(step.pod)
        if isinstance(source, model.ExistingPod):
            pod = await self._client.get(Pod, source.real_name, namespace=self._namespace)
        else:
            self._happened(Did(self._now(), step.pod, step.verb, says=step.says))
            # Noted before the answer: a Ctrl-C in between must not leave a pod behind.
            if source.real_name:
                self._created[step.pod] = source.real_name
            try:
                pod = await self._pods.create(source)
            except ApiError:
                self._created.pop(step.pod, None)
                raise
            self._created[step.pod] = (pod.metadata.name if pod.metadata else None) or ""
        self._names[step.pod] = (pod.metadata.name if pod.metadata else None) or step.pod
        self._watch.follow(pod, step.pod)

    async def _write(self, step: model.Step, values: tuple[tuple[str, model.Value], ...]) -> None:
        now = self._now()
        start = self.played.state.start or now
        resolved = {key: model.resolve(value, now, start) for key, value in values}
        # What was written counts from before the request: an Event may come faster than the answer.
        self._happened(Did(now, step.pod, step.verb, tuple(resolved.items()), step.says))
        await self._pods.annotate(self._names[step.pod], resolved)

    async def _delete(self, step: model.Step, reason: str, note: str) -> None:
        name = self._names[step.pod]
        await self._controllers_event(step.pod, name, reason, note)
        self._happened(Did(self._now(), step.pod, step.verb, says=step.says))
        await self._client.delete(Pod, name, namespace=self._namespace)

    async def _controllers_event(self, pod: str, name: str, reason: str, note: str) -> None:
        """Say why, as the real controller does; whoever may not write Events plays without."""
        placed = self.played.world.pods[pod].placed
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": self._namespace,
            "name": name,
            "uid": placed.uid if placed else "",
        }
        event = kube.AnyEvent(
            metadata={"generateName": f"{name}-"},
            regarding=reference,
            reason=reason,
            note=note,
            type="Normal",
            action=reason,
            eventTime=contract.format_instant(self._now(), "microseconds"),
            reportingController=contract.RESERVATION_CONTROLLER,
            reportingInstance=FIELD_MANAGER,
        )
        create: Any = self._client.create
        try:
            await create(event, namespace=self._namespace)
        except ApiError as error:
            if error.status.code != 403:
                raise

    async def _run(self, step: model.Step, command: tuple[str, ...]) -> str | None:
        self._happened(Did(self._now(), step.pod, step.verb, says=step.says or " ".join(command)))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=-1,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environ,
            )
        except OSError as error:
            return f"cannot run {command[0]}: {error.strerror}"
        try:
            output, _ = await asyncio.wait_for(process.communicate(), RUN_LIMIT)
        except TimeoutError:
            return f"{command[0]} still ran after {RUN_LIMIT:g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
            return f"{command[0]} exited {process.returncode}: {last[0][:200]}"
        return None

    # ── after ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _clean_up(self) -> None:
        """Do the scenario's own cleanup, then remove the pods that it created; what cannot be is put in words."""
        for step in self._scenario.cleanup:
            if step.pod not in self._names and not isinstance(step.action, model.Run):
                continue
            try:
                failure = await self._act(step)
            except UserError as error:
                failure = str(error)
            if failure:
                self.played.left.append(f"{step.place}: {failure}")
        if self._keep:
            return
        gone = {name for name, pod in self.played.world.pods.items() if pod.gone}
        await asyncio.gather(*(self._remove(name) for pod, name in self._created.items() if pod not in gone))

    async def _remove(self, name: str) -> None:
        try:
            # A short grace also shortens one that is running already.
            await self._client.delete(Pod, name, namespace=self._namespace, grace_period=1)
            async with asyncio.timeout(CLEANUP_LIMIT):
                while True:
                    await self._client.get(Pod, name, namespace=self._namespace)
                    await asyncio.sleep(0.3)
        except TimeoutError:
            self.played.left.append(f"pod {name} is still going away")
        except kube.FAILURES as error:
            if not (isinstance(error, ApiError) and error.status.code == 404):
                by_hand = f"kubectl -n {self._namespace} delete pod {name}"
                self.played.left.append(f"{kube.explain(error, f'delete pod {name}')}; {by_hand}")
