"""When a cue asks for a save and when a warning asks to stop. Pure: the state is here, time comes as an argument."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from forewarn.inpod.cues import Cue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

SETTLE_SECONDS = 60.0
"""A cue that was near is near until it has moved out of the lead by more than this: the controller sweeps every 60 s,
and an instant that a sweep moves by seconds is no second episode."""


class Policy(enum.Enum):
    """When in its life a warning asks for the save."""

    AT_LEAD = "at-lead"
    """When the stop is at most the lead away: the save loses the least work."""
    AT_APPEARANCE = "at-appearance"
    """When the warning is first seen, however far its instant: for saves so cheap that being early costs nothing."""


class Episode:
    """Says once per episode of each cue that a save is due; again after a withdrawal and a return.

    Every cue has its own edge. Past ``guaranteed-until`` that cue stays near for the rest of the run, and one flag
    over all cues would then never rise for the warning that precedes the stop.
    """

    def __init__(self, policy: Policy = Policy.AT_LEAD) -> None:
        self.policy = policy
        self._near: frozenset[Cue] = frozenset()
        self._fired: frozenset[Cue] = frozenset()

    def near(self, instants: Mapping[Cue, datetime], lead_seconds: float, now: datetime) -> frozenset[Cue]:
        """Return the cues that are near now: this pod's own view, to be agreed with the other ranks.

        ``now``: aware. A cue whose instant is past is near: the stop may come at any time.
        """
        self._near = frozenset(
            cue
            for cue, instant in instants.items()
            if (cue is Cue.WARNING and self.policy is Policy.AT_APPEARANCE)
            or (instant - now).total_seconds() <= lead_seconds + (SETTLE_SECONDS if cue in self._near else 0.0)
        )
        return self._near

    def fire(self, near: Iterable[Cue]) -> frozenset[Cue]:
        """Return the cues that have become near since the last call, and remember which are.

        With several ranks ``near`` is what they agreed on, so that each rank sees the same edges.
        """
        before, self._fired = self._fired, frozenset(near)
        return self._fired - before

    def update(self, instants: Mapping[Cue, datetime], lead_seconds: float, now: datetime) -> frozenset[Cue]:
        """Return the cues that ask for a save now: ``near`` and ``fire`` in one, for a single process."""
        return self.fire(self.near(instants, lead_seconds, now))


def stop_asked(near: Iterable[Cue]) -> bool:
    """Whether a batch job should stop: on the warning alone, since what is past the guarantee is still free."""
    return Cue.WARNING in near
