"""Saves and restores with torch.distributed.checkpoint (DCP), complete only by our own marker."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.inpod.layout import Checkpoint
    from forewarn.inpod.store import CheckpointStore, Restored, Saving

NAME = "torch-dcp"


@contextlib.contextmanager
def unwrapped() -> Iterator[None]:
    """Raise what is behind a ``CheckpointException``, which is no ``Exception`` and tells all ranks' tracebacks."""
    try:
        yield
    except BaseException as error:
        # Looked up where it is loaded only: to load it takes a second, and who raises it has.
        api = sys.modules.get("torch.distributed.checkpoint.api")
        if api is None or not isinstance(error, api.CheckpointException):
            raise
        behind = [failure for _, (failure, _) in sorted(error.failures.items()) if isinstance(failure, Exception)]
        # Every rank is told every rank's error; the system's says most.
        behind.sort(key=lambda failure: not isinstance(failure, OSError))
        raise (behind[0] if behind else RuntimeError(str(error).splitlines()[-1])) from None


def _own_files(directory: str, rank: int) -> list[str]:
    """Return the files that this rank wrote; the coordinator, rank 0, wrote the metadata as well."""
    mine = [name for name in os.listdir(directory) if name.startswith(f"__{rank}_")]
    return [*mine, ".metadata"] if rank == 0 else mine


def save(
    store: CheckpointStore,
    step: int,
    state: Mapping[str, Any],
    *,
    epoch: int | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Checkpoint:
    """Save with ``dcp.save`` into a sharded store, on every rank in the same step; raises ``CheckpointError``."""
    import torch.distributed.checkpoint as dcp

    saving = _begin(store, step, epoch, metrics)
    group = store.ranks.save_group()

    def write(directory: str) -> list[str]:
        with unwrapped():
            dcp.save(dict(state), checkpoint_id=directory, process_group=group)
        return _own_files(directory, store.ranks.rank)

    saving.write_files(write, NAME)
    return saving.publish()


def _begin(store: CheckpointStore, step: int, epoch: int | None, metrics: Mapping[str, float] | None) -> Saving:
    if not store.sharded:
        raise ValueError("DCP writes a directory: make the store with sharded=True, or with ranks")
    return store.begin(step, epoch=epoch, metrics=metrics)


class AsyncSaver:
    """``dcp.async_save``, one at a time: the step waits for the copy to the CPU alone.

    The checkpoint becomes complete at a ``poll`` in which every rank's future is done, which the ranks agree on, or
    at ``wait``. A failed one raises ``CheckpointError`` there and replaces nothing.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self._saving: Saving | None = None
        self._future: Any = None
        self._group = store.ranks.save_group()

    @property
    def outstanding(self) -> bool:
        """Whether a save has begun that is not complete yet."""
        return self._saving is not None

    def save(
        self,
        step: int,
        state: Mapping[str, Any],
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Begin a save, after the one before is complete. Collective."""
        import torch.distributed.checkpoint as dcp

        self.wait()
        saving = self._saving = _begin(self.store, step, epoch, metrics)
        try:
            with unwrapped():
                self._future = dcp.async_save(dict(state), checkpoint_id=saving.base, process_group=self._group)
        except Exception as error:
            saving.error = error
            self._future = None

    def written(self) -> bool:
        """Whether this rank has nothing left to write."""
        return self._future is None or bool(self._future.done())

    def poll(self) -> Checkpoint | None:
        """Make the save complete if every rank has written; collective, for the step boundary."""
        if self._saving is None or self.store.ranks.agree(not self.written()):
            return None
        return self.wait()

    def wait(self) -> Checkpoint | None:
        """Wait for the save that is outstanding and make it complete. Collective."""
        saving, future, self._saving, self._future = self._saving, self._future, None, None
        if saving is None:
            return None

        def written(directory: str) -> list[str]:
            if future is not None:
                with unwrapped():
                    future.result()
            return _own_files(directory, self.store.ranks.rank)

        if saving.error is None:
            saving.write_files(written, NAME)
        return saving.publish()


def restore(store: CheckpointStore, state: dict[str, Any], *, allow_other_config: bool = False) -> Restored | None:
    """Load the newest checkpoint that can be loaded into ``state``, in place, as ``dcp.load`` does; collective.

    Digests are compared before anything is read: DCP's ``.metadata`` is a pickle, and only what this run wrote is to
    be opened. The number of ranks may be another than at the save.
    """
    import torch.distributed.checkpoint as dcp

    group = store.ranks.save_group()

    def load(checkpoint: Checkpoint) -> Any:
        if checkpoint.manifest.serializer != NAME:
            raise ValueError(f"it was saved by {checkpoint.manifest.serializer!r}, not by DCP")
        with unwrapped():
            dcp.load(state, checkpoint_id=checkpoint.path, process_group=group)
        return state

    return store.restore(allow_other_config=allow_other_config, load=load)
