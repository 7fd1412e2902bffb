"""Saves while the loop goes on: one at a time, waited for before the next and before the end."""

from __future__ import annotations

import copy
import logging
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

from forewarn.inpod import durable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.inpod.layout import Checkpoint
    from forewarn.inpod.store import CheckpointStore, Saving

log = logging.getLogger("forewarn")


def detached(state: Any) -> Any:
    """Return a copy that later steps do not change: torch tensors on the CPU, numpy arrays, everything else deep."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    # Only the plain types: a subclass may hold more than its items.
    if type(state) in (list, tuple):
        return type(state)(detached(item) for item in state)
    if type(state) in (dict, OrderedDict):
        return type(state)((key, detached(item)) for key, item in state.items())
    return copy.deepcopy(state)


class BackgroundSaver:
    """Saves into a store from a thread.

    ``save`` copies the state (memory for one checkpoint) and returns; the thread writes. With several ranks each
    writes its part, and the checkpoint becomes complete at a ``poll`` in which all ranks agree that they are done.
    A save that failed raises ``CheckpointError`` at the next ``poll``, ``save`` or ``wait``, once; it replaces nothing.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self.last: Checkpoint | None = None
        """The newest checkpoint that is complete and on the disk."""
        self._saving: Saving | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def outstanding(self) -> bool:
        """Whether a save has begun that has not been taken in."""
        return self._saving is not None

    def save(
        self,
        step: int,
        state: Callable[[], Any],
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Begin a save of what ``state`` returns, after the one before is complete; collective with several ranks."""
        self.wait()
        saving = self._saving = self.store.begin(step, epoch=epoch, metrics=metrics)
        copied = None
        try:
            copied = detached(state())
        except Exception as error:
            # Raised when the ranks take the save in, together: one that left here alone would leave the others waiting.
            saving.error = durable.foreign(error, "the state function")
        # Not a daemon: the interpreter waits for it at its end.
        self._thread = threading.Thread(target=self._run, args=(saving, copied), name="forewarn-save")
        self._thread.start()

    def _run(self, saving: Saving, state: Any) -> None:
        if saving.error is None:
            saving.write(state)
        if self.store.ranks.size == 1:
            # Nobody to agree with: complete at once, not at the next step.
            try:
                self.last = saving.publish()
            except BaseException as error:
                # Said now as well: a program that ends here asks no more.
                log.error("forewarn: %s", error)
                self._error = error

    def written(self) -> bool:
        """Whether this rank has nothing left to write."""
        return self._thread is None or not self._thread.is_alive()

    def poll(self) -> Checkpoint | None:
        """Take in a save that all ranks have written; return it, or ``None``. Collective, for the step boundary."""
        if self._saving is None or self.store.ranks.agree(not self.written()):
            return None
        return self._take_in()

    def wait(self) -> Checkpoint | None:
        """Wait for the save that is outstanding and take it in. Collective where the store has several ranks."""
        return None if self._saving is None else self._take_in()

    def _take_in(self) -> Checkpoint | None:
        saving, thread, self._saving, self._thread = self._saving, self._thread, None, None
        if thread is not None:
            thread.join()
        if saving is not None and self.store.ranks.size > 1:
            self.last = saving.publish()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self.last
