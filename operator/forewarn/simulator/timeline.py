"""From what happened to the rows of the timeline: each deed of the controller and what came of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.session import read_annotations
from forewarn.simulator.checks import signal_patterns
from forewarn.simulator.world import (
    DELETES,
    Blind,
    Did,
    Ended,
    EventSeen,
    FileRead,
    Happening,
    Logged,
    Placed,
    PodState,
    Runs,
    Stopping,
    Vanished,
    Waits,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from datetime import datetime

    from forewarn.contract import Keys
    from forewarn.simulator import model


@dataclass(frozen=True)
class Came:
    """What came of a deed, and how many seconds after it."""

    what: str
    after: float
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One deed, and what came of it: when the files in the container showed it, the Events, the signal, the exit."""

    at: datetime
    pod: str
    did: str
    verb: str = ""
    wrote: tuple[tuple[str, str], ...] = ()
    readable: Came | None = None
    events: tuple[Came, ...] = ()
    signal: Came | None = None
    exits: tuple[Came, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Fold:
    """The rows so far, and the state that tells what belongs to which."""

    keys: Keys
    signals: dict[str, re.Pattern[str]]
    rows: list[Row] = field(default_factory=list)
    pods: dict[str, PodState] = field(default_factory=dict)

    def last(self, pod: str) -> int | None:
        """Return the index of the pod's latest row."""
        return next((i for i in reversed(range(len(self.rows))) if self.rows[i].pod == pod), None)

    def ensure(self, happening: Happening, did: str) -> int:
        """Return the index of the pod's latest row, making one where there is none."""
        index = self.last(happening.pod)
        return self.new(happening, did) if index is None else index

    def new(self, happening: Happening, did: str, verb: str = "", wrote: tuple[tuple[str, str], ...] = ()) -> int:
        self.rows.append(Row(happening.at, happening.pod, did, verb, wrote))
        return len(self.rows) - 1

    def after(self, index: int, at: datetime) -> float:
        return max((at - self.rows[index].at).total_seconds(), 0.0)


def rows(scenario: model.Scenario, history: Iterable[Happening], keys: Keys) -> list[Row]:
    """Return the rows of a history, in the order of the deeds."""
    fold = _Fold(keys, signal_patterns(scenario))
    for happening in history:
        pod = fold.pods.setdefault(happening.pod, PodState())
        happening.apply(pod)
        match happening:
            case Did():
                wrote = tuple((key, value or "") for key, value in happening.values)
                fold.new(happening, words(happening, fold.keys), happening.verb, wrote)
            case Placed(name=name):
                fold.ensure(happening, f"found pod {name}")
            case Stopping() if not any(row.pod == happening.pod and row.verb in DELETES for row in fold.rows):
                fold.new(happening, "somebody else deleted the pod", DELETES[0])
            case FileRead():
                _file(fold, pod, happening)
            case EventSeen(source=contract.REPORTING_CONTROLLER):
                _event(fold, happening)
            case Logged():
                _signal(fold, pod, happening)
            case Ended(container=container) if pod.placed and container in pod.placed.containers:
                _exit(fold, pod, happening)
            case Blind(what=what, why=why):
                index = fold.ensure(happening, "")
                fold.rows[index] = replace(fold.rows[index], notes=(*fold.rows[index].notes, f"{what}: {why}"))
            case _:
                pass
    return fold.rows


_WORDS = {
    "create": "created the pod",
    "warn": "warned:{stop}{risk}",
    "change": "changed the warning:{stop}{risk}",
    "withdraw": "withdrew the warning",
    "leave-stale": "nothing: the time is past, the warning stands",
    "guarantee": "guaranteed{until}",
    "queue": "warned inside the guarantee{until}:{stop}{risk}",
    "idle": "idle check: {status}{cull}",
    "preempt": "preempted: deleted the pod",
    "evict": "reservation cancelled: deleted the pod",
}


def words(did: Did, keys: Keys) -> str:
    """Say what the controller did, in a few words and UTC."""
    if did.says:
        return did.says
    facts = read_annotations({key: value for key, value in did.values if value}, keys)
    until = f" until {facts.guaranteed_until:%H:%M:%S}" if facts.guaranteed_until else ""
    stop = f" may stop from {facts.warning_at:%H:%M:%S}" if facts.warning_at else ""
    risk = f" ({facts.band.value})" if facts.warning_risk is not None else ""
    cull = f", cull at {facts.idle_cull_deadline:%H:%M:%S}" if facts.idle_cull_deadline else ""
    if template := _WORDS.get(did.verb):
        return template.format(until=until, stop=stop, risk=risk, status=facts.idle_status, cull=cull)
    return "; ".join(f"{key} = {value}" if value else f"removed {key}" for key, value in did.values) or did.verb


def _file(fold: _Fold, pod: PodState, happening: FileRead) -> None:
    """Fill in when the latest deed could be read: in each container that mounts the files, all that it wrote."""
    index = next(
        (i for i in reversed(range(len(fold.rows))) if fold.rows[i].pod == happening.pod and fold.rows[i].wrote), None
    )
    if index is None or fold.rows[index].readable or pod.placed is None:
        return
    names = {fold.keys.key(name): name for name in contract.PODINFO_NAMES}
    wanted = {names[key]: value for key, value in fold.rows[index].wrote if key in names}
    shown = all(
        pod.files[container].get(name) == value for container in pod.placed.mounting for name, value in wanted.items()
    )
    if shown and wanted:
        came = Came("readable", fold.after(index, happening.at))
        fold.rows[index] = replace(fold.rows[index], readable=came)


def _event(fold: _Fold, happening: EventSeen) -> None:
    index = fold.ensure(happening, "")
    came = Came(happening.reason, fold.after(index, happening.at), happening.note)
    fold.rows[index] = replace(fold.rows[index], events=(*fold.rows[index].events, came))


def _signal(fold: _Fold, pod: PodState, happening: Logged) -> None:
    pattern = fold.signals[happening.pod]
    if pod.deleted_at is None or happening.at < pod.deleted_at or not pattern.search(happening.text):
        return
    index = _deletion(fold, happening.pod)
    if index is not None and fold.rows[index].signal is None:
        fold.rows[index] = replace(fold.rows[index], signal=Came("SIGTERM", fold.after(index, happening.at)))


def _exit(fold: _Fold, pod: PodState, happening: Ended) -> None:
    index = _deletion(fold, happening.pod)
    if index is None:
        index = fold.new(replace(happening, at=happening.when), "nothing: the container ended by itself")
    several = pod.placed is not None and len(pod.placed.containers) > 1
    what = f"{happening.container} {happening.code}" if several else f"{happening.code}"
    came = Came(what, fold.after(index, happening.when))
    fold.rows[index] = replace(fold.rows[index], exits=(*fold.rows[index].exits, came))


def _deletion(fold: _Fold, pod: str) -> int | None:
    return next((i for i, row in enumerate(fold.rows) if row.pod == pod and row.verb in DELETES), None)


def told(happening: Happening) -> str:
    """Say in one line what was seen; nothing for what is of no interest while a scenario plays."""
    match happening:
        case Placed(name=name, grace=grace):
            return f"pod {name} is there, grace {grace} s"
        case Runs(container=container):
            return f"container {container} runs"
        case Ended(container=container, code=code):
            return f"container {container} ended with {code}"
        case Waits(why=why):
            return f"waits: {why}"
        case EventSeen(reason=reason, source=contract.REPORTING_CONTROLLER, note=note):
            return f"Event {reason}: {note}"
        case FileRead(container=container, name=name, text=text):
            return f"{container}: {name} is {text!r}" if text else f"{container}: {name} is empty"
        case Blind(what=what, why=why):
            return f"{what}: {why}"
        case Vanished():
            return "the pod is gone"
    return ""
