"""Runs a trainer with every random state seeded, as a kill test compares them all. Usage: … each|scheduled TRAINER ….

``each``: it saves after every step, so that nearly all of its life is a save.
"""

import random
import runpy
import sys

import numpy

from forewarn.inpod import SaveSchedule

random.seed(1)
numpy.random.seed(1)
if sys.argv[1] == "each":
    SaveSchedule.due = lambda *_arguments, **_options: True  # type: ignore[method-assign]
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
