"""What has been told about one session: the state of its episodes, as its Events carry it. Pure.

Every Event of ours holds, as an annotation, the whole story up to and including itself. So the newest Event of a
session is all that a start, a takeover or a conflict needs, and expired older ones are not missed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import orjson

from forewarn.contract import UTC

NONE = "none"
"""``Story.state`` while no episode is open; else the value of a ``session.WarningState``."""

STOPPING = "stopping"
ENDED = "ended"

_MOMENTS = ("first_seen", "changed_at", "told_at")
_RECKONED = (*_MOMENTS, "idle_told_at")
"""Our own instants, to which spans are added."""
LAST_YEAR = 9900
"""No instant of ours is later: the calendar's end leaves no room to reckon with."""


@dataclass(frozen=True, slots=True)
class Story:
    """What has been told of one pod. Instants are aware; ``None`` where nothing of the kind was told."""

    entry: int = 0
    """Number of the pod's newest Event; the next one is the next number (see ``events.name``)."""
    episode: int = 0
    """Number of the newest episode; 0 before the first."""
    state: str = NONE
    warning_at: datetime | None = None
    """The annotation's instant when it was told last, of the newest episode (kept when it is closed)."""
    stop_from: datetime | None = None
    """The earliest stop as told with it: a guarantee may end later than the warning's instant."""
    band: str = ""
    first_seen: datetime | None = None
    """When the newest episode was first seen."""
    changed_at: datetime | None = None
    """When a change was told last, in this episode."""
    told_at: datetime | None = None
    """When the open episode was told or restated last."""
    current: int = 0
    """Entry of the Event that says how the open episode stands: the one to restate."""
    restated: int = 0
    guarantee: datetime | None = None
    """``guaranteed-until`` as last known."""
    guarantee_ended: datetime | None = None
    """The ``guaranteed-until`` whose end was told, or was old news when first seen."""
    limit_told: datetime | None = None
    """The end by ``activeDeadlineSeconds`` that was told."""
    idle: int = 0
    """Number of the newest idle episode; 0 before the first."""
    idle_open: bool = False
    idle_deadline: datetime | None = None
    idle_told_at: datetime | None = None
    podinfo: bool = False
    """Whether the missing podinfo was told."""
    unreadable: tuple[str, ...] = ()
    """Names of the annotations whose unreadable value was told."""
    peer: bool = False
    """Whether the open warnings of the job's other pods were told."""
    over: str = ""
    """``stopping`` or ``ended`` once the last word on the pod is said."""

    @property
    def open(self) -> bool:
        """Whether a warning episode is open."""
        return self.state != NONE


NOTHING = Story()


def encode(story: Story) -> str:
    """Write a story as compact JSON, without what is at its default."""
    values: dict[str, Any] = {}
    for field in fields(Story):
        value = getattr(story, field.name)
        if value != field.default:
            values[field.name] = value
    return orjson.dumps(values).decode()


def decode(text: str | None) -> Story | None:
    """Read a story; ``None`` for anything else: an Event can be written by whoever may write Events."""
    try:
        values = orjson.loads(text or "")
        return Story(**{name: _value(name, value) for name, value in values.items()})
    except (ValueError, TypeError, AttributeError, RecursionError, KeyError, OverflowError):
        return None


_KINDS = {field.name: str(field.type) for field in fields(Story)}


def _value(name: str, value: Any) -> Any:
    kind = _KINDS[name]
    if kind.startswith("datetime"):
        instant = datetime.fromisoformat(value).astimezone(UTC)
        if name in _RECKONED and instant.year > LAST_YEAR:
            raise ValueError(name)
        return instant
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise TypeError(name)
        return tuple(value)
    if type(value).__name__ != kind:
        raise TypeError(name)
    if kind == "int" and not 0 <= value < 10**9:
        raise ValueError(name)
    return value


def same_news(one: Story, other: Story) -> bool:
    """Whether two stories tell the same, whenever each of two mirrors noticed it."""
    blank = dict.fromkeys(_MOMENTS)
    return replace(one, **blank) == replace(other, **blank)  # type: ignore[arg-type]
