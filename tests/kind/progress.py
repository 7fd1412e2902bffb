"""Steps that say what they are doing: a counter, the elapsed time, and the tail of the log where one fails.

python -m tests.kind.progress TITLE COMMAND...      (one program as such a step; its output is in build/logs)
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from forewarn.errors import UserError
from tests.kind.places import LOGS

HEARTBEAT_SECONDS = 10.0
"""How long a step may be silent where the output is not a terminal."""


def elapsed(seconds: float) -> str:
    """Write a running time to the second: ``45 s``, ``2 min 10 s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Steps:
    """Numbers the planned steps on ``sys.stdout``; what their programs print goes to ``log``."""

    def __init__(self, log: Path) -> None:
        self._total = 0
        self._done = 0
        self.log = log
        self._terminal = sys.stdout.isatty()
        log.parent.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """Print one line that is not a step."""
        print(text, flush=True)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announce a step, keep saying that it runs, and say how long it took."""
        self._done += 1
        with self._timed(f"[{self._done:{len(str(self._total))}}/{self._total}] {title}"):
            yield

    @contextlib.contextmanager
    def extra(self, title: str) -> Iterator[None]:
        """Show something as a step is shown, without counting it."""
        with self._timed(title):
            yield

    def plan(self, steps: int) -> None:
        """Add to the total; what turns out not to be needed is taken off again by a negative number."""
        self._total += steps

    @contextlib.contextmanager
    def _timed(self, head: str) -> Iterator[None]:
        started = time.monotonic()
        over = threading.Event()
        pulse = threading.Thread(target=self._pulse, args=(head, started, over), daemon=True)
        print(head, end=" …" if self._terminal else "\n", flush=True)
        pulse.start()
        ok = False
        try:
            yield
            ok = True
        finally:
            over.set()
            pulse.join()
            took = time.monotonic() - started
            verdict = f"done ({elapsed(took)})" if ok else f"FAILED after {elapsed(took)}"
            if self._terminal:
                print(f"\r\033[K{head}: {verdict}", flush=True)
            elif not ok or took > 2:
                print(f"{head}: {verdict}", flush=True)

    def _pulse(self, head: str, started: float, over: threading.Event) -> None:
        while not over.wait(1.0 if self._terminal else HEARTBEAT_SECONDS):
            line = f"{head} … {elapsed(time.monotonic() - started)}"
            print(f"\r\033[K{line}" if self._terminal else line, end="" if self._terminal else "\n", flush=True)

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        directory: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run a program with its output in the log; ``UserError`` with its last lines where it fails."""
        with self.log.open("ab") as output:
            output.write(f"\n$ {' '.join(str(word) for word in argv)}\n".encode())
            output.flush()
            start = output.tell()
            try:
                code = subprocess.run(
                    [str(word) for word in argv],
                    check=False,
                    cwd=directory,
                    env={**os.environ, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=timeout,
                ).returncode
            except subprocess.TimeoutExpired:
                raise UserError(Path(argv[0]).name, f"no end after {timeout} s", f"see {self.log}") from None
            except FileNotFoundError:
                raise UserError(str(argv[0]), "this program is missing", "install it and run again") from None
        if code:
            with self.log.open("rb") as written:
                written.seek(start)
                lines = written.read().decode(errors="replace").splitlines()
            for line in lines[-15:]:
                print(f"    {line}", file=sys.stderr)
            raise UserError(Path(argv[0]).name, f"failed with exit code {code}", f"its whole output is in {self.log}")


def exit_code(action: Callable[[], None]) -> int:
    """Do something; return the exit code: 2 for a ``UserError``, which is told in one line, 130 for Ctrl-C."""
    try:
        action()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def main(argv: list[str]) -> int:
    """Run one program as a step; exit code 2 where it fails."""
    title, *command = argv
    steps = Steps(LOGS / f"{title.partition(':')[0]}.log")

    def step() -> None:
        with steps.extra(title):
            steps.run(command)

    return exit_code(step)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
