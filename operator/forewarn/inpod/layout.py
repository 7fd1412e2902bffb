"""What lies in a directory of checkpoints: which are complete, which to delete, and how to delete one."""

from __future__ import annotations

import logging
import math
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.inpod import durable, manifest
from forewarn.inpod.manifest import DATA, DONE, SIDECAR, Manifest, Name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

log = logging.getLogger("forewarn")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: ``path`` is its file, or its directory where it is sharded."""

    name: Name
    path: str
    manifest: Manifest

    @property
    def step(self) -> int:
        """The step after which it was saved."""
        return self.manifest.step

    @property
    def sharded(self) -> bool:
        """Whether it is a directory of parts."""
        return not self.path.endswith(DATA)

    def file(self, name: str) -> str:
        """Return the path of one of the manifest's files."""
        return os.path.join(self.path if self.sharded else os.path.dirname(self.path), name)


@dataclass(frozen=True)
class Defect:
    """Why there is no checkpoint of a name: never finished, or ``damaged`` after it was."""

    reason: str
    damaged: bool


def names(directory: str) -> set[Name]:
    """Return what the directory holds, complete or not; nothing where it does not exist. Raises ``OSError``."""
    try:
        return {name for entry in os.listdir(directory) if (name := manifest.parse_name(entry))}
    except FileNotFoundError:
        return set()


def find(directory: str, name: Name) -> Checkpoint | Defect:
    """Return a checkpoint whose files all have the size that its manifest says, or why there is none."""
    base = os.path.join(directory, str(name))
    sharded = os.path.isdir(base)
    try:
        with open(os.path.join(base, DONE) if sharded else base + SIDECAR, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return Defect("it was never finished", damaged=False)
    except OSError as error:
        return Defect(str(error), damaged=True)
    try:
        checkpoint = Checkpoint(name, base if sharded else base + DATA, manifest.parse(data))
        for entry, written in checkpoint.manifest.files.items():
            size = os.stat(checkpoint.file(entry)).st_size
            if size != written.size:
                return Defect(f"{entry} has {size} bytes instead of {written.size}", damaged=True)
    except (OSError, ValueError) as error:
        return Defect(str(error), damaged=True)
    return checkpoint


def complete(directory: str) -> list[Checkpoint]:
    """Return the complete checkpoints, the newest first. Raises ``OSError``."""
    found = (find(directory, name) for name in sorted(names(directory), reverse=True))
    return [checkpoint for checkpoint in found if isinstance(checkpoint, Checkpoint)]


def best_of(checkpoints: Sequence[Checkpoint], metric: str | None, highest: bool) -> Checkpoint | None:
    """Return the checkpoint with the best value of a metric; of equals the older one. Not a number is no value."""
    if metric is None:
        return None
    rated = [
        checkpoint
        for checkpoint in checkpoints
        if metric in checkpoint.manifest.metrics and not math.isnan(checkpoint.manifest.metrics[metric])
    ]
    if not rated:
        return None
    rated.sort(key=lambda checkpoint: checkpoint.name)
    pick = max if highest else min
    return pick(rated, key=lambda checkpoint: checkpoint.manifest.metrics[metric])


def to_delete(
    present: Collection[Name],
    whole: Sequence[Checkpoint],
    keep_last: int,
    best: Checkpoint | None,
    bad: Collection[Name],
) -> list[Name]:
    """Return what a finished save makes superfluous.

    ``whole``: the complete ones, newest first. ``bad``: complete ones that could not be loaded; they do not count
    as kept. A leftover that is newer than every complete one may be somebody's save in progress, and stays.
    """
    good = [checkpoint for checkpoint in whole if checkpoint.name not in bad]
    if not good:
        return []
    kept = {checkpoint.name for checkpoint in good[:keep_last]} | ({best.name} if best else set())
    return sorted(name for name in present if name not in kept and name < good[0].name)


def delete(directory: str, name: Name) -> None:
    """Delete a checkpoint or leftover, its marker first, so that what is half deleted is incomplete, not damaged.

    What cannot be deleted is logged and left: it takes room, but it does no harm.
    """
    base = os.path.join(directory, str(name))
    try:
        if os.path.isdir(base):
            durable.remove(os.path.join(base, DONE))
            shutil.rmtree(base)
        for ending in (SIDECAR, DATA, SIDECAR + manifest.TEMPORARY, DATA + manifest.TEMPORARY):
            durable.remove(base + ending)
    except FileNotFoundError:
        pass  # another run in the same directory deletes it too
    except OSError as error:
        log.warning("forewarn: the old checkpoint %s could not be deleted: %s", base, error)
