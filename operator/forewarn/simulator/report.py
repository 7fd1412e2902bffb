"""The timeline for people (one table, live on a terminal) and for programs (JSON)."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from forewarn import contract, wording
from forewarn.simulator import timeline
from forewarn.simulator.controller import Stage
from forewarn.simulator.world import Did, Happening, Logged

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Self, TextIO

    from forewarn.contract import Keys
    from forewarn.simulator import model
    from forewarn.simulator.controller import Progress
    from forewarn.simulator.runner import Played

WIDE = 104
"""Columns from which on the table has lines between its cells."""

WIDTH = 124
"""Columns of the table where no terminal says how many there are."""

HEAD_LINES, ROW_LINES = 8, 4
"""Lines on the screen of the table's head and foot, and of a row at most."""

LAST_WORDS = 3
"""Log lines shown of a pod that ended, and of each pod where a scenario failed (more of them there)."""


def table(played: Played, keys: Keys, width: int = WIDTH, most: int | None = None) -> Table:
    """Return the timeline as a table that fits ``width`` columns, or only its last rows, ``most`` of them."""
    several = len(played.scenario.pods) > 1
    result = Table(
        box=box.HEAVY_HEAD if width >= WIDE else None,
        padding=(0, 1, 0, 0) if width < WIDE else (0, 1),
        pad_edge=False,
        show_lines=width >= WIDE,
        caption="+: how long after what the controller did",
        caption_justify="left",
    )
    result.add_column("UTC", no_wrap=True)
    if several:
        result.add_column("pod", overflow="fold")
    result.add_column("what the controller did", overflow="fold")
    result.add_column("pod can\nread it", no_wrap=True)
    result.add_column("Event on the pod", overflow="fold")
    result.add_column("SIGTERM", no_wrap=True)
    result.add_column("exit code", overflow="fold")
    rows = timeline.rows(played.scenario, played.world.history, keys)
    for row in rows if most is None else rows[-most:]:
        cells: list[str | Text] = [f"{row.at:%H:%M:%S}"]
        if several:
            cells.append(row.pod)
        cells += [
            Text("\n").join([Text(row.did), *(Text(note, style="red") for note in row.notes)]),
            _after(row.readable.after) if row.readable else "",
            "\n".join(f"{came.what} {_after(came.after)}" for came in row.events),
            _after(row.signal.after) if row.signal else "",
            Text("\n").join([Text(f"{came.what} {_after(came.after)}") for came in row.exits]),
        ]
        result.add_row(*cells)
    return result


def _after(seconds: float) -> str:
    text = f"+{seconds:.1f} s" if seconds < 10 else f"+{wording.span(seconds)}"
    # Without a space: the table would break the line there, at a no-break space too.
    return text.replace(" ", "")


def summary(played: Played) -> list[str]:
    """Return what is said below the table: last words of the pods, and each expectation that failed."""
    lines = list(_last_words(played))
    steps = list(zip(played.scenario.steps, played.state.steps, strict=True))
    met = sum(step.expectation and progress.stage is Stage.DONE for step, progress in steps)
    wanted = sum(step.expectation for step, _ in steps)
    lines += [f"left behind: {what}" for what in played.left]
    if played.passed:
        lines.append(f"passed: {met} of {counted(wanted, 'expectation')} met" if wanted else "passed")
        return lines
    failed = [(step, progress) for step, progress in steps if progress.stage is Stage.FAILED]
    never = sum(progress.stage not in (Stage.DONE, Stage.FAILED) and not step.prelude for step, progress in steps)
    lines.append(f"FAILED: {met} of {counted(wanted, 'expectation')} met, {counted(never, 'step')} not done")
    lines += [f"  {step.place}: {step.verb}{_of(played, step)}: {progress.detail}" for step, progress in failed]
    return lines


def counted(number: int, of: str) -> str:
    """Write a number of things: ``1 step``, ``2 steps``."""
    return f"{number} {of}" if number == 1 else f"{number} {of}s"


def _of(played: Played, step: model.Step) -> str:
    return f" of pod {step.pod}" if len(played.scenario.pods) > 1 else ""


