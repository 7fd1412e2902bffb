"""Every Event that the mirror writes: reason, type, action, meaning, sentence. The one place that spells them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NORMAL = "Normal"
WARNING = "Warning"

NOTE_BYTES = 1024
"""The longest note that events.k8s.io/v1 takes, in bytes of UTF-8."""


@dataclass(frozen=True)
class Entry:
    """One kind of Event: ``sentence`` is a format string, ``sample`` the values of its example."""

    type: str
    action: str
    meaning: str
    sentence: str
    sample: Mapping[str, str]

    def note(self, **values: str) -> str:
        """Return the note with its values in place, fit for an Event."""
        return clean(self.sentence.format(**values))


_AT = "2026-11-29 19:30:00 UTC"
_UNTIL = "2026-11-29 19:00:00 UTC"


class Reason(Enum):
    """The reason of an Event; its value is the catalogue's entry."""

    TerminationWarning = Entry(
        WARNING,
        "WarnedOfStop",
        "the session may be stopped from the instant on",
        "This session may be stopped from {at} ({distance}) on; {band}. Save now; to keep the GPU, extend the "
        "reservation.{message}",
        {
            "at": _AT,
            "distance": "in 14 min",
            "band": "the stop is possible",
            "message": " The controller says: “Your session may end at 11:30 AM.”",
        },
    )
    TerminationWarningQueued = Entry(
        NORMAL,
        "WarnedOfStop",
        "a warning inside the guarantee: the stop waits for the guarantee's end",
        "This session is in line to be stopped from {at} ({distance}) on; {band}. Its guarantee holds until {until}. "
        "Save before that, or extend the reservation.{message}",
        {
            "at": _AT,
            "distance": "in 1 h 10 min",
            "band": "the stop is likely",
            "until": "2026-11-29 19:30:00 UTC",
            "message": "",
        },
    )
    TerminationWarningChanged = Entry(
        NORMAL,
        "WarningMoved",
        "the warning's instant moved by a minute or more, or its risk is in another band",
        "The termination warning changed: this session may be stopped from {at} ({distance}) on, {before}; {band}. "
        "{advice}",
        {
            "at": "2026-11-29 19:45:00 UTC",
            "distance": "in 24 min",
            "before": f"not {_AT}",
            "band": "the stop is certain",
            "advice": "Plan your save for the new time.",
        },
    )
    TerminationWarningWithdrawn = Entry(
        NORMAL,
        "WarningWithdrawn",
        "the warning was taken back; the session goes on",
        "The termination warning for {at} is withdrawn{because}. Nothing needs to be done.",
        {"at": _AT, "because": ": the guarantee was extended to 2026-11-29 21:00:00 UTC"},
    )
    TerminationWarningStale = Entry(
        WARNING,
        "WarningStale",
        "the warning's instant is past and the session still runs: it may be stopped at any moment",
        "The termination warning's time {at} is past ({distance}) and the session still runs: it may be stopped at any "
        "moment. Save now.",
        {"at": _AT, "distance": "1 min ago"},
    )
    PeerWarned = Entry(
        NORMAL,
        "PeerWarned",
        "another pod of the same job is warned; losing it ends the job",
        "Of the pods of the same job, {peers} may be stopped from {at} ({distance}) on, which would end the job. "
        "Save this one too.",
        {"peers": "train-1 and 2 more", "at": _AT, "distance": "in 14 min"},
    )
    GuaranteeExtended = Entry(
        NORMAL,
        "GuaranteeMoved",
        "the runtime guarantee now ends later",
        "The runtime guarantee of this session was extended from {before} to {until} ({distance}){queued}.",
        {"before": _UNTIL, "until": "2026-11-29 21:00:00 UTC", "distance": "in 2 h 5 min", "queued": ""},
    )
    GuaranteeEnded = Entry(
        NORMAL,
        "GuaranteeEnded",
        "the runtime guarantee is over; the session runs on until its GPU is needed",
        "The runtime guarantee of this session ended at {until}. It runs on until another reservation needs the GPU: "
        "save regularly, or extend the reservation.",
        {"until": _UNTIL},
    )
    RuntimeLimitNear = Entry(
        WARNING,
        "RuntimeLimitNear",
        "activeDeadlineSeconds runs out within 15 minutes; nothing can extend it",
        "The runtime limit of this session ({limit}) ends it at {end} ({distance}). It cannot be extended: save now.",
        {"limit": "6 h", "end": _AT, "distance": "in 15 min"},
    )
    IdleCullWarning = Entry(
        WARNING,
        "WarnedOfCull",
        "the GPU is idle and the session will be removed",
        "The GPU of this session is idle: the session is removed at {at}{distance} unless the GPU works again. "
        "Use the GPU, or save and end the session.",
        {"at": _AT, "distance": " (in 30 min)"},
    )
    IdleCullWithdrawn = Entry(
        NORMAL,
        "CullWithdrawn",
        "the idle warning was taken back",
        "The idle warning of this session is withdrawn{status}. Nothing needs to be done while the GPU works.",
        {"status": " (the status is ok)"},
    )
    AnnotationUnreadable = Entry(
        WARNING,
        "AnnotationIgnored",
        "an annotation's value does not parse and is ignored; told once for each key",
        "The annotation {key} has a value that cannot be read, {value}: it is ignored. Tell the administrators.",
        {"key": "galends/termination-warning-at", "value": "“tomorrow”"},
    )
    PodinfoMissing = Entry(
        WARNING,
        "PodinfoMissing",
        "the session has no /etc/podinfo: programs in it cannot read a warning",
        "A container of this session has no readable {path}, so programs in it cannot see a warning. Start the session "
        "anew to get it; until then watch these Events.",
        {"path": "/etc/podinfo"},
    )
    SessionStopping = Entry(
        NORMAL,
        "Stopping",
        "the pod was deleted: whether it was warned, how long before, which grace",
        "This session was told to stop at {at}{late}; {warned}. {grace}{cause}.",
        {
            "at": "2026-11-29 19:31:10 UTC",
            "late": "",
            "warned": "it was warned 16 min before, of a stop from 2026-11-29 19:30:00 UTC on",
            "grace": "It has 10 min of grace, until 2026-11-29 19:41:10 UTC",
            "cause": "; the reservation controller says Preempted",
        },
    )
    SessionEnded = Entry(
        NORMAL,
        "Ended",
        "the session ended unobserved, by its runtime limit, or by itself while a warning was open",
        "This session ended {how}{warned}.",
        {
            "how": "between 2026-11-29 19:20:00 UTC and 2026-11-29 19:45:00 UTC, unobserved",
            "warned": "; it was warned of a stop from 2026-11-29 19:30:00 UTC on",
        },
    )

    @property
    def entry(self) -> Entry:
        """The catalogue's entry."""
        return self.value

    @property
    def example(self) -> str:
        """An example of the note."""
        return self.value.note(**self.value.sample)


