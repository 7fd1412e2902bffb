"""Lets the ranks of a distributed job agree, in the same step: torch.distributed, MPI, or a single process."""

from __future__ import annotations

import array
import sys
from typing import TYPE_CHECKING, Any

from forewarn.inpod.schedule import number

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STEPS = 1000
"""Steps between two exchanges, at most, whatever the wish in seconds says."""


class Ranks:
    """A job of one process; the base of the others.

    Every method but the two facts is collective: each rank calls it, in the same step.
    """

    rank = 0
    size = 1

    def highest(self, values: Sequence[int]) -> list[int]:
        """Return for each position the highest value that a rank has there."""
        return list(values)

    def agree(self, flag: bool) -> bool:
        """Whether any rank has the flag set."""
        return self.highest([int(flag)])[0] > 0

    def save_group(self) -> Any:
        """Return a torch process group of all ranks for saves alone, or ``None`` where there is no such thing."""
        return None

    def lowest(self, value: int) -> int:
        """Return the lowest value that a rank has."""
        return -self.highest([-value])[0]


class TorchRanks(Ranks):
    """The ranks of ``torch.distributed``, over a gloo group of its own.

    Made once by all ranks together. Its own group meets neither NCCL (the flag stays on the CPU) nor an asynchronous
    save that uses the default group at the same moment.
    """

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.world = dist.group.WORLD
        self._group = dist.new_group(backend="gloo")
        self._save_group: Any = None
        # A thread of gloo drops its reference after the call has returned. Were that the last one, it would wait for
        # the interpreter's lock, and abort the process when the interpreter ends meanwhile: so one tensor of each
        # length is kept, for as long as this object is.
        self._tensors: dict[int, Any] = {}
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def highest(self, values: Sequence[int]) -> list[int]:
        """Return for each position the highest value that a rank has there (one all-reduce)."""
        given = self._torch.tensor(list(values), dtype=self._torch.int64)
        tensor = self._tensors.setdefault(len(values), given)
        tensor.copy_(given)
        self._dist.all_reduce(tensor, op=self._dist.ReduceOp.MAX, group=self._group)
        return [int(value) for value in tensor.tolist()]

    def save_group(self) -> Any:
        """Return one more gloo group of all ranks, for saves alone; collective the first time."""
        if self._save_group is None:
            self._save_group = self._dist.new_group(backend="gloo")
        return self._save_group


class MpiRanks(Ranks):
    """The ranks of an MPI communicator (mpi4py), over a duplicate of it."""

    def __init__(self, communicator: Any = None) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._communicator = (communicator or MPI.COMM_WORLD).Dup()
        self.rank, self.size = self._communicator.Get_rank(), self._communicator.Get_size()

    def highest(self, values: Sequence[int]) -> list[int]:
        """Return for each position the highest value that a rank has there (one all-reduce)."""
        send, receive = array.array("q", values), array.array("q", [0] * len(values))
        self._communicator.Allreduce(send, receive, op=self._mpi.MAX)
        return list(receive)


_ONE = Ranks()
_found: Ranks = _ONE


def find_ranks() -> Ranks:
    """Return the ranks of this job, found in what the program has itself set up; collective where it has.

    Nothing is imported: a program that has not loaded torch or mpi4py is a single process, as is one whose process
    group is not initialized yet.
    """
    global _found
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        if not (isinstance(_found, TorchRanks) and _found.world is dist.group.WORLD):
            _found = TorchRanks()
        return _found
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        if not isinstance(_found, MpiRanks):
            _found = MpiRanks()
        return _found
    return _ONE


def agree(flag: bool) -> bool:
    """Whether any rank has the flag set. The same call on every rank, in the same step."""
    return find_ranks().agree(flag)


class Agreement:
    """Exchanges flags at a cadence that is agreed by counting steps, never by a rank's own clock.

    ``every``: steps between two exchanges. ``seconds``: instead, about how long between two; the ranks then agree, in
    the exchange itself, after how many steps the next one comes.
    """

    def __init__(self, among: Ranks | None = None, every: int = 1, seconds: float | None = None) -> None:
        if not hasattr(every, "__index__"):
            raise TypeError(f"every must be a whole number of steps, not {every!r}")
        if every < 1 or (seconds is not None and not number("seconds", seconds) > 0):
            raise ValueError("every must be 1 or more, seconds above 0")
        self.ranks = among or find_ranks()
        self._seconds = seconds if self.ranks.size > 1 else None
        self._every = every if seconds is None and self.ranks.size > 1 else 1
        self._count = 0
        self._since: float | None = None
        self._kept: list[bool] = []

    def exchange(self, flags: Sequence[bool], now: float) -> list[bool] | None:
        """Return each flag OR-ed over the ranks, or ``None`` in a step without an exchange.

        One call per step, on every rank, with equally many flags. ``now``: seconds of a monotonic clock.
        """
        self._count += 1
        if self._since is None:
            self._since = now
        if self._count < self._every:
            return None
        wish = self._every
        if self._seconds is not None:
            a_step = max(now - self._since, 1e-6) / self._count
            # Growth is bounded, so that fast first steps do not leave slow later ones without an exchange for long.
            wish = max(1, min(int(self._seconds / a_step), 2 * self._every, MOST_STEPS))
        *agreed, fewest = self.ranks.highest([*map(int, flags), -wish])
        self._every, self._count, self._since = -fewest, 0, now
        return [flag > 0 for flag in agreed]

    def agree(self, flag: bool, now: float) -> bool:
        """Whether any rank has set the flag since the last exchange; false in a step without one."""
        self._kept = [flag or any(self._kept)]
        agreed = self.exchange(self._kept, now)
        if agreed is None:
            return False
        self._kept = []
        return agreed[0]
