"""A Lightning callback that heeds the warning, for ``lightning`` and ``pytorch_lightning`` alike."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from forewarn.contract import EXIT_STOPPED
from forewarn.inpod import dcp
from forewarn.inpod.loop import Loop
from forewarn.inpod.ranks import find_ranks
from forewarn.inpod.store import CheckpointStore

if TYPE_CHECKING:
    from forewarn.inpod.layout import Checkpoint
    from forewarn.inpod.loop import State
    from forewarn.inpod.store import Saving

FILE = "lightning.ckpt"
NAME = "lightning"


def _base() -> Any:
    """Return the Callback class of the package that the program uses; mixing the two is refused by Lightning."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if name in sys.modules:
            return sys.modules[name].Callback
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError("neither lightning nor pytorch_lightning is installed")


def _files(directory: str) -> list[str]:
    top = os.path.join(directory, FILE)
    if os.path.isfile(top):
        return [FILE]
    return [os.path.relpath(os.path.join(at, name), directory) for at, _, names in os.walk(top) for name in names]


class Heeding:
    """What the callback does: looks, saves and stops at the end of a batch."""

    def __init__(self, directory: str, keep_last: int, config: Any, options: dict[str, Any]) -> None:
        self._directory, self._keep_last, self._config, self._options = directory, keep_last, config, options
        self.loop: Loop | None = None
        self.exit_code = 0

    def newest(self) -> str | None:
        """Return the path of the newest whole checkpoint, or ``None``; before ``fit``, thus before any rank."""
        found = CheckpointStore(self._directory, config=self._config, sharded=True).restore(load=_path)
        return None if found is None else str(found.state)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to listen; the ranks exist now."""
        del pl_module
        self.exit_code = 0
        ranks = find_ranks()
        store = CheckpointStore(self._directory, self._keep_last, config=self._config, ranks=ranks, sharded=True)

        def files(path: str) -> list[str]:
            # Collective: Lightning gathers and lets one rank write, or writes with DCP where the model is sharded.
            with dcp.unwrapped():
                trainer.save_checkpoint(os.path.join(path, FILE))
            return _files(path) if ranks.rank == 0 else []

        def write(saving: Saving, _state: State) -> None:
            saving.write_files(files, NAME)

        self.loop = Loop(store, write=write, **self._options)
        self.loop.__enter__()

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Begin no step after a validation in which it was asked to stop."""
        del trainer
        if self.loop is not None and self.loop.stopped:
            raise StopIteration

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Look, save if it is time, stop if it is asked."""
        self._look(trainer)
        self._leave_loops(trainer)

    def on_validation_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Look in a validation too, which may be long; before training there is nothing to save."""
        if not trainer.sanity_checking:
            self._look(trainer)

    def on_train_epoch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Keep those who act on an epoch's end (early stopping, best models) from an epoch that is cut short."""
        self._leave_loops(trainer)

    def _look(self, trainer: Any) -> None:
        # A validation in which it was asked to stop is finished, since half of one is no metric; it is saved already.
        if self.loop is None or self.loop.stopped:
            return
        if self.loop.step(trainer.global_step, _nothing, epoch=trainer.current_epoch):
            trainer.should_stop = True
            self.exit_code = self.loop.exit_code

    def _leave_loops(self, trainer: Any) -> None:
        """End the loop that calls, as Lightning's loops let it be ended.

        For ``should_stop`` alone Lightning validates first, and trains on up to its ``min_epochs``. An epoch whose
        last batch is done ends as ever where it is only warned: a resume would take it for validated.
        """
        if self.loop is None or not self.loop.stopped or trainer.validating:
            return
        if self.loop.heed.signal or not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            raise StopIteration

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop listening."""
        del trainer, pl_module
        self._leave()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop listening. Lightning's own answer to SIGTERM is an exit with code 0, which reads as done: make it 75."""
        del trainer, pl_module
        if self.loop is not None and self.loop.heed.signal and isinstance(exception, SystemExit):
            self.exit_code = exception.code = EXIT_STOPPED
        self._leave()

    def _leave(self) -> None:
        loop, self.loop = self.loop, None
        if loop is not None:
            loop.__exit__(None, None, None)


def callback(directory: str | os.PathLike[str], *, keep_last: int = 2, config: Any = None, **options: Any) -> Any:
    """Return a callback that saves and stops as ``Loop`` does (``options`` are its).

    Use it as ``Trainer(callbacks=[heed])``, resume with ``trainer.fit(…, ckpt_path=heed.newest())``, end with
    ``sys.exit(heed.exit_code)``. What is saved is Lightning's own checkpoint: model, optimizers, schedulers, loops.
    """

    return type("Forewarn", (Heeding, _base()), {})(os.fspath(directory), keep_last, config, options)


def _path(checkpoint: Checkpoint) -> str:
    return os.path.join(checkpoint.path, FILE)


def _nothing() -> None:
    return None
