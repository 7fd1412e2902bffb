"""What a program's output tells of its progress: an epoch and a finer counter. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, Union

Number = Union[int, float]

EPOCH = "epoch"
BAR = "bar of "
"""A progress bar's ``45/100 [``, or ``[640/60000``; its total follows, since a program may show several."""
GIVEN = "step of --step-pattern"
COUNTERS = (GIVEN, "global_step", "step", "iteration", "iter", "it", "batch", "unit", BAR, EPOCH)
"""The finest that a program prints is compared; the first of these that grows."""

_NUMBER = r"(\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?)"
_WORD = re.compile(
    r"(?<![a-z0-9_])(global_step|step|iteration|iter|it|batch|unit|epoch)"
    r"(?:\s?#|-|\s+-\s+)?[\s\"':=\[(]{0,12}" + _NUMBER + r"(\s?m?s\b)?",
    re.IGNORECASE,
)
_BAR = re.compile(r"\|\s*(\d+)/(\d+)\s*\[|^\s*(\d+)/(\d+)\s+\S*[\[━]|\[\s*(\d+)/\s*(\d+)(?![\d/])")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08+")
_OPEN_BAR = re.compile(r"(?<![\d.])(\d+)\s?[a-z]+\s\[(?:\d+:)?\d+:\d+, ", re.IGNORECASE)
"""A bar without a total, as tqdm's ``45it [00:01, 40it/s]``."""
LONGEST = 4096
"""Characters of a line that are read."""
_NO_PROGRESS = re.compile(
    r"(?<![\w/.\"'-])(?:stop(?:s|ped|ping)?|resum(?:ed|ing)|restor(?:ed|ing)|sav(?:ed|ing)|(?:re)?load(?:ed|ing))(?=[\s:])"
    r"(?:.*\b(?:checkpoint|ckpt|model|state|weights)|:?(?:\s+[a-z]+){0,4}\W*$)",
    re.IGNORECASE,
)
"""What comes after such words is a place that the program speaks about, not where it is."""
_ASIDE = re.compile(r"\b(?:valid|eval|test|predict|sanity|(?:load|sav|resum|restor)ing\b)", re.IGNORECASE)
"""What makes a bar one of an evaluation."""
_OTHER = re.compile(
    r"(?:^|[^a-z])(?:max|total|num|n|per|every|from|best|last|warmup|(?:s|ms|sec)/|eval\w*|val\w*|test(?:ing)?)[\W_]*$",
    re.IGNORECASE,
)
"""What directly before a counter makes it another one, such as ``max_step`` or ``val step``."""


class Place(NamedTuple):
    """Where a program is: ``step`` is the compared counter's value; ``epoch`` the one told last, if any."""

    epoch: Number | None
    step: Number

    def before(self, other: Place) -> bool:
        """Whether it is earlier; an epoch counts where both have one."""
        if self.epoch is not None and other.epoch is not None and self.epoch != other.epoch:
            return self.epoch < other.epoch
        return self.step < other.step

    def __str__(self) -> str:
        return f"{self.step}" if self.epoch is None else f"{self.epoch}:{self.step}"


@dataclass
class Track:
    """One counter in one run of the program."""

    first: Place
    last: Place
    told: int = 0
    """How many places were noted."""
    spans: dict[Number | None, tuple[Number, Number]] = field(default_factory=dict)
    """The least and the greatest step of each epoch."""
    anew: bool = False
    """It fell to where it had begun, or below, with no epoch that grew meanwhile."""
    second: Place | None = None
    """The first place beyond the first."""
    stride: Number = 0
    """The widest distance between two places told one after another in one epoch, without that to the second."""

    def add(self, place: Place) -> None:
        """Note one more place.

        What came before the first growth may be a checkpoint's name or a setting: where it falls from there, it begins.
        """
        if place.before(self.last) and self.last == self.first:
            self.first = self.last = place
            self.spans = {}
        elif place.before(self.last) and not self.first.before(place):
            self.anew = True
        if self.first.before(place) and self.second is None:
            self.second = place
        elif self.last.epoch == place.epoch:
            self.stride = max(self.stride, place.step - self.last.step)
        self.told += 1
        self.last = place
        least, most = self.spans.get(place.epoch, (place.step, place.step))
        self.spans[place.epoch] = (min(least, place.step), max(most, place.step))

    def begun(self, stride: Number) -> Place:
        """Return where the run began, where the widest ``stride`` of all runs is this.

        A bar may show 0 first and then leap to the resumed place.
        """
        if self.second is None or self.first.step != 0 or self.second.epoch != self.first.epoch or not stride:
            return self.first
        # A beginning's distances differ too, but not so far.
        return self.second if self.second.step > 2 * stride else self.first


