"""Runs every test: stages side by side where they do not get in each other's way, one line of result at the end.

    python -m tests.stages [lint] [unit] [integration] [inpod] [e2e]      (default: all of them)

Unit and integration tests run while the cluster is prepared; the end-to-end tests follow. A stage's whole output is in
build/logs. The last line is ``N passed, N failed, N skipped`` over all stages; a stage that ends without a report
counts as one failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.kind.places import BUILD, LOGS
from tests.kind.progress import elapsed
from tests.support.cluster import FAILURES
from tests.support.programs import cache

PYTHON = sys.executable
TORCH = str(cache() / "torch-venv" / "bin" / "python")
"""Of the environment that ``make torch-env`` makes."""
INPOD = "tests/integration/inpod"
TORCH_ALONE = f"{INPOD}/test_torch_state.py"
"""Imports torch as a whole, so it can be collected in the stage inpod only; other files mark the tests that need it."""
NAMES = ("lint", "unit", "integration", "inpod", "e2e")
NEEDED = {"integration": {"tools"}, "inpod": {"torch"}, "e2e": {"tools", "cluster", "disruptive"}}
HEARTBEAT_SECONDS = 30.0
SHOWN_LINES = 60
"""Of a failing stage's output."""


@dataclass(frozen=True)
class Stage:
    """One command; ``report`` is a test run's JUnit file, ``tells`` whether its lines are passed on as they come."""

    name: str
    argv: Sequence[str]
    report: Path | None = None
    tells: bool = False


@dataclass
class Outcome:
    """What became of a stage."""

    stage: Stage
    code: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The summary line."""
        verdict = "ok" if self.code == 0 else "FAILED"
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped" if self.stage.report else ""
        return f"{self.stage.name:<12} {verdict:<7} {elapsed(self.seconds):>12}  {counts}".rstrip()


_printing = threading.Lock()


def say(text: str) -> None:
    """Print a line whole, whichever thread it comes from."""
    with _printing:
        print(text, flush=True)


def run(stage: Stage) -> Outcome:
    """Run a stage with its output in its log, saying that it goes on."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{stage.name}.log"
    if stage.report is not None:
        stage.report.parent.mkdir(parents=True, exist_ok=True)
        stage.report.unlink(missing_ok=True)
    say(f"{stage.name}: starts (output in {log.relative_to(BUILD.parent)})")
    started = time.monotonic()
    last = [""]
    with log.open("wb") as output:
        process = subprocess.Popen(
            stage.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        over = threading.Event()
        pulse = threading.Thread(target=_pulse, args=(stage, started, last, over), daemon=True)
        pulse.start()
        assert process.stdout is not None
        rest = b""
        # Not by lines: pytest writes its dots one by one, and they are what the heartbeat shows.
        while piece := os.read(process.stdout.fileno(), 65536):
            output.write(piece)
            output.flush()
            *whole, rest = (rest + piece).split(b"\n")
            for text in whole if stage.tells else ():
                say(f"{stage.name}: {text.decode(errors='replace').rstrip()}")
            shown = [text for text in (*whole, rest) if text.strip()]
            if shown:
                last[0] = shown[-1].decode(errors="replace").strip()
        code = process.wait()
        over.set()
    pulse.join()
    outcome = counted(stage, code, time.monotonic() - started)
    say(f"{stage.name}: {outcome.line.removeprefix(stage.name).strip()}")
    if code and not stage.tells:
        for line in log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]:
            say(f"    {line}")
    return outcome


def _pulse(stage: Stage, started: float, last: list[str], over: threading.Event) -> None:
    while not over.wait(HEARTBEAT_SECONDS):
        if not stage.tells:
            say(f"{stage.name}: … {elapsed(time.monotonic() - started)}  {last[0][-90:]}")


def counted(stage: Stage, code: int, seconds: float) -> Outcome:
    """Return the outcome with the counts of the stage's report; without a readable report it is one failure."""
    outcome = Outcome(stage, code, seconds)
    if stage.report is None:
        # Not a test run: only its failure counts.
        outcome.failed = 1 if code else 0
        return outcome
    try:
        suites = list(ET.parse(stage.report).getroot().iter("testsuite"))
    except (OSError, ET.ParseError):
        outcome.failed, outcome.code = 1, code or 1
        return outcome
    for suite in suites:
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        outcome.failed += failed
        outcome.skipped += skipped
        outcome.passed += int(suite.get("tests", 0)) - failed - skipped
        for case in suite.iter("skipped"):
            reason = skip_reason(case)
            outcome.reasons[reason] = outcome.reasons.get(reason, 0) + 1
    # pytest's 5 means that nothing was selected; other codes without a failed test (a crash, a usage error) count.
    if code not in (0, 5) and not outcome.failed:
        outcome.failed = 1
    if code == 5:
        outcome.code = 0
    return outcome


