"""Runs a trainer in a pod: its output also goes into a file that outlives the pod, with what the watch told.

Usage: … OUTPUT TRAINER ARGUMENTS.
"""

import os
import runpy
import sys
import threading

from forewarn.inpod import PodInfo, watch

lock = threading.Lock()
held = threading.local()
output = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Both:
    """Standard output, twice; in whole lines, since print writes a line in two parts and two threads print."""

    def write(self, text: str) -> int:
        held.text = getattr(held, "text", "") + text
        if held.text.endswith("\n"):
            whole, held.text = held.text, ""
            with lock:
                os.write(output, whole.encode())
                sys.__stdout__.write(whole)
        return len(text)

    def flush(self) -> None:
        sys.__stdout__.flush()


def tell(what: str) -> None:
    sys.stdout.write(f"podinfo: {what}\n")
    sys.stdout.flush()


sys.stdout = Both()
sys.argv = sys.argv[2:]
with watch(PodInfo(), warned=lambda _: tell("warned"), withdrawn=lambda _: tell("withdrawn")):
    runpy.run_path(sys.argv[0], run_name="__main__")
