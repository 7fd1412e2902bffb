"""What a scenario is: pods, steps, and what each step does and waits for. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from forewarn import contract

if TYPE_CHECKING:
    from forewarn.simulator.document import Place

NOTHING = timedelta()


# ── values that are written ──────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Relative:
    """An instant that is known when it is written: so long after ``now``, or after the scenario's ``start``."""

    base: str
    offset: timedelta


@dataclass(frozen=True)
class MessageFor:
    """The sentence that the controller writes beside a warning: it names the instant in local time."""

    instant: Relative | datetime


Value = str | Relative | datetime | MessageFor | None
"""What an annotation becomes; ``None`` removes it."""


def instant(value: Relative | datetime, now: datetime, start: datetime) -> datetime:
    """Return the instant that a value means when written at ``now``; whole seconds, as the contract writes them."""
    if isinstance(value, datetime):
        return value.replace(microsecond=0)
    return ((now if value.base == "now" else start) + value.offset).replace(microsecond=0)


def resolve(value: Value, now: datetime, start: datetime) -> str | None:
    """Return the text that is written at ``now``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, MessageFor):
        local = instant(value.instant, now, start).astimezone()
        return f"This session may be stopped from {local:%H:%M:%S} ({local:%Z}) on: a booking needs its GPU."
    return contract.format_instant(instant(value, now, start))


# ── what a step does ─────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Create:
    """Create the pod (or find it, where the scenario says that it exists)."""


@dataclass(frozen=True)
class Write:
    """Write annotations, given by their keys with prefix, in one patch."""

    values: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Delete:
    """Delete the pod in the ordinary way, with its own grace, after the Event in which the controller says why."""

    reason: str
    note: str


@dataclass(frozen=True)
class Run:
    """Run a program on this machine, with ``KUBECONFIG`` set; it must exit 0."""

    command: tuple[str, ...]


Action = Create | Write | Delete | Run


# ── what a step waits for ────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Started:
    """The pod's containers run (or have run)."""


@dataclass(frozen=True)
class Gone:
    """The pod is no longer there."""


@dataclass(frozen=True)
class WarningPast:
    """The warning that the scenario wrote last is past by so long."""

    by: timedelta


@dataclass(frozen=True)
class FileHolds:
    """A podinfo file holds something, in one container or in each that mounts it.

    ``wanted`` is a text (empty where the annotation is absent), or ``None`` for what the scenario wrote last.
    """

    name: str
    key: str
    wanted: str | None = None
    contains: str | None = None
    container: str | None = None


@dataclass(frozen=True)
class EventCount:
    """The pod has so many Events of a reason (``most`` is ``None`` for any number above ``least``)."""

    reason: str
    least: int
    most: int | None
    note: str | None = None
    type: str | None = None
    source: str = contract.REPORTING_CONTROLLER


@dataclass(frozen=True)
class Signalled:
    """A container said in its log that SIGTERM came, at most so long after the delete."""

    log: str
    after: timedelta
    container: str | None = None


@dataclass(frozen=True)
class Exited:
    """A container ended with a code."""

    code: int
    container: str | None = None


@dataclass(frozen=True)
class Grace:
    """The grace that the pod was given, and how much of it was used (delete to the last container's end)."""

    seconds: int | None = None
    least: timedelta | None = None
    most: timedelta | None = None


@dataclass(frozen=True)
class LogHas:
    """A container's log has a line that holds a text."""

    text: str
    container: str | None = None


Condition = Started | Gone | WarningPast | FileHolds | EventCount | Signalled | Exited | Grace | LogHas


# ── the scenario ─────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class At:
    """When a step begins: ``offset`` from the scenario's start, or (``after``) from the end of the step before it."""

    offset: timedelta = NOTHING
    after: bool = True


@dataclass(frozen=True)
class Step:
    """One step: an action, a condition, or an action and then a condition.

    ``within`` is how long the condition may take to come true, ``hold`` how long it must then stay true.
    """

    place: Place
    verb: str
    pod: str
    says: str | None = None
    action: Action | None = None
    condition: Condition | None = None
    at: At = At()
    within: timedelta = NOTHING
    hold: timedelta = NOTHING
    prelude: bool = False
    expectation: bool = False


@dataclass(frozen=True)
class NewPod:
    """A pod that the scenario creates."""

    name: str
    place: Place
    manifest: dict[str, Any] = field(hash=False)

    @property
    def real_name(self) -> str:
        """Its name in the cluster; empty where the API server makes it."""
        return str(self.manifest["metadata"].get("name") or "")


@dataclass(frozen=True)
class ExistingPod:
    """A pod that is in the cluster already, as ``real_name``."""

    name: str
    place: Place
    real_name: str


PodSource = NewPod | ExistingPod


@dataclass(frozen=True)
class Scenario:
    """A checked scenario; the steps of the prelude create the pods that no step creates."""

    name: str
    about: str
    pods: tuple[PodSource, ...]
    steps: tuple[Step, ...]
    cleanup: tuple[Step, ...] = ()

    def pod(self, name: str) -> PodSource:
        """Return the pod of that name in the scenario."""
        return next(pod for pod in self.pods if pod.name == name)
