"""Processes of a test run: their output goes to a file, and they never outlive the run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, TypeVar

from tests.support.waiting import until

T = TypeVar("T")
_lock = threading.Lock()
_leash: subprocess.Popen[bytes] | None = None


def _hold(pid: int) -> None:
    """Have the process group of ``pid`` killed when this process is gone, even by SIGKILL."""
    global _leash
    with _lock:
        if _leash is None or _leash.poll() is not None:
            program = Path(__file__).with_name("leash.py")
            _leash = subprocess.Popen(
                [sys.executable, "-I", str(program)], stdin=subprocess.PIPE, start_new_session=True
            )
        assert _leash.stdin is not None
        _leash.stdin.write(b"%d\n" % pid)
        _leash.stdin.flush()


class Process:
    """A running program in a process group of its own; ``log`` holds its standard output and error."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.log = log
        self.name = Path(argv[0]).name
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else {**os.environ, **env},
                cwd=directory,
                start_new_session=True,
            )
        _hold(self._popen.pid)

    @property
    def pid(self) -> int:
        """The process id (also its group's)."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """The exit code (negative: the signal), or ``None`` while it runs."""
        return self._popen.poll()

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 20) -> str:
        """Return the last lines that it printed."""
        return "\n".join(self.output().splitlines()[-lines:])

    def signal(self, number: int) -> None:
        """Send a signal to the program alone."""
        self._popen.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Wait for its end and return the exit code; ``TimeoutError`` with its last lines after ``timeout`` seconds."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {timeout} s:\n{self.tail()}") from None

    def until(self, look: Callable[[], T | Literal[False] | None], what: str, seconds: float = 20.0) -> T:
        """Wait as ``waiting.until`` does; ``RuntimeError`` if the program ends first."""

        def alive() -> T | Literal[False] | None:
            # Asked first: what it did just before its end counts.
            code = self.code
            found = look()
            if not found and code is not None:
                raise RuntimeError(f"{self.name} ended with {code} before {what}:\n{self.tail()}")
            return found

        return until(alive, lambda: f"{self.name}: {what}; it says:\n{self.tail()}", seconds)

    def stop(self, timeout: float = 15) -> int:
        """End it by SIGTERM, its whole group by SIGKILL after ``timeout`` seconds; return the exit code."""
        if self.code is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                return self.wait(timeout)
        return self.kill()

    def kill(self) -> int:
        """End it and its group by SIGKILL; return the exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self._popen.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
