"""Kills what it was told of once whoever told it is gone, however that one ended (run as a program; stdlib only).

One process id per line on standard input; at its end each process group that still runs is killed. A thread's death
must not count as its process's death, so this is a pipe and not PR_SET_PDEATHSIG.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Collect process ids until the other side is gone, then kill their groups."""
    held: dict[int, int] = {}
    for line in sys.stdin.buffer:
        pid = int(line)
        with contextlib.suppress(ProcessLookupError):
            # The descriptor pins the process, so that an id which the kernel has given away again is never hit.
            held[pid] = os.pidfd_open(pid)
    for pid, descriptor in held.items():
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, 0)
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
