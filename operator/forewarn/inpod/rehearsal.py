"""What a rehearsal plays and how it judges what it saw. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn import contract

if TYPE_CHECKING:
    import random
    import re

STEP_PATTERN = r"(?i)^(?!.*(?:stop|resum)).*?\b(?:step|unit|iteration|iter|epoch)\b\D{0,3}(\d+)"
"""A line that tells a step; not one such as ``stopped before unit 3``."""
PLAYS = {
    "withdraw": "a warning that is withdrawn, SIGKILL later",
    "term": "a warning, then SIGTERM",
    "evict": "SIGTERM without a warning",
    "kill": "SIGKILL without a word",
}


@dataclass(frozen=True)
class Act:
    """One thing to do, ``after`` seconds of the program's first step: ``warn``, ``withdraw``, ``term`` or ``kill``."""

    after: float
    what: str


def acts(play: str, within: float, source: random.Random) -> tuple[Act, ...]:
    """Return what a play does, at random moments of the first ``within`` seconds."""
    first, second, third = sorted(source.uniform(0.0, within) for _ in range(3))
    return {
        "withdraw": (Act(first, "warn"), Act(second, "withdraw"), Act(third, "kill")),
        "term": (Act(first, "warn"), Act(second, "term")),
        "evict": (Act(first, "term"),),
        "kill": (Act(first, "kill"),),
        "end": (),
    }[play]


def step_in(line: str, pattern: re.Pattern[str]) -> int | None:
    """Return the step that a line of the program's output tells, if it does."""
    match = pattern.search(line)
    try:
        return int(match.group(1)) if match else None
    except (ValueError, IndexError):
        return None


@dataclass
class Round:
    """One start of the program, until it ended."""

    play: str
    done: list[str] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    code: int = 0
    late: bool = False
    """It had to be killed, since it did not end within the grace."""

    @property
    def finished(self) -> bool:
        """Whether the program came to its own end."""
        return self.code == 0


def ended(code: int) -> str:
    """Return a process's end in words (a negative code is a signal's)."""
    words = {0: "done", contract.EXIT_STOPPED: "75, run again", -9: "SIGKILL", -15: "SIGTERM, unhandled"}
    return words.get(code, f"signal {-code}" if code < 0 else f"exit {code}")


@dataclass(frozen=True)
class Judged:
    """What a restart cost: ``lost`` steps were done twice; ``over``: it began from the beginning."""

    lost: int | None
    over: bool


def judge(rounds: list[Round]) -> list[Judged]:
    """Return for each round what its end cost, seen in where the next one began."""
    found = []
    start = rounds[0].first if rounds else None
    for before, after in zip(rounds, rounds[1:]):
        if before.last is None or after.first is None:
            found.append(Judged(None, over=False))
            continue
        over = after.first == start and start is not None and before.last > start
        found.append(Judged(max(0, before.last + 1 - after.first), over))
    return found


def problems(rounds: list[Round], judged: list[Judged]) -> list[str]:
    """Return why the rehearsal failed, in sentences; nothing where the program heeds and resumes."""
    found = []
    if not any(round_.last is not None for round_ in rounds):
        found.append("no line of its output told a step: print one such as 'step 12', or give --step-pattern")
    elif not judged:
        found.append("no stop was played before it came to its end: give it more to do, or a smaller --within")
    for number, (round_, cost) in enumerate(zip(rounds, judged), start=1):
        if cost.over:
            found.append(f"after round {number} ({PLAYS.get(round_.play, round_.play)}) it began from the beginning")
    for number, round_ in enumerate(rounds, start=1):
        if round_.late:
            found.append(f"in round {number} it did not end within the grace after SIGTERM")
        if round_.code not in (0, contract.EXIT_STOPPED, -9, -15, 143, 137):
            found.append(f"in round {number} it failed: {ended(round_.code)}")
    if rounds and not rounds[-1].finished:
        found.append(f"its last start, left alone, did not come to its end: {ended(rounds[-1].code)}")
    return found


def table(rounds: list[Round], judged: list[Judged]) -> str:
    """Return the rounds as a table for a terminal."""
    rows = [("round", "played", "steps", "ended", "lost by it")]
    for number, round_ in enumerate(rounds, start=1):
        cost = judged[number - 1] if number <= len(judged) else None
        steps = "none seen" if round_.last is None else f"{round_.first}-{round_.last}"
        lost = ""
        if cost is not None:
            lost = "unknown" if cost.lost is None else f"{cost.lost} step{'' if cost.lost == 1 else 's'}"
        played = ", ".join(round_.done) or ("nothing" if round_.play == "end" else "ended before anything was played")
        lost += ", all of them" if cost and cost.over else ""
        rows.append((str(number), played, steps, ended(round_.code), lost))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
