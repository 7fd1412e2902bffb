"""In the pod: the files under the podinfo mount → save now, stop before the next unit.

Standard library only, Python 3.9+. Nothing here needs a pod: without /etc/podinfo no session is ever warned. All of it
is imported at once, so that a run does not come back for a module of a shared file that was replaced meanwhile.
"""

from forewarn.contract import EXIT_STOPPED
from forewarn.inpod.background import BackgroundSaver
from forewarn.inpod.cues import Cue, container_start, instants, runtime_limit
from forewarn.inpod.decisions import Episode, Policy, stop_asked
from forewarn.inpod.durable import CheckpointError
from forewarn.inpod.layout import Checkpoint
from forewarn.inpod.log import InterruptionLog, log_to
from forewarn.inpod.loop import Loop
from forewarn.inpod.ranks import Agreement, MpiRanks, Ranks, TorchRanks, agree, find_ranks
from forewarn.inpod.reader import PodInfo
from forewarn.inpod.schedule import SaveSchedule
from forewarn.inpod.serializers import Functions, Plain, Safetensors, Serializer, Torch
from forewarn.inpod.signals import KeepWorker, StopSignal
from forewarn.inpod.store import CheckpointStore, Restored
from forewarn.inpod.watching import Change, Watch, changes, watch
from forewarn.session import Facts

__all__ = [
    "EXIT_STOPPED",
    "Agreement",
    "BackgroundSaver",
    "Change",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "Cue",
    "Episode",
    "Facts",
    "Functions",
    "InterruptionLog",
    "KeepWorker",
    "Loop",
    "MpiRanks",
    "Plain",
    "PodInfo",
    "Policy",
    "Ranks",
    "Restored",
    "Safetensors",
    "SaveSchedule",
    "Serializer",
    "StopSignal",
    "Torch",
    "TorchRanks",
    "Watch",
    "agree",
    "changes",
    "container_start",
    "find_ranks",
    "instants",
    "log_to",
    "runtime_limit",
    "stop_asked",
    "watch",
]
