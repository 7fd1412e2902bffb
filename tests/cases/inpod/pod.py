"""Runs a trainer in a pod: its output also goes into a file that outlives the pod, with what the watch told.

Usage: … OUTPUT TRAINER ARGUMENTS.
"""

import os
import runpy
import sys
import threading

from forewarn.inpod import PodInfo, watch

lock = threading.Lock()
output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Both:
    """Standard output, twice."""

    def write(self, text: str) -> int:
        with lock:
            os.write(output, text.encode())
            return sys.__stdout__.write(text)

    def flush(self) -> None:
        sys.__stdout__.flush()


def tell(what: str) -> None:
    sys.stdout.write(f"podinfo: {what}\n")
    sys.stdout.flush()


sys.stdout = Both()
sys.argv = sys.argv[2:]
with watch(PodInfo(), warned=lambda _: tell("warned"), withdrawn=lambda _: tell("withdrawn")):
    runpy.run_path(sys.argv[0], run_name="__main__")
