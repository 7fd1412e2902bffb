"""What goes into a decision of the machine and what comes out of it: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from forewarn.contract import Keys
    from forewarn.mirror.catalogue import Reason
    from forewarn.mirror.story import Story


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the machine goes by."""

    keys: Keys
    stale_after: timedelta
    restate_every: timedelta


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of a pod from elsewhere.

    ``peers`` are the warned other pods of its job, ``peers_at`` their earliest instant. ``gone_at`` is when its object
    disappeared, ``unseen`` if nobody saw how. ``cause`` is the reason of the reservation controller's own Event on it:
    ``None`` while that is still looked for, empty if there is none.
    """

    peers: tuple[str, ...] = ()
    peers_at: datetime | None = None
    gone_at: datetime | None = None
    cause: str | None = None
    unseen: bool = False


ALONE = Around()


@dataclass(frozen=True, slots=True)
class Notice:
    """One Event to write: ``story`` is what has been told once it is stored, ``story.entry`` its number."""

    reason: Reason
    note: str
    at: datetime
    story: Story
    on_job: bool = False
    """Whether the owning Job is told too: the opening or the end of a warning episode."""


@dataclass(frozen=True, slots=True)
class Restatement:
    """One Event, number ``story.current``, to be told again through its ``series``."""

    at: datetime
    story: Story


@dataclass(frozen=True, slots=True)
class Step:
    """What to tell, in order; the story afterwards; and the instant at which to look again, seen or not."""

    tell: tuple[Notice | Restatement, ...]
    story: Story
    deadline: datetime | None
