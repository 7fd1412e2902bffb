"""Starts trainers quickly: imports what they need once, and forks one for each line on standard input.

A line is a JSON object: ``argv`` (the trainer and its arguments), ``output`` (a file), ``each`` (save after every step,
so that nearly all of its life is a save). It answers with the process's id, and with its wait status once it ended.
Usage: … MODULE….
"""

import importlib
import json
import os
import random
import runpy
import sys

from forewarn.inpod import SaveSchedule

for name in sys.argv[1:]:
    importlib.import_module(name)
import numpy  # noqa: E402


def run(request: dict) -> int:
    """Run a trainer with every random state seeded, since a kill test compares them all."""
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    random.seed(1)
    numpy.random.seed(1)
    if request["each"]:
        SaveSchedule.due = lambda *_arguments, **_options: True  # type: ignore[method-assign]
    sys.argv = request["argv"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    return 0


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = run(json.loads(line))
            sys.stdout.flush()
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
