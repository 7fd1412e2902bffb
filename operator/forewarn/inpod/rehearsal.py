"""What a rehearsal plays and how it judges what it saw. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.inpod import progress
from forewarn.inpod.progress import Number, Place, Progress, Track

if TYPE_CHECKING:
    import random

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


@dataclass
class Round:
    """One start of the program, until it ended."""

    play: str
    done: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    code: int = 0
    late: bool = False
    """It had to be killed, since it did not end within the grace."""

    @property
    def finished(self) -> bool:
        """Whether the program says that it came to its end."""
        return self.code == 0

    @property
    def over(self) -> bool:
        """Whether it came to its end by itself for sure: one that was told something may have ended for that."""
        return self.finished and not self.done


def ended(code: int) -> str:
    """Return a process's end in words (a negative code is a signal's)."""
    words = {0: "done", contract.EXIT_STOPPED: "75, run again", -9: "SIGKILL", -15: "SIGTERM, unhandled"}
    return words.get(code, f"signal {-code}" if code < 0 else f"exit {code}")


@dataclass(frozen=True)
class Judged:
    """What a restart cost: ``lost`` steps were done twice (``None``: unknown)."""

    lost: Number | None
    over: bool
    """It began from the beginning."""
    told: bool = True
    """It was seen beyond its beginning before the stop, and where it began after it: only then it can be judged."""
    near: bool = False
    """It began so near the beginning that it may have begun from it: nearly all that was seen was done twice."""
    unseen: Number = 0
    """Steps between the last one before the stop and the first one after it, more than it leaves out as a rule."""


NEARLY = 0.75
"""The part of what was seen from the beginning on that a resumed program does not do twice."""


def judge(rounds: list[Round]) -> list[Judged]:
    """Return for each round what its end cost, seen in where the next one began."""
    tracks = _tracks(rounds)
    length = progress.epoch_length([track for track in tracks if track])
    anew = any(track.anew for track in tracks if track)
    stride, of_bar = _stride(tracks), _counter(rounds).startswith(progress.BAR)
    found = []
    for before, after in zip(tracks, tracks[1:]):
        if tracks[0] is None or before is None or after is None:
            found.append(Judged(None, over=False, told=False))
            continue
        start, first = tracks[0].first, after.begun(stride)
        seen, went = _distance(start, before.last, length), _distance(before.last, first, length)
        # A bar that was seen at 0 alone may have been about to leap.
        blank = of_bar and first.step == 0 and after.second is None
        over = start.before(before.last) and not start.before(first) and not blank
        known = not anew and went is not None
        # One that prints by time begins a little later at times, and has saved nothing.
        near = known and bool(seen) and not over and not blank and -(went or 0) > NEARLY * (seen or 0)
        told = start.before(before.last) and not near and not blank
        gap = (went or 0) - 1 if known and told and (went or 0) > max(before.stride, after.stride, 1) else 0
        lost = _lost(went) if known and not blank else None
        found.append(Judged(lost, over, told, near, gap))
    return found


def until_end(rounds: list[Round]) -> list[Round]:
    """Return the rounds up to the first that ended with 0 and that no later one went beyond: its real end."""
    tracks = _tracks(rounds)
    for number, round_ in enumerate(rounds, start=1):
        if round_.finished and not _went_on(tracks, number):
            return rounds[:number]
    return rounds


def _went_on(tracks: list[Track | None], number: int) -> bool:
    """Return whether a start after round ``number`` was seen beyond that round's last place."""
    last = tracks[number - 1]
    later = [track for track in tracks[number:] if track]
    return bool(later) if last is None else any(last.last.before(track.last) for track in later)


def _early(rounds: list[Round]) -> list[str]:
    """Return the rounds that ended with 0 when they were told to stop: a start after them had more to do."""
    found, tracks = [], _tracks(rounds)
    for number, round_ in enumerate(rounds, start=1):
        if round_.finished and round_.done and _went_on(tracks, number):
            what = "SIGTERM" if any(act.startswith("term") for act in round_.done) else "a warning"
            found.append(
                f"in round {number}, after {what}, it ended with 0, which says done, and is not started again: "
                f"end with {contract.EXIT_STOPPED} (loop.exit_code)"
            )
    return found


def _counter(rounds: list[Round]) -> str:
    return progress.compared([round_.progress for round_ in rounds]) or ""


def _tracks(rounds: list[Round]) -> list[Track | None]:
    counter = _counter(rounds)
    return [round_.progress.tracks.get(counter) for round_ in rounds]


def _stride(tracks: list[Track | None]) -> Number:
    return max((track.stride for track in tracks if track), default=0)


def _distance(sooner: Place, later: Place, length: Number | None) -> Number | None:
    """Return the steps from one place to another; ``length``: an epoch's, where steps begin anew in it."""
    steps = later.step - sooner.step
    if length is not None:
        if sooner.epoch is None or later.epoch is None:
            return None
        steps += (later.epoch - sooner.epoch) * length
    return steps


