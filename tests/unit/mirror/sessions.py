"""Observations of a session, made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from forewarn import session
from forewarn.contract import Keys
from forewarn.mirror.episodes import step
from forewarn.mirror.notices import ALONE, Around, Notice, Rules
from forewarn.mirror.pods import Seen
from forewarn.mirror.story import NOTHING, Story

KEYS = Keys()
RULES = Rules(KEYS, timedelta(seconds=60), timedelta(seconds=1800))
T0 = datetime(2026, 11, 29, 19, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the instant so many seconds after the start."""
    return T0 + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def seen(annotations: dict[str, str] | None = None, **changes: Any) -> Seen:
    """Return a running session with these annotations, keyed by name."""
    one = Seen(
        uid="u1",
        namespace="team",
        name="train",
        version=1,
        facts=session.read_values(annotations or {}),
        created=T0,
        scheduled=True,
        started=T0,
        limit_seconds=None,
        grace_seconds=600,
        deleted=None,
        ended=None,
        sees_podinfo=True,
        job=None,
        group="",
    )
    return replace(one, **changes)


def warned(seconds: float, risk: str = "0.33", **more: str) -> dict[str, str]:
    return {"termination-warning-at": text(seconds), "termination-warning-risk": risk, **more}


class Told:
    """Plays observations one after the other and keeps what was told."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self.story: Story = NOTHING
        self.notices: list[Notice] = []
        self.restated = 0
        self.deadline: datetime | None = None

    def look(self, seconds: float, observed: Seen, around: Around = ALONE) -> list[str]:
        """Observe at an instant; return the reasons that were told now."""
        result = step(self.story, observed, around, at(seconds), self.rules)
        self.story, self.deadline = result.story, result.deadline
        fresh = [said for said in result.tell if isinstance(said, Notice)]
        self.restated += len(result.tell) - len(fresh)
        self.notices += fresh
        return [notice.reason.name for notice in fresh]

    @property
    def reasons(self) -> list[str]:
        return [notice.reason.name for notice in self.notices]