OPENINGS = frozenset({Reason.TerminationWarning, Reason.TerminationWarningQueued, Reason.TerminationWarningStale})
"""The reasons that the first Event of an episode can have."""

BANDS = {
    "possible": "the stop is possible",
    "likely": "the stop is likely",
    "certain": "the stop is certain",
    "unknown": "how likely is not said",
}
"""The words for each ``contract.Band``."""


def clean(text: str, limit: int = NOTE_BYTES) -> str:
    """Return ``text`` without control characters, in one line, of at most ``limit`` bytes, cut between characters.

    Annotation values are the tenant's to write: line breaks, terminal escapes, bidirectional overrides and lone
    surrogates become spaces, so that a note is only ever one printable line.
    """
    printable = text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(printable.split())
    data = line.encode()
    if len(data) <= limit:
        return line
    return data[: limit - len("…".encode())].decode(errors="ignore").rstrip() + "…"


def quote(text: str, limit: int) -> str:
    """Return a foreign text in quotation marks, cleaned and cut at ``limit`` bytes."""
    return f"“{clean(text, limit)}”"


def markdown() -> str:
    """Return the table of every Event, in Markdown."""
    rows = ["| Reason | Type | When | Example |", "|---|---|---|---|"]
    rows += [
        f"| `{reason.name}` | {reason.entry.type} | {reason.entry.meaning} | {reason.example} |" for reason in Reason
    ]
    return "\n".join(rows) + "\n"