def skip_reason(skipped: ET.Element) -> str:
    """Return why something was skipped; of a whole file the report says that in its text alone."""
    said = skipped.get("message", "")
    whole_file = re.search(r"Skipped: (.*?)['\"]?\)?$", skipped.text or "", re.DOTALL)
    if said == "collection skipped" and whole_file:
        said = whole_file[1]
    return re.sub(r"\s+", " ", said) or "no reason given"


def pytest_stage(name: str, *arguments: str, python: str = PYTHON) -> Stage:
    """Return a stage of pytest, run by ``python``."""
    report = BUILD / "reports" / f"{name}.xml"
    return Stage(name, [python, "-m", "pytest", "-q", f"--junitxml={report}", *arguments], report)


STAGES = {
    "lint": Stage("lint", ["tools/lint"]),
    "tools": Stage("tools", [PYTHON, "-m", "tests.kind", "tools"], tells=True),
    "unit": pytest_stage("unit", "tests/unit", "-n", "2"),
    "integration": pytest_stage("integration", "tests/integration", f"--ignore={TORCH_ALONE}", "-n", "2"),
    "torch": Stage("torch", ["make", "--silent", "torch-env"], tells=True),
    "inpod": pytest_stage("inpod", INPOD, f"--confcutdir={INPOD}", "-m", "torch", "-n", "2", python=TORCH),
    "cluster": Stage("cluster", [PYTHON, "-m", "tests.kind", "image"], tells=True),
    "e2e": pytest_stage("e2e", "tests/e2e", "-m", "not soak and not disruptive", "-n", "4", "--dist=loadfile"),
    "disruptive": pytest_stage("disruptive", "tests/e2e", "-m", "disruptive and not soak"),
}


def in_turn(names: Iterable[str], wanted: set[str]) -> list[Outcome]:
    """Run those of the stages that are wanted, one after the other; without its base a stage is not started."""
    outcomes: list[Outcome] = []
    for name in names:
        if name not in wanted:
            continue
        outcome = run(STAGES[name])
        outcomes.append(outcome)
        if outcome.code and name in ("tools", "torch", "cluster"):
            break
    return outcomes


def main(names: list[str]) -> int:
    """Run the stages that are named and what they need; exit code 1 where anything failed."""
    wanted = set(names or NAMES)
    if unknown := wanted - set(NAMES):
        print(f"error: no stage {', '.join(sorted(unknown))}; one of: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    wanted |= set().union(*(NEEDED.get(name, set()) for name in wanted))
    if "e2e" in wanted:
        shutil.rmtree(FAILURES, ignore_errors=True)
    started = time.monotonic()
    outcomes = in_turn(["tools"], wanted)
    if not any(outcome.code for outcome in outcomes):
        with ThreadPoolExecutor() as pool:
            near = pool.submit(in_turn, ["lint", "unit", "integration", "torch", "inpod"], wanted)
            far = pool.submit(in_turn, ["cluster"], wanted)
            outcomes += near.result() + far.result()
        if "e2e" in wanted and not far.result()[-1].code:
            outcomes += in_turn(["e2e", "disruptive"], wanted)
    return summarise(outcomes, wanted, time.monotonic() - started)


def summarise(outcomes: Sequence[Outcome], wanted: set[str], seconds: float) -> int:
    """Print each stage's line, the reasons of skips, and the sum last."""
    print()
    for outcome in outcomes:
        print(outcome.line)
    for outcome in outcomes:
        for reason, count in sorted(outcome.reasons.items()):
            print(f"skipped in {outcome.stage.name}: {count} × {reason}")
    for folder in sorted(FAILURES.glob("*")) if "e2e" in wanted else ():
        print(f"kept of the cluster: {folder.relative_to(BUILD.parent)}")
    if not_run := sorted(wanted - {outcome.stage.name for outcome in outcomes}):
        print(f"not run: {', '.join(not_run)}")
    print(f"total time {elapsed(seconds)}")
    passed, failed, skipped = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not_run or any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(["operator", ".", *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
