"""The sessions in memory: what was seen of each last, what has been told, and who ends with whom."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.mirror.events import Target
from forewarn.mirror.notices import Around

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from forewarn.mirror.pods import Seen
    from forewarn.mirror.story import Story

GRAVES = 5000
"""Deleted pods remembered, so that a list that was under way does not bring one back."""

Group = tuple[str, str]
"""Namespace and ``Seen.group``."""


class Record:
    """One session."""

    __slots__ = ("asking", "cause", "generation", "gone_at", "grouped", "seen", "settling", "stored", "story", "unseen")

    def __init__(self, seen: Seen, story: Story) -> None:
        self.seen, self.story = seen, story
        self.stored = story
        """The story as the newest stored Event has it: what is decided and refused is no news yet."""
        self.grouped: Group | None = None
        """The group that it is counted in; its label may have changed since."""
        self.gone_at: datetime | None = None
        self.unseen = False
        """Whether nobody saw how it went."""
        self.cause: str | None = None
        self.asking = False
        """Whether the cause of its end is looked for."""
        self.settling = False
        """Whether its Events are being read after a conflict: nothing is decided until then."""
        self.generation = 0
        """The number of the newest list, or the watch after it, that it was seen in."""

    def see(self, seen: Seen) -> None:
        """Take a newer observation. What a session was told before its delete is what counts: its files freeze then."""
        if self.seen.deleted is not None and seen.deleted is not None:
            # The kubelet removes a pod with a second delete, whose grace is 0.
            grace = seen.grace_seconds or self.seen.grace_seconds
            seen = replace(seen, facts=self.seen.facts, grace_seconds=grace)
        self.seen = seen

    def recover(self, story: Story) -> None:
        """Take the story that the stored Events tell."""
        self.story = self.stored = story

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.seen.uid

    @property
    def target(self) -> Target:
        """The pod, as Events name it."""
        return Target("Pod", self.seen.namespace, self.seen.name, self.seen.uid)

    @property
    def leaving(self) -> bool:
        """Whether the pod is being deleted, or is gone."""
        return self.seen.deleted is not None or self.gone_at is not None

    @property
    def marked(self) -> bool:
        """Whether it carries a warning and neither ended nor is being stopped."""
        return self.seen.facts.warned and self.seen.ended is None and not self.leaving

    @property
    def group(self) -> Group | None:
        """The group of pods that end together, if it is in one."""
        return (self.seen.namespace, self.seen.group) if self.seen.group else None


class Records:
    """Every record by uid, the groups, and the graves."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._groups: dict[Group, set[str]] = {}
        self._marked: dict[Group, dict[str, Record]] = {}
        self._graves: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        """Iterate over a snapshot: a decision may end a record."""
        return iter(list(self._records.values()))

    def get(self, uid: str) -> Record | None:
        """Return a record, if there is one."""
        return self._records.get(uid)

    def add(self, seen: Seen, story: Story) -> Record:
        """Make a record."""
        record = self._records[seen.uid] = Record(seen, story)
        self._join(record)
        return record

    def forget(self, uid: str) -> None:
        """Drop a record, if there is one."""
        record = self._records.pop(uid, None)
        if record is not None:
            self._leave(record)

    def bury(self, uid: str) -> None:
        """Remember that a pod is gone for good."""
        self._graves[uid] = None
        if len(self._graves) > GRAVES:
            self._graves.popitem(last=False)

    def is_buried(self, uid: str) -> bool:
        """Whether a pod is known to be gone."""
        return uid in self._graves

    def mark(self, record: Record) -> list[Record]:
        """Note whether a record is marked; return the others of its group if a first one is, or none is any more."""
        left = []
        if record.group != record.grouped:
            left = self._leave(record)
            self._join(record)
        group = record.group
        if group is None:
            return left
        before = group in self._marked
        if record.marked:
            self._marked.setdefault(group, {})[record.uid] = record
        else:
            self._unmark(group, record.uid)
        if before == (group in self._marked):
            return left
        return left + [self._records[uid] for uid in self._groups.get(group, ()) if uid != record.uid]

    def _join(self, record: Record) -> None:
        record.grouped = record.group
        if record.grouped is not None:
            self._groups.setdefault(record.grouped, set()).add(record.uid)

    def _leave(self, record: Record) -> list[Record]:
        """Take a record out of its group; return the others if it was the last marked one."""
        group, record.grouped = record.grouped, None
        if group is None:
            return []
        before = group in self._marked
        self._unmark(group, record.uid)
        members = self._groups[group]
        members.discard(record.uid)
        if not members:
            del self._groups[group]
        return [self._records[uid] for uid in members] if before != (group in self._marked) else []

    def _unmark(self, group: Group, uid: str) -> None:
        marked = self._marked.get(group)
        if marked is not None:
            marked.pop(uid, None)
            if not marked:
                del self._marked[group]

    def around(self, record: Record) -> Around:
        """Return what is known of a record's pod from elsewhere."""
        marked = self._marked.get(record.grouped) if record.grouped is not None else None
        if not marked or record.marked:
            return Around(gone_at=record.gone_at, cause=record.cause, unseen=record.unseen)
        names = tuple(sorted(other.seen.name for other in marked.values()))
        instants = (other.seen.facts.stop_from for other in marked.values())
        earliest = min(instant for instant in instants if instant)
        return Around(names, earliest, record.gone_at, record.cause, record.unseen)
