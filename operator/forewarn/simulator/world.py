"""What has happened so far, as plain values: each observation, and the state that they add up to."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_LINES = 200
"""The last lines that are kept of a pod's log, whatever they say."""
SECOND = timedelta(seconds=1)
DELETES = ("preempt", "evict")
"""The verbs that delete the pod."""


# ── what happens ─────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Happening:
    """Something that was done or seen, on this machine's clock; ``pod`` is the scenario's name of the pod."""

    at: datetime
    pod: str

    def apply(self, pod: PodState) -> bool:
        """Take this into the state of its pod; returns whether it says anything new."""
        raise NotImplementedError


@dataclass(frozen=True)
class Did(Happening):
    """The controller did a step: wrote ``values`` (by key), deleted the pod, or another thing that ``verb`` names."""

    verb: str
    values: tuple[tuple[str, str | None], ...] = ()
    says: str | None = None

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        pod.written |= {key: value or "" for key, value in self.values}
        if self.verb in DELETES:
            pod.deleted_at = pod.deleted_at or self.at
        return True


@dataclass(frozen=True)
class Placed(Happening):
    """The pod exists: its name in the cluster and what its spec says."""

    name: str
    uid: str
    grace: int
    containers: tuple[str, ...]
    mounting: tuple[str, ...]

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        if pod.placed and pod.placed.uid == self.uid:
            return False
        pod.placed = self
        return True


@dataclass(frozen=True)
class Runs(Happening):
    """A container runs."""

    container: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        if self.container in pod.running or self.container in pod.ended:
            return False
        pod.running.add(self.container)
        pod.waits = ""
        return True


@dataclass(frozen=True)
class Ended(Happening):
    """A container ended; ``finished`` is the kubelet's own time of it, in whole seconds."""

    container: str
    code: int
    reason: str = ""
    finished: datetime | None = None

    @property
    def when(self) -> datetime:
        """The end as closely as it is known: the kubelet's second where it is plausible, else when we heard of it."""
        if self.finished is None or not timedelta() <= self.at - self.finished < timedelta(minutes=1):
            return self.at
        return min(self.at, self.finished + SECOND)

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        if self.container in pod.ended:
            return False
        pod.ended[self.container] = self
        pod.running.discard(self.container)
        return True


@dataclass(frozen=True)
class Waits(Happening):
    """The pod does not start yet; ``why`` is the kubelet's or the scheduler's word for it."""

    why: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news, pod.waits = self.why != pod.waits, self.why
        return news


@dataclass(frozen=True)
class Stopping(Happening):
    """The pod is Terminating, with this grace in seconds."""

    grace: int

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news = not pod.stopping
        pod.stopping = True
        pod.deleted_at = pod.deleted_at or self.at
        return news


@dataclass(frozen=True)
class Vanished(Happening):
    """The pod is gone."""

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news, pod.gone = not pod.gone, True
        return news


@dataclass(frozen=True)
class FileRead(Happening):
    """A podinfo file was seen with this content in a container."""

    container: str
    name: str
    text: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news = pod.files[self.container].get(self.name) != self.text
        pod.files[self.container][self.name] = self.text
        return news


@dataclass(frozen=True)
class EventSeen(Happening):
    """An Event on the pod was seen (again, if its series goes on)."""

    name: str
    reason: str
    type: str
    note: str
    source: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news = self.name not in pod.events
        pod.events[self.name] = self
        return news


@dataclass(frozen=True)
class Logged(Happening):
    """A container wrote a line."""

    container: str
    text: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        pod.log.append(self)
        pod.noted.append(self)
        return True


@dataclass(frozen=True)
class Blind(Happening):
    """Something cannot be observed (``what``: the files, a log) or done, and why."""

    what: str
    why: str

    def apply(self, pod: PodState) -> bool:
        """See ``Happening.apply``."""
        news = pod.blind.get(self.what) != self.why
        pod.blind[self.what] = self.why
        return news


# ── what it adds up to ───────────────────────────────────────────────────────────────────────────────────────────────
@dataclass
class PodState:
    """All that is known of one pod."""

    placed: Placed | None = None
    running: set[str] = field(default_factory=set)
    ended: dict[str, Ended] = field(default_factory=dict)
    waits: str = ""
    deleted_at: datetime | None = None
    stopping: bool = False
    gone: bool = False
    written: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    events: dict[str, EventSeen] = field(default_factory=dict)
    log: deque[Logged] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    noted: list[Logged] = field(default_factory=list)
    blind: dict[str, str] = field(default_factory=dict)


class World:
    """The state of every pod of a scenario; changes only by ``apply``.

    ``interest`` tells of a pod and a line of its log whether anything depends on it. Of the others only the last are
    kept, and none is news: a program may write thousands a second.
    """

    def __init__(self, interest: Callable[[str, str], bool] = lambda _pod, _text: True) -> None:
        self.pods: dict[str, PodState] = defaultdict(PodState)
        self.history: list[Happening] = []
        self._interest = interest

    def apply(self, happening: Happening) -> bool:
        """Take a happening in; returns whether it says anything new."""
        pod = self.pods[happening.pod]
        if isinstance(happening, Logged) and not self._interest(happening.pod, happening.text):
            pod.log.append(happening)
            return False
        if not happening.apply(pod):
            return False
        self.history.append(happening)
        return True
