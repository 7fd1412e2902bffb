"""The machine: what was told of a pod + what is seen of it now → what to tell, and when to look again. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.mirror.catalogue import BANDS, Reason, quote
from forewarn.mirror.notices import Notice, Restatement, Step
from forewarn.mirror.story import ENDED, NONE, STOPPING, Story
from forewarn.session import WarningState, warning_state_at
from forewarn.wording import distance, span, utc

if TYPE_CHECKING:
    from forewarn.mirror.notices import Around, Rules
    from forewarn.mirror.pods import Seen

MOVED = timedelta(seconds=60)
"""A warning, a guarantee or a limit that moves by less is no news; also the least time between two changes told."""

RECENT = timedelta(minutes=15)
"""What happened longer ago is old news to a mirror that sees it for the first time."""

LIMIT_NEAR = timedelta(minutes=15)
"""How long before the runtime limit it is told."""

LATE = timedelta(seconds=5)
"""A delete that is told later than this says so."""

PEERS_NAMED = 3


def step(story: Story, seen: Seen, around: Around, now: datetime, rules: Rules) -> Step:
    """Decide what to tell of ``seen`` at ``now``. Whoever repeats it with the story it returned tells nothing."""
    teller = _Teller(story, seen, around, now, rules)
    teller.decide()
    deadlines = [deadline for deadline in teller.deadlines if deadline > now]
    return Step(tuple(teller.told), teller.story, min(deadlines, default=None))


def ended_unobserved(story: Story, now: datetime) -> Step:
    """Decide what to tell of a pod that is gone and whose ``story`` is all that is left."""
    if not story.open or story.over:
        return Step((), story, None)
    ended = replace(story, entry=story.entry + 1, state=NONE, over=ENDED)
    note = Reason.SessionEnded.entry.note(how=_unobserved(story, now), warned=_warned_of(story))
    return Step((Notice(Reason.SessionEnded, note, now, ended, on_job=True),), ended, None)


class _Teller:
    """One step in the making: collects notices, the story as each leaves it, and deadlines."""

    def __init__(self, story: Story, seen: Seen, around: Around, now: datetime, rules: Rules) -> None:
        self.story, self.seen, self.around, self.now, self.rules = story, seen, around, now, rules
        self.facts = seen.facts
        self.unreadable = {unreadable.name for unreadable in seen.facts.unreadable}
        self.told: list[Notice | Restatement] = []
        self.deadlines: list[datetime] = []

    def decide(self) -> None:
        if self.story.over:
            return
        if self.seen.ended or self.seen.deleted or self.around.gone_at:
            self.end()
            return
        self.annotations()
        self.podinfo()
        self.guarantee()
        self.warning()
        self.idle()
        self.limit()
        self.peers()
        self.restate()

    def note(self, reason: Reason, values: dict[str, str], changes: dict[str, Any], on_job: bool = False) -> None:
        """Tell one Event; ``changes`` are what it changes in the story."""
        self.story = replace(self.story, entry=self.story.entry + 1, **changes)
        self.told.append(Notice(reason, reason.entry.note(**values), self.now, self.story, on_job))

    def distance(self, instant: datetime) -> str:
        return distance(instant, self.now)

    # ---- what cannot be read, and by whom

    def annotations(self) -> None:
        for name, value in ((each.name, each.value) for each in self.facts.unreadable):
            if name not in self.story.unreadable:
                values = {"key": self.rules.keys.key(name), "value": quote(value, 100)}
                told = (*self.story.unreadable, name)
                self.note(Reason.AnnotationUnreadable, values, {"unreadable": told})

    def podinfo(self) -> None:
        if self.story.podinfo or self.seen.sees_podinfo:
            return
        # After an hour the Event that says so is gone; without this limit every start would tell each old pod anew.
        if self.now - self.seen.created < RECENT or self.facts.warned:
            self.note(Reason.PodinfoMissing, {"path": contract.MOUNT_PATH}, {"podinfo": True})

    # ---- the guarantee

    def guarantee(self) -> None:
        until, known = self.facts.guaranteed_until, self.story.guarantee
        if until is None:
            return
        if known is None or until < known:
            # Moved earlier is told by what follows from it. A jitter backwards must not look like an extension after.
            if known is None or known - until >= MOVED:
                self.story = replace(self.story, guarantee=until)
        elif until - known >= MOVED:
            if until > self.now:
                self.extended(known, until)
            else:
                # Its end is the news.
                self.story = replace(self.story, guarantee=until)
        if self.now < until:
            self.deadlines.append(until)
        elif self.seen.running and self.is_new_end(until):
            if self.now - until < RECENT:
                self.note(Reason.GuaranteeEnded, {"until": utc(until)}, {"guarantee_ended": until})
            else:
                self.story = replace(self.story, guarantee_ended=until)

    def is_new_end(self, until: datetime) -> bool:
        told = self.story.guarantee_ended
        return told is None or abs(until - told) >= MOVED

    def extended(self, known: datetime, until: datetime) -> None:
        if self.withdrawn:
            self.withdraw(f": the guarantee was extended to {utc(until)}")
            self.story = replace(self.story, guarantee=until)
            return
        queued, changes = "", {"guarantee": until}
        waits = self.story.open and self.state is WarningState.QUEUED
        if waits and (self.story.state != WarningState.QUEUED.value or self.is_put_off):
            queued = "; the termination warning now waits for its end"
            changes |= self.as_told(WarningState.QUEUED)
        values = {"before": utc(known), "until": utc(until), "distance": self.distance(until), "queued": queued}
        self.note(Reason.GuaranteeExtended, values, changes)

    # ---- the warning

    @property
    def state(self) -> WarningState:
        return warning_state_at(self.facts, self.now, self.rules.stale_after)

    @property
    def stop_from(self) -> datetime | None:
        """The earliest stop to tell. Once a guarantee is over, the warning's own instant is what counts."""
        return self.facts.stop_from if self.state is WarningState.QUEUED else self.facts.warning_at

    @property
    def is_put_off(self) -> bool:
        """Whether the earliest stop is another than the one told, by more than a jitter."""
        first, told = self.stop_from, self.story.stop_from
        return first is not None and told is not None and abs(first - told) >= MOVED

    def stop_words(self) -> dict[str, str]:
        first = self.stop_from
        return {"at": _when(first), "distance": self.distance(first) if first else ""}

    @property
    def withdrawn(self) -> bool:
        """Whether the open warning is taken back; an unreadable one is not."""
        return self.story.open and not self.facts.warned and contract.WARNING_AT not in self.unreadable

    def withdraw(self, because: str) -> None:
        values = {"at": _when(self.story.stop_from), "because": because}
        self.note(Reason.TerminationWarningWithdrawn, values, {"state": NONE}, on_job=True)

    def warning(self) -> None:
        at, state = self.facts.warning_at, self.state
        if at is None:
            if self.withdrawn:
                self.withdraw("")
            return
        if state is WarningState.QUEUED and self.facts.guaranteed_until:
            self.deadlines.append(self.facts.guaranteed_until)
        elif state is WarningState.AT_RISK:
            self.deadlines.append(at + self.rules.stale_after)
        if not self.story.open:
            self.open(state)
        elif state.value != self.story.state and not self.is_jitter(at, state):
            self.turn(state)
        else:
            self.change(at, state)

    def open(self, state: WarningState) -> None:
        number = self.story.episode + 1
        fresh = {"episode": number, "first_seen": self.now, "changed_at": None, "band": self.facts.band.value}
        self.tell_state(state, fresh, on_job=True)

    def turn(self, state: WarningState) -> None:
        """Tell that an open episode is now queued, at risk or stale."""
        calm = (self.story.told_at or self.now) + MOVED
        if state is WarningState.QUEUED and self.now < calm:
            # Any key may be missing for a moment, the guarantee's too: a danger is told at once, relief when it lasts.
            self.deadlines.append(calm)
        elif state is WarningState.AT_RISK and self.story.state == WarningState.STALE.value:
            self.moved(state)
        else:
            self.tell_state(state, {"band": self.band})

    def is_jitter(self, at: datetime, state: WarningState) -> bool:
        """Whether a stale warning only seems at risk again because its instant moved by seconds."""
        was_stale = self.story.state == WarningState.STALE.value
        return was_stale and state is WarningState.AT_RISK and not self.has_moved(at)

    def tell_state(self, state: WarningState, changes: dict[str, Any], on_job: bool = False) -> None:
        values = self.stop_words()
        if state is WarningState.STALE:
            reason = Reason.TerminationWarningStale
        else:
            values |= {"band": BANDS[changes["band"]], "message": self.message()}
            if state is WarningState.QUEUED:
                reason = Reason.TerminationWarningQueued
                values["until"] = _when(self.facts.guaranteed_until)
            else:
                reason = Reason.TerminationWarning
        self.note(reason, values, self.as_told(state) | changes, on_job)

    def as_told(self, state: WarningState) -> dict[str, Any]:
        now = {"told_at": self.now, "current": self.story.entry + 1, "restated": 0}
        return {"state": state.value, "warning_at": self.facts.warning_at, "stop_from": self.stop_from} | now

    def message(self) -> str:
        text = self.facts.warning_message
        return f" The controller says: {quote(text, 500)}" if text and text.strip() else ""

    @property
    def band(self) -> str:
        """The band to tell: one that cannot be read now is the one told before."""
        band = self.facts.band
        return self.story.band if band is contract.Band.UNKNOWN else band.value

    def has_moved(self, at: datetime) -> bool:
        return self.story.warning_at is None or abs(at - self.story.warning_at) >= MOVED

    def change(self, at: datetime, state: WarningState) -> None:
        unknown = contract.Band.UNKNOWN.value
        if self.story.band == unknown != self.band:
            # The risk's key arrived after the instant's: nothing has changed for the session.
            self.story = replace(self.story, band=self.band)
        if not self.has_moved(at) and not self.is_put_off and self.band == self.story.band:
            return
        if self.story.changed_at and self.now < self.story.changed_at + MOVED:
            # Back and forth within a minute is one Event: what holds when the minute is over counts.
            self.deadlines.append(self.story.changed_at + MOVED)
            return
        self.moved(state)

    def moved(self, state: WarningState) -> None:
        advice = "Plan your save for the new time." if self.is_put_off else "Save before that."
        values = {
            **self.stop_words(),
            "before": f"not {_when(self.story.stop_from)}" if self.is_put_off else "as before",
            "band": BANDS[self.band],
            "advice": "Save now." if state is WarningState.STALE else advice,
        }
        changes = {"band": self.band, "changed_at": self.now} | self.as_told(state)
        self.note(Reason.TerminationWarningChanged, values, changes)

    def restate(self) -> None:
        if not self.story.open or self.story.told_at is None:
            return
        due = self.story.told_at + self.rules.restate_every
        if self.now >= due:
            self.story = replace(self.story, told_at=self.now, restated=self.story.restated + 1)
            self.told.append(Restatement(self.now, self.story))
            due = self.now + self.rules.restate_every
        self.deadlines.append(due)

    # ---- idle culling, the runtime limit, the job's other pods

    def idle(self) -> None:
        status, deadline = self.facts.idle_status, self.facts.idle_cull_deadline
        if status == "warning":
            sooner = deadline is not None and (
                self.story.idle_deadline is None or self.story.idle_deadline - deadline >= MOVED
            )
            if not self.story.idle_open:
                self.cull(deadline, self.story.idle + 1)
            elif sooner:
                # Later is only relief, and the culler computes it anew every five minutes.
                due = (self.story.idle_told_at or self.now) + MOVED
                if self.now >= due:
                    self.cull(deadline, self.story.idle)
                else:
                    self.deadlines.append(due)
        elif self.story.idle_open and not (status is None and deadline is not None):
            shown = f" (the status is {quote(status, 40)})" if status else ""
            self.note(Reason.IdleCullWithdrawn, {"status": shown}, {"idle_open": False, "idle_deadline": None})

    def cull(self, deadline: datetime | None, number: int) -> None:
        values = {
            "at": utc(deadline) if deadline else "a time that is not said",
            "distance": f" ({self.distance(deadline)})" if deadline else "",
        }
        changes = {"idle": number, "idle_open": True, "idle_deadline": deadline, "idle_told_at": self.now}
        self.note(Reason.IdleCullWarning, values, changes)

    def limit(self) -> None:
        if self.seen.started is None or self.seen.limit_seconds is None:
            return
        end = self.seen.started + timedelta(seconds=self.seen.limit_seconds)
        told = self.story.limit_told
        if self.now >= end or (told is not None and told - end < MOVED):
            return
        if self.now < end - LIMIT_NEAR:
            self.deadlines.append(end - LIMIT_NEAR)
            return
        values = {"limit": span(self.seen.limit_seconds), "end": utc(end), "distance": self.distance(end)}
        self.note(Reason.RuntimeLimitNear, values, {"limit_told": end})

    def peers(self) -> None:
        if not self.around.peers:
            if self.story.peer:
                self.story = replace(self.story, peer=False)
        elif not self.story.peer and not self.facts.warned and self.seen.running and self.around.peers_at:
            at = self.around.peers_at
            values = {"peers": _names(self.around.peers), "at": utc(at), "distance": self.distance(at)}
            self.note(Reason.PeerWarned, values, {"peer": True})

    # ---- the end

    def end(self) -> None:
        ended, deleted = self.seen.ended, self.seen.deleted
        if ended and (deleted is None or (ended.at and ended.at < deleted)):
            self.ended_by_itself()
        elif deleted:
            self.stopping(deleted)
        elif self.around.gone_at and self.story.open and self.around.unseen:
            self.finish(_unobserved(self.story, self.now))
        elif self.around.gone_at and self.story.open:
            self.finish(f"at {utc(self.around.gone_at)}: it was removed without any grace")
        else:
            self.story = replace(self.story, over=ENDED)

    def ended_by_itself(self) -> None:
        ended = self.seen.ended
        assert ended is not None  # noqa: S101  (narrows the type; the caller asked)
        at = ended.at or self.now
        by_limit = ended.reason == "DeadlineExceeded"
        if self.story.open or (by_limit and self.now - at < RECENT):
            why = "its runtime limit ran out" if by_limit else quote(ended.reason, 60) if ended.reason else ""
            when = f"at {utc(ended.at)}" if ended.at else f"before {utc(self.now)}"
            self.finish(f"{when}: {ended.phase}" + (f", {why}" if why else ""))
        else:
            self.story = replace(self.story, over=ENDED)

    def finish(self, how: str) -> None:
        values = {"how": how, "warned": _warned_of(self.story) + self.taken_back if self.story.open else ""}
        self.note(Reason.SessionEnded, values, {"over": ENDED, "state": NONE}, on_job=self.story.open)

    def stopping(self, deleted: datetime) -> None:
        if not self.seen.scheduled and not self.story.open:
            self.story = replace(self.story, over=ENDED)
            return
        if self.around.cause is None:
            return
        cause = self.around.cause
        values = {
            "at": utc(deleted),
            "late": f" (seen {span((self.now - deleted).total_seconds())} later)" if self.now - deleted > LATE else "",
            "warned": self.warned_before(deleted),
            "grace": self.grace(deleted),
            "cause": f"; the reservation controller says {quote(cause, 60)}" if cause else "",
        }
        self.note(Reason.SessionStopping, values, {"over": STOPPING, "state": NONE}, on_job=self.story.open)

    @property
    def taken_back(self) -> str:
        """Say of an open episode that its warning went with the session: "withdrawn" would promise that it goes on."""
        return ", a warning that was taken back by then" if self.withdrawn else ""

    def grace(self, deleted: datetime) -> str:
        seconds = self.seen.grace_seconds
        if not seconds:
            return "It is gone" if self.around.gone_at else "It has no grace"
        return f"It has {span(seconds)} of grace, until {utc(deleted + timedelta(seconds=seconds))}"

    def warned_before(self, deleted: datetime) -> str:
        """Say whether the session was warned when it was deleted, and how long before."""
        first, at = self.story.first_seen, self.story.stop_from
        if self.story.open and first is not None:
            ahead = (deleted - first).total_seconds()
            when = f"{span(ahead)} before" if ahead >= 1 else "only just then"
            return f"it was warned {when}, of a stop from {_when(at)} on{self.taken_back}"
        if self.facts.warning_at is not None:
            # The files in the pod freeze at the delete: a warning that came with it may not have arrived.
            return f"a warning for {utc(self.facts.warning_at)} was on it, which was not seen before"
        return "it was not warned" + (" (an earlier warning was withdrawn)" if self.story.episode else "")


def _unobserved(story: Story, now: datetime) -> str:
    return f"between {_when(story.told_at)} and {utc(now)}, unobserved"


def _when(instant: datetime | None) -> str:
    return utc(instant) if instant else "an unknown time"


def _warned_of(story: Story) -> str:
    return f"; it was warned of a stop from {_when(story.stop_from)} on"


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - PEERS_NAMED
    shown = ", ".join(names[:PEERS_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