def _lost(went: Number | None) -> Number | None:
    """Return the steps done twice, where the next start began ``went`` steps after the last place; both are done."""
    if went is None:
        return None
    # A fractional epoch has no next one.
    return max(0, 1 - went) if isinstance(went, int) else max(0, round(-went, 3))


def problems(rounds: list[Round], judged: list[Judged]) -> list[str]:
    """Return why the rehearsal failed, in sentences; nothing where the program heeds and resumes."""
    found = _early(rounds) + _untold(rounds, judged)
    for number, (round_, cost) in enumerate(zip(rounds, judged), start=1):
        if cost.over:
            played = PLAYS.get(round_.play, round_.play)
            found.append(f"after round {number} ({played}) it began from the beginning{_doubt(rounds, number)}")
    for number, round_ in enumerate(rounds, start=1):
        if round_.late:
            found.append(f"in round {number} it did not end within the grace after SIGTERM")
        if round_.code not in (0, contract.EXIT_STOPPED, -9, -15, 143, 137):
            found.append(f"in round {number} it failed: {ended(round_.code)}")
    if rounds and not rounds[-1].finished:
        found.append(f"its last start, left alone, did not come to its end: {ended(rounds[-1].code)}")
    return found


def _untold(rounds: list[Round], judged: list[Judged]) -> list[str]:
    tracks = [track for track in _tracks(rounds) if track]
    if not tracks:
        finished = "; or it found the checkpoints of a finished run: remove them, or use a fresh directory"
        return [
            "no line of its output told a step: print one such as 'step 12', or give --step-pattern"
            f"{finished if rounds and rounds[0].finished else ''}"
        ]
    if not judged:
        if rounds[0].done:
            return [
                f"in the first round it ended with 0 after {', '.join(rounds[0].done)}, and no later start went "
                f"further: end with {contract.EXIT_STOPPED} (loop.exit_code) where it stops; where it had come to "
                "its end, give it more to do, or a smaller --within"
            ]
        return [
            "no stop was played before it came to its end: give it more to do, or a smaller --within; "
            "where it found the checkpoints of a finished run, remove them, or use a fresh directory"
        ]
    if any(cost.told for cost in judged):
        return []
    if any(cost.near for cost in judged):
        return [
            "cannot tell whether it resumed: nearly all that was seen before each stop was done again: "
            "print each step, or give a longer --within"
        ]
    return [
        "cannot tell whether it resumed: "
        f"no stop has a step beyond the first, {tracks[0].first}, before it and any after: "
        "print a step that grows, such as 'epoch 0 step 17', or give --step-pattern, or a larger --within"
    ]


def _doubt(rounds: list[Round], number: int) -> str:
    """Return what else than a beginning from the beginning the output may mean."""
    if any(track.anew for track in _tracks(rounds) if track):
        return ", or anew in an epoch: print the epoch beside the step"
    if _counter(rounds).startswith(progress.BAR):
        return ", as its bar shows it: a bar must begin where the program does (tqdm's initial=), or print the step"
    before = _tracks(rounds)[number - 1]
    if before and before.last.epoch is not None and before.first.epoch == before.last.epoch:
        return "; it was stopped inside its first epoch: if it saves once in each, a larger --within shows the resume"
    return ""


def passed(rounds: list[Round], judged: list[Judged]) -> str:
    """Return the sentence for a rehearsal without problems."""
    told = sum(cost.told for cost in judged)
    each = "each time" if told == len(judged) else f"after {told} of {len(judged)} stops; the rest cannot be told"
    unseen = "".join(
        f"; between rounds {number} and {number + 1}, {cost.unseen} steps were never seen"
        for number, cost in enumerate(judged, start=1)
        if cost.unseen and _counter(rounds) != progress.EPOCH
    )
    lost = [cost.lost for cost in judged if cost.lost is not None]
    if not lost:
        return f"it resumed {each}; how much was lost cannot be told: print the epoch beside the step"
    unit = "epochs" if _counter(rounds) == progress.EPOCH else "steps"
    return f"it resumed {each}; most {unit} lost by one stop: {max(lost)}{unseen}"


def table(rounds: list[Round], judged: list[Judged]) -> str:
    """Return the rounds as a table for a terminal."""
    unit = "epoch" if _counter(rounds) == progress.EPOCH else "step"
    tracks = _tracks(rounds)
    stride = _stride(tracks)
    told = any(track.last.epoch is not None for track in tracks if track)
    rows = [("round", "played", "epoch:step" if told else f"{unit}s", "ended", "lost by it")]
    for number, (round_, track) in enumerate(zip(rounds, tracks), start=1):
        cost = judged[number - 1] if number <= len(judged) else None
        steps = "none seen" if track is None else f"{track.begun(stride)}-{track.last}"
        lost = ""
        if cost is not None:
            lost = "unknown" if cost.lost is None else f"{cost.lost} {unit}{'' if cost.lost == 1 else 's'}"
        played = ", ".join(round_.done) or ("nothing" if round_.play == "end" else "ended before anything was played")
        lost += ", all of them" if cost and cost.over else ""
        rows.append((str(number), played, steps, ended(round_.code), lost))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