def _last_words(played: Played) -> list[str]:
    """Return each pod's last log lines, where it ended or the scenario failed."""
    lines: list[str] = []
    for name, pod in played.world.pods.items():
        if not pod.log or not (pod.ended or not played.passed):
            continue
        count = LAST_WORDS if played.passed else 4 * LAST_WORDS
        lines.append(f"last lines of {name}'s log:")
        lines += [f"  {line.at:%H:%M:%S} {line.text[:200]}" for line in list(pod.log)[-count:]]
    return lines


def as_json(played: Played, keys: Keys) -> str:
    """Return everything as JSON: the rows, each step's outcome, the pods' last words."""
    content = {
        "scenario": played.scenario.name,
        "namespace": played.namespace,
        "passed": played.passed,
        "start": _instant(played.state.start),
        "rows": [_row(row) for row in timeline.rows(played.scenario, played.world.history, keys)],
        "steps": [
            _step(step, progress) for step, progress in zip(played.scenario.steps, played.state.steps, strict=True)
        ],
        "logs": {
            name: [{"at": _instant(line.at), "container": line.container, "text": line.text} for line in pod.log]
            for name, pod in played.world.pods.items()
        },
        "left": played.left,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _row(row: timeline.Row) -> dict[str, Any]:
    def came(what: timeline.Came) -> dict[str, Any]:
        return {"what": what.what, "after_seconds": round(what.after, 3), "note": what.note}

    return {
        "at": _instant(row.at),
        "pod": row.pod,
        "did": row.did,
        "wrote": dict(row.wrote),
        "readable_after_seconds": round(row.readable.after, 3) if row.readable else None,
        "events": [came(event) for event in row.events],
        "signal_after_seconds": round(row.signal.after, 3) if row.signal else None,
        "exits": [came(end) for end in row.exits],
    }


def _step(step: model.Step, progress: Progress) -> dict[str, Any]:
    return {
        "place": str(step.place),
        "verb": step.verb,
        "pod": step.pod,
        "outcome": progress.stage.value,
        "detail": progress.detail,
        "ended": _instant(progress.ended),
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(contract.UTC).isoformat(timespec="milliseconds")


class Screen:
    """Shows a scenario while it plays: the table itself on a terminal, a line for each happening elsewhere."""

    def __init__(self, out: TextIO, err: TextIO, keys: Keys) -> None:
        self._out, self._err, self.keys = out, err, keys
        self._console = Console(file=out, highlight=False)
        if not self._console.is_terminal:
            self._console = Console(file=out, highlight=False, width=WIDTH)
        self._live: Live | None = None
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tell(self, played: Played, happening: Happening | None) -> None:
        """Show what has just happened."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            if happening is None or time.monotonic() - self._drawn > 0.1:
                self._drawn = time.monotonic()
                # What does not fit on the screen would be cut off below, where the news is.
                most = max((self._console.height - HEAD_LINES) // ROW_LINES, 1)
                shown = Group(table(played, self.keys, self._console.width, most), Text(_doing(played), style="dim"))
                self._live.update(shown, refresh=True)
            return
        if happening is not None and not isinstance(happening, Logged) and (line := self._line(played, happening)):
            print(line, file=self._err, flush=True)

    def _line(self, played: Played, happening: Happening) -> str:
        pod = f" {happening.pod}" if len(played.scenario.pods) > 1 else ""
        told = timeline.words(happening, self.keys) if isinstance(happening, Did) else timeline.told(happening)
        return f"{happening.at:%H:%M:%S}{pod} {told}" if told else ""

    def end(self, played: Played) -> None:
        """Print the whole timeline, and the outcome in the last lines."""
        self._end()
        self._console.print(table(played, self.keys, self._console.width))
        for line in summary(played):
            self._console.print(Text(line, style="red" if line.startswith("FAILED") else ""), soft_wrap=True)


def _doing(played: Played) -> str:
    """Say what a scenario waits for."""
    for step, progress in zip(played.scenario.steps, played.state.steps, strict=True):
        if progress.stage in (Stage.ACTING, Stage.OPEN):
            return (
                f"now: {step.verb}{_of(played, step)} — {progress.detail}" if progress.detail else f"now: {step.verb}"
            )
        if progress.stage is Stage.WAITING:
            return f"next: {step.verb}{_of(played, step)}"
    return ""
