"""``forewarn rehearse -- CMD…``: plays warnings, withdrawals, SIGTERM and kills against a program, on a laptop."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Callable

from forewarn import contract
from forewarn.arguments import Parser
from forewarn.contract import UTC
from forewarn.errors import UserError
from forewarn.inpod import rehearsal
from forewarn.inpod.rehearsal import PLAYS, Act, Round
from forewarn.inpod.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\
It starts CMD once for each play and once more, left alone, to its end; PODINFO names a directory that swaps as in a
pod. A play begins when the output first tells a step.
Exit codes: 0 it always went on from where it was, 1 not, or it cannot be told, 2 error.

example: forewarn rehearse --within 5 -- python train.py
"""

READ_OUT = 1.0
"""Seconds in which the output is read to its end after the program's own."""


class Program:
    """One run of the command: its output is passed on, its steps are noted."""

    def __init__(self, command: Sequence[str], podinfo: str, pattern: re.Pattern[str] | None, round_: Round) -> None:
        self.round = round_
        self.seen = threading.Event()
        self._closed = False
        self._pattern = pattern
        environ = {**os.environ, contract.PODINFO_VARIABLE: podinfo, "PYTHONUNBUFFERED": "1"}
        try:
            self.process = subprocess.Popen(
                command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise UserError(command[0], error.strerror or str(error), "give a program that can be started") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        output = self.process.stdout
        if output is None:
            return
        rest = b""
        while block := os.read(output.fileno(), 65536):
            # A progress bar ends its lines with a carriage return alone.
            *lines, rest = re.split(rb"\r\n|[\r\n]", rest + block)
            for line in lines:
                self._note(line)
        self._note(rest)

    def _note(self, line: bytes) -> None:
        if self._closed:
            return
        text = line.decode("utf-8", "replace")
        if text:
            print(f"  | {text}", flush=True)
        if self.round.progress.read(text, self._pattern):
            self.seen.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_for_step(self, seconds: float) -> bool:
        """Wait until it has told a step; false where it ended before, or the time is over."""
        deadline = time.monotonic() + seconds
        while not self.seen.wait(0.02):
            if self.process.poll() is not None or time.monotonic() > deadline:
                return self.seen.is_set()
        return True

    def kill(self) -> None:
        """Kill it and whatever it started, as the end of a container does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Note how it ended; nothing of it stays."""
        self.process.wait()
        self.kill()
        # A helper in a session of its own may hold the output open: what it says is no longer the program's.
        self._reader.join(READ_OUT)
        self._closed = True
        if self.process.stdout and not self._reader.is_alive():
            self.process.stdout.close()
        self.round.code = self.process.returncode


def play(program: Program, acts: Sequence[Act], volume: Volume, grace: float, notice: float, limit: float) -> None:
    """Do each act at its moment, then wait for the program's end; ``grace``, ``notice``, ``limit``: seconds."""
    round_ = program.round
    if acts and not program.wait_for_step(limit):
        acts = ()
    begun = time.monotonic()
    for act in acts:
        if program.wait(max(0.0, begun + act.after - time.monotonic())):
            break
        round_.done.append(f"{act.what} at {act.after:.1f} s")
        print(f"  > {act.what}", flush=True)
        if act.what == "warn":
            volume.write_podinfo(_warning(datetime.now(UTC) + timedelta(seconds=notice)))
        elif act.what == "withdraw":
            volume.write_podinfo({})
        elif act.what == "kill":
            program.kill()
        else:
            # As the kubelet: to the container's first process alone.
            program.process.send_signal(signal.SIGTERM)
            if not program.wait(grace):
                round_.late = True
                program.kill()
    if not program.wait(limit):
        round_.done.append(f"killed after {limit:.0f} s")
        program.kill()
    program.close()


def _warning(at: datetime) -> dict[str, str]:
    return {
        contract.WARNING_AT: contract.format_instant(at),
        contract.WARNING_RISK: "0.50",
        contract.WARNING_MESSAGE: "A rehearsal: this session may be stopped soon.",
    }


def _number(low: float, what: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not low <= value < 1e6:
            raise UserError(what, f"{text!r} cannot be used", f"allowed: a number from {low:g} up")
        return value

    return read


def _plays(text: str, kills: int) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PLAYS:
            raise UserError("--play", f"no play {name!r}", f"allowed: {', '.join(PLAYS)}")
    if not names:
        raise UserError("--play", "no play is named", f"allowed: {', '.join(PLAYS)}")
    return [name for name in names for _ in range(kills if name == "kill" else 1)]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UserError("--step-pattern", f"{text!r}: {error}", "allowed: a regular expression with a group") from None
    if pattern.groups < 1:
        raise UserError("--step-pattern", f"{text!r} has no group", "allowed: a regular expression with a group")
    return pattern


def main(argv: list[str]) -> int:
    """Play, then print the table and what went wrong."""
    parser = Parser("forewarn rehearse", "Rehearses a stop with your own program.", EPILOG)
    parser.add_argument("--play", default=",".join(PLAYS), help=f"which, by commas: {', '.join(PLAYS)} (default all)")
    parser.add_argument("--kills", default="3", help="how often 'kill' is played (default 3)")
    parser.add_argument("--within", default="10", help="seconds from the first step in which it happens (default 10)")
    parser.add_argument("--grace", default="600", help="seconds from SIGTERM to SIGKILL (default 600)")
    parser.add_argument("--notice", default="60", help="seconds from the warning to its earliest stop (default 60)")
    parser.add_argument("--limit", default="3600", help="seconds that one run may take (default 3600)")
    parser.add_argument("--step-pattern", help="its group 1 (or 'step') is the step, 'epoch' the epoch")
    parser.add_argument("--seed", help="seed of the random moments (it is printed, to play the same again)")
    parser.add_argument("command", nargs="*", metavar="-- CMD", help="the program and its arguments")
    arguments = parser.parse_args(argv)
    if not arguments.command:
        raise UserError("forewarn rehearse", "no program is given", "forewarn rehearse -- CMD ARGUMENTS")
    plays = _plays(arguments.play, int(_number(0, "--kills")(arguments.kills)))
    within, limit = _number(0, "--within")(arguments.within), _number(1, "--limit")(arguments.limit)
    grace, notice = _number(0, "--grace")(arguments.grace), _number(0, "--notice")(arguments.notice)
    pattern = None if arguments.step_pattern is None else _pattern(arguments.step_pattern)
    seed = arguments.seed or str(random.SystemRandom().randrange(10**6))
    source = random.Random(seed)  # noqa: S311  (moments, no secrets)
    print(f"rehearsing {' '.join(arguments.command)} (seed {seed})")
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="forewarn-") as directory:
        volume = Volume(os.path.join(directory, "podinfo"))
        for name in [*plays, "end"]:
            volume.write_podinfo({})
            rounds.append(Round(name))
            print(f"round {len(rounds)}: {PLAYS.get(name, 'left alone, to its end')}", flush=True)
            program = Program(arguments.command, volume.path, pattern, rounds[-1])
            try:
                play(program, rehearsal.acts(name, within, source), volume, grace, notice, limit)
            except BaseException:
                program.kill()
                raise
            if rounds[-1].over:
                if name != "end":
                    print("it came to its end, so nothing more is played: give it more to do, or a smaller --within")
                break
    rounds = rehearsal.until_end(rounds)
    judged = rehearsal.judge(rounds)
    found = rehearsal.problems(rounds, judged)
    print(f"\n{rehearsal.table(rounds, judged)}\n")
    for line in found:
        print(f"failed: {line}", file=sys.stderr)
    if not found:
        print(rehearsal.passed(rounds, judged))
    return 1 if found else 0
