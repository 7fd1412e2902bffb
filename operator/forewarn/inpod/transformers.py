"""A ``TrainerCallback`` for Hugging Face's Trainer that heeds the warning."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from datetime import datetime
from typing import Any

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod import durable, manifest
from forewarn.inpod.heed import Heed, Look
from forewarn.inpod.manifest import DONE, Manifest
from forewarn.inpod.ranks import Ranks, find_ranks

log = logging.getLogger("forewarn")

NAME = "transformers"


def newest(output_dir: str | os.PathLike[str]) -> str | None:
    """Return the newest whole ``checkpoint-N`` of a Trainer, for ``resume_from_checkpoint``; ``None`` for none.

    Whole: our marker was written after it and the digests of its files are the marker's. The Trainer itself takes
    the highest N, whole or not.
    """
    top = os.fspath(output_dir)
    entries = os.listdir(top) if os.path.isdir(top) else []
    numbers = sorted(
        (int(entry[11:]) for entry in entries if re.fullmatch(r"checkpoint-\d{1,18}", entry)), reverse=True
    )
    for number in numbers:
        path = os.path.join(top, f"checkpoint-{number}")
        reason = _damage(path)
        if reason is None:
            return path
        log.warning("forewarn: %s is not used: %s", path, reason)
    return None


def _damage(path: str) -> str | None:
    try:
        with open(os.path.join(path, DONE), "rb") as file:
            files = manifest.parse(file.read()).files
        wrong = [name for name, written in files.items() if durable.measure(os.path.join(path, name)) != written]
    except (OSError, ValueError) as error:
        return str(error)
    return f"damaged: {', '.join(wrong)}" if wrong else None


def mark(path: str, step: int, cost: float, ranks: int = 1) -> None:
    """Make a directory that a Trainer has written durable, then write the marker that makes it whole.

    Raises ``OSError``.
    """
    names = [os.path.relpath(os.path.join(at, name), path) for at, _, found in os.walk(path) for name in found]
    files = {name: durable.sync_file(os.path.join(path, name)) for name in names if name != DONE}
    for at, _, _ in os.walk(path):
        durable.sync_directory(at)
    durable.sync_directory(os.path.dirname(path))
    now = contract.format_instant(datetime.now(UTC))
    durable.put(os.path.join(path, DONE), manifest.dump(Manifest(step, NAME, files, now, cost, ranks)))


class Heeding:
    """What the callback does: asks the Trainer to save and to stop, and marks what it saved."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.exit_code = 0
        self._heed: Heed | None = None
        self._ranks = Ranks()
        self._begun: float | None = None
        self._saved: int | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to listen."""
        del control
        self.exit_code = 0
        if args.save_total_limit == 1:
            log.warning("forewarn: save_total_limit=1 deletes the only whole checkpoint while the next is written")
        self._ranks = find_ranks()
        self._heed = Heed(self._ranks, **self._options)
        self._heed.__enter__()
        self._saved = state.global_step or None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Look; ask for what is due."""
        del args
        look = self._heed.look() if self._heed is not None else None
        if look is not None and self._heed is not None:
            self._ask(look, state.global_step, control)

    def _ask(self, look: Look, step: int, control: Any) -> None:
        heed = self._heed
        if (look.due or look.fired or look.stop) and self._saved != step:
            control.should_save = True
        if look.stop:
            control.should_training_stop = True
            self.exit_code = contract.EXIT_STOPPED
            # An evaluation may take longer than there is.
            control.should_evaluate = False
        if (look.fired or look.stop) and self._ranks.rank == 0:
            log.warning("forewarn: step %d, %s; %s", step, look.why, "stopping" if look.stop else "going on")
        if control.should_save and heed is not None:
            self._begun = time.monotonic()
            heed.schedule.restart(heed.tick())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Once it stops, take an epoch that is cut short for no whole one, which asks for an evaluation and a save."""
        del args, state
        if self.exit_code:
            control.should_evaluate = control.should_save = False

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint whole."""
        del control
        heed, step = self._heed, state.global_step
        cost = time.monotonic() - self._begun if self._begun is not None else 0.0
        self._begun = None
        # Every rank has written its part before rank 0 reads them all.
        self._ranks.agree(False)
        if self._ranks.rank == 0:
            try:
                mark(os.path.join(args.output_dir, f"checkpoint-{step}"), step, cost, self._ranks.size)
            except OSError as error:
                log.error("forewarn: %s", durable.cannot_save(args.output_dir, error))
                return
        self._saved = step
        if heed is not None and cost > 0:
            heed.schedule.saved(heed.tick(), cost)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop listening."""
        del args, state, control
        heed, self._heed = self._heed, None
        with contextlib.suppress(ValueError):
            if heed is not None:
                heed.__exit__(None, None, None)


def callback(**options: Any) -> Any:
    """Return a callback for ``Trainer(callbacks=[…])``; ``options`` are those of ``Heed``.

    Resume with ``trainer.train(resume_from_checkpoint=newest(output_dir))``, end with ``sys.exit(heed.exit_code)``.
    Keep ``save_total_limit`` at 2 or more: the Trainer deletes an old checkpoint before a new one is marked whole.
    """
    from transformers import TrainerCallback

    return type("Forewarn", (Heeding, TrainerCallback), {})(options)