@dataclass
class Progress:
    """All counters of one run of the program."""

    tracks: dict[str, Track] = field(default_factory=dict)
    epoch: Number | None = None

    def read(self, line: str, pattern: re.Pattern[str] | None = None) -> bool:
        """Note what a line tells; return whether it tells any progress."""
        told = counters_in(line, pattern)
        if EPOCH in told:
            self.epoch = told[EPOCH]
        for counter, value in told.items():
            # A fractional epoch holds steps of its own only in its whole part.
            epoch = None if counter == EPOCH or self.epoch is None else int(self.epoch)
            place = Place(epoch, value)
            self.tracks.setdefault(counter, Track(place, place)).add(place)
        return bool(told)


def _number(text: str) -> Number:
    return float(text) if "." in text else int(text.replace(",", ""))


def counters_in(line: str, pattern: re.Pattern[str] | None = None) -> dict[str, Number]:
    """Return the counters that a line of output tells, as name → value.

    With ``pattern``: its group ``step``, or else its first group that is not ``epoch``, and its group ``epoch``.
    """
    line = line[:LONGEST]
    if pattern is not None:
        return _given(line, pattern)
    found: dict[str, Number] = {}
    spent = 0
    line = _COLOUR.sub("", line)
    for match in _WORD.finditer(line):
        name, number, seconds = match.group(1).lower(), match.group(2), match.group(3)
        if _NO_PROGRESS.search(line[spent : match.start()]):
            return found
        # A duration or a rate is no counter; only an epoch has fractions.
        counts = name == EPOCH or ("." not in number and not seconds)
        if counts and not _OTHER.search(line[spent : match.start()]):
            found.setdefault(name, _number(number))
        spent = match.end()
    bar, open_bar = _BAR.search(line, spent), _OPEN_BAR.search(line, spent)
    if (shown := bar or open_bar) and not _speaks_aside(line[: shown.start()]):
        done, *total = (int(group) for group in shown.groups() if group is not None)
        found[f"{BAR}{total[0]}" if total else "it"] = done
    return found


def _speaks_aside(before: str) -> bool:
    return bool(_NO_PROGRESS.search(before) or _ASIDE.search(before))


def _given(line: str, pattern: re.Pattern[str]) -> dict[str, Number]:
    names = pattern.groupindex
    group = names.get("step") or min(set(range(1, pattern.groups + 1)) - {names.get(EPOCH)}, default=0)
    match = pattern.search(line)
    found: dict[str, Number] = {}
    for counter, number in ((EPOCH, names.get(EPOCH)), (GIVEN, group)):
        try:
            if match and number:
                found[counter] = _number(match.group(number))
        except (ValueError, TypeError, AttributeError):
            continue
    return found


def compared(runs: list[Progress]) -> str | None:
    """Return the counter to compare: the finest that grows, else the finest there is; ``None`` where there is none."""
    told: dict[str, int] = {}
    for run in runs:
        for name, track in run.tracks.items():
            told[name] = told.get(name, 0) + track.told
    # Of several bars, the one at which the program is longest.
    bar = max((name for name in told if name.startswith(BAR)), key=lambda name: told[name], default=BAR)
    there = [name for name in (bar if counter == BAR else counter for counter in COUNTERS) if name in told]
    for name in there:
        tracks = [run.tracks[name] for run in runs if name in run.tracks]
        if len({place for track in tracks for place in (track.first, track.last)}) > 1:
            return name
    return there[0] if there else None


def epoch_length(tracks: list[Track]) -> Number | None:
    """Return how many steps an epoch has, where they begin anew in each; ``None`` where they count on."""
    spans: dict[Number, tuple[Number, Number]] = {}
    anew = False
    for track in tracks:
        own = {epoch: span for epoch, span in track.spans.items() if epoch is not None}
        anew = anew or any(later[0] < sooner[1] or later == sooner for sooner, later in _neighbours(own))
        for epoch, (least, most) in own.items():
            known = spans.get(epoch, (least, most))
            spans[epoch] = (min(least, known[0]), max(most, known[1]))
    # Between runs an epoch that is told late makes spans overlap, but not so far.
    if anew or any(later[0] <= sooner[0] for sooner, later in _neighbours(spans)):
        return max(most for _, most in spans.values()) - min(least for least, _ in spans.values()) + 1
    return None


def _neighbours(
    spans: dict[Number, tuple[Number, Number]],
) -> list[tuple[tuple[Number, Number], tuple[Number, Number]]]:
    ordered = [spans[epoch] for epoch in sorted(spans)]
    return list(zip(ordered, ordered[1:]))
