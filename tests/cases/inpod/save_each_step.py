"""Runs a trainer that saves after every step, so that nearly all of its life is a save. Usage: … TRAINER ARGUMENTS."""

import runpy
import sys

from forewarn.inpod import SaveSchedule

SaveSchedule.due = lambda *_arguments, **_options: True  # type: ignore[method-assign]
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
