"""Keeps checkpoints in a directory: whole ones only, the old deleted after the new is durable, the newest restored."""

from __future__ import annotations

import logging
import operator
import os
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Callable

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod import durable, layout, manifest, place, serializers
from forewarn.inpod.durable import CheckpointError, Written
from forewarn.inpod.layout import Checkpoint, Defect
from forewarn.inpod.manifest import DATA, DONE, SIDECAR, TEMPORARY, Manifest, Name
from forewarn.inpod.ranks import Ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.inpod.serializers import Serializer

log = logging.getLogger("forewarn")


@dataclass(frozen=True)
class Restored:
    """What ``restore`` found. ``skipped``: newer checkpoints that could not be used, each with the reason."""

    state: Any
    checkpoint: Checkpoint
    skipped: tuple[str, ...] = ()

    @property
    def step(self) -> int:
        """The step after which it was saved."""
        return self.checkpoint.step


class CheckpointStore:
    """A directory of checkpoints of one run.

    ``keep_last``: how many stay, at least 1. ``best``: name of a metric whose best checkpoint stays too (``best_is``:
    ``lowest`` or ``highest``). ``config``: the run's configuration, as JSON can keep it; it is stored with each
    checkpoint, and one with another is not restored. ``serializer``: torch's in a program that has loaded torch, else
    plain data. ``ranks``: with more than one, every rank calls ``save`` and ``restore`` in the same step, with its own
    part, and the checkpoint is a directory; ``sharded`` makes it one for a single process too.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep_last: int = 2,
        best: str | None = None,
        *,
        best_is: str = "lowest",
        config: Any = None,
        serializer: Serializer | None = None,
        ranks: Ranks | None = None,
        sharded: bool = False,
    ) -> None:
        if not hasattr(keep_last, "__index__") or not isinstance(best, (str, type(None))):
            raise TypeError(f"keep_last must be a whole number and best a name, not {keep_last!r} and {best!r}")
        for name, given, needed in (("serializer", serializer, "save"), ("ranks", ranks, "highest")):
            if given is not None and (isinstance(given, type) or not hasattr(given, needed)):
                raise TypeError(f"{name} must be an object with {needed}(), not {given!r}")
        if keep_last < 1 or best_is not in ("lowest", "highest"):
            raise ValueError("keep_last must be 1 or more, best_is lowest or highest")
        self.directory = os.path.abspath(os.fspath(directory))
        self.keep_last, self.best, self.best_is = keep_last, best, best_is
        self.config = None if config is None else manifest.plain(config)
        self.serializer = serializer
        self.ranks = ranks or Ranks()
        self.sharded = sharded or self.ranks.size > 1
        self._bad: set[Name] = set()
        self._looked = False
        self._made = False

    def checkpoints(self) -> list[Checkpoint]:
        """Return the complete checkpoints, the newest first. Raises ``OSError``."""
        return layout.complete(self.directory)

    def save(
        self, step: int, state: Any, *, epoch: int | None = None, metrics: Mapping[str, float] | None = None
    ) -> Checkpoint:
        """Save and return once the checkpoint is complete and on the disk.

        Raises ``CheckpointError`` where it is not; what was saved before is then intact.
        """
        saving = self.begin(step, epoch=epoch, metrics=metrics)
        saving.write(state)
        return saving.publish()

    def begin(self, step: int, *, epoch: int | None = None, metrics: Mapping[str, float] | None = None) -> Saving:
        """Begin a save in its three parts: this and ``publish`` are collective, ``write`` may run in a thread."""
        step = whole_step(step)
        error: BaseException | None = None
        number, rated = 0, {}
        try:
            # The Hugging Face Trainer counts parts of epochs.
            epoch = epoch if epoch is None or isinstance(epoch, float) else operator.index(epoch)
            rated = {name: float(value) for name, value in (metrics or {}).items()}
            if self.ranks.rank == 0:
                number = self._make_room(step)
        except (OSError, TypeError, ValueError) as caught:
            error = caught
        number, failure = self.ranks.highest([number, _failure(error)])
        if failure:
            raise self._failed(error, failure)
        serializer = self.serializer or serializers.for_saving()
        return Saving(self, Name(number, step), serializer, epoch, rated)

    def restore(
        self, *, allow_other_config: bool = False, load: Callable[[Checkpoint], Any] | None = None
    ) -> Restored | None:
        """Return the newest complete checkpoint that can be loaded, or ``None`` where there is none at all.

        One that cannot be loaded is logged and the one before is tried. ``load``: what reads a checkpoint, called
        after the sizes and digests of its files were found right; by default this rank's part. Raises
        ``CheckpointError`` where none of several can be loaded (starting anew would then throw work away), and for
        another configuration unless ``allow_other_config``.
        """
        skipped: list[str] = []
        below: Name | None = None
        try:
            present = sorted(layout.names(self.directory), reverse=True)
        except OSError as error:
            raise CheckpointError(self.directory, f"cannot be read: {error.strerror}", number=error.errno) from None
        while True:
            name = self._next(present, below)
            if name is None:
                break
            below = name
            found = self._try(name, load or self._own_part, skipped)
            if found is not None:
                self._check_config(found[0], allow_other_config)
                for reason in skipped:
                    log.warning("forewarn: fell back to %s: %s", found[0].path, reason)
                return Restored(found[1], found[0], tuple(skipped))
        if self.ranks.agree(bool(self._bad)):
            raise CheckpointError(self.directory, "none of the checkpoints can be loaded", "; ".join(skipped))
        for reason in skipped:
            log.warning("forewarn: starting anew, %s", reason)
        return None

    def load_part(self, checkpoint: Checkpoint, rank: int) -> Any:
        """Return one rank's part of a checkpoint; raises whatever its serializer does."""
        name = manifest.part(rank) + DATA if checkpoint.sharded else os.path.basename(checkpoint.path)
        mine = self.serializer
        serializer = mine if mine and mine.name == checkpoint.manifest.serializer else None
        with open(checkpoint.file(name), "rb") as file:
            return (serializer or serializers.for_loading(checkpoint.manifest.serializer)).load(file)

    def _own_part(self, checkpoint: Checkpoint) -> Any:
        if checkpoint.sharded and checkpoint.manifest.ranks != self.ranks.size:
            raise ValueError(f"it was saved by {checkpoint.manifest.ranks} ranks, not {self.ranks.size}")
        return self.load_part(checkpoint, self.ranks.rank)

    def _next(self, present: list[Name], below: Name | None) -> Name | None:
        """Return the newest name below ``below`` that any rank sees (on NFS not all see the same at once)."""
        mine = next((name for name in present if below is None or name < below), None)
        sequence = self.ranks.highest([mine.sequence if mine else -1])[0]
        if sequence < 0:
            return None
        step = self.ranks.highest([mine.step if mine and mine.sequence == sequence else -1])[0]
        return Name(sequence, step)

    def _try(self, name: Name, load: Callable[[Checkpoint], Any], skipped: list[str]) -> tuple[Checkpoint, Any] | None:
        found = layout.find(self.directory, name)
        state, reason = None, found.reason if isinstance(found, Defect) else self._damage(found)
        damaged = not isinstance(found, Defect) or found.damaged
        # Sizes and digests are agreed on first: loading may itself be collective, and a pickle is not to be opened.
        if isinstance(found, Checkpoint) and not self.ranks.agree(reason is not None):
            try:
                state = load(found)
            except Exception as error:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            if not self.ranks.agree(reason is not None):
                return found, state
        elif isinstance(found, Defect):
            self.ranks.agree(True)
        if damaged:
            self._bad.add(name)
        skipped.append(f"{name}: {reason or 'another rank cannot load it'}")
        return None

    def _damage(self, checkpoint: Checkpoint) -> str | None:
        """Compare the files with their digests, the ranks sharing the work, before anything of them is read."""
        for index, (name, written) in enumerate(sorted(checkpoint.manifest.files.items())):
            if index % self.ranks.size == self.ranks.rank:
                try:
                    if durable.measure(checkpoint.file(name)) != written:
                        return f"{name} is damaged: its digest is not the manifest's"
                except OSError as error:
                    return str(error)
        return None

    def _check_config(self, checkpoint: Checkpoint, allowed: bool) -> None:
        saved = checkpoint.manifest.config
        if allowed or self.config is None or saved is None or saved == self.config:
            return
        lines = ", ".join(manifest.difference(saved, self.config))
        raise CheckpointError(
            checkpoint.path,
            f"it belongs to a run with another configuration ({lines})",
            "use another directory, or restore(allow_other_config=True)",
        )

    def _make_room(self, step: int) -> int:
        """Return a number that nothing in the directory has, of a new directory where the save is sharded."""
        os.makedirs(self.directory, exist_ok=True)
        if not self._looked:
            self._looked = True
            # On a laptop every directory is on the only file system there is.
            in_pod = os.path.isdir(os.environ.get(contract.PODINFO_VARIABLE) or contract.MOUNT_PATH)
            for concern in place.look(self.directory) if in_pod else []:
                log.warning("forewarn: %s", concern)
        number = max((name.sequence for name in layout.names(self.directory)), default=0) + 1
        while self.sharded:
            try:
                os.mkdir(os.path.join(self.directory, str(Name(number, step))))
                break
            except FileExistsError:
                number += 1
        return number

    def _failed(self, error: BaseException | None, failure: int) -> CheckpointError:
        """Return what every rank raises: its own error, else that another one had, with the same number."""
        number = failure if failure > 0 and failure != _NO_NUMBER else None
        found = durable.cannot_save(self.directory, error or OSError(number or 0, "another rank failed"))
        found.errno = number
        found.__cause__ = error
        return found

    def prune(self) -> None:
        """Delete what the newest complete checkpoint has made superfluous."""
        try:
            present, whole = layout.names(self.directory), layout.complete(self.directory)
        except OSError as error:
            log.warning("forewarn: old checkpoints were not deleted: %s", error)
            return
        best = layout.best_of(whole, self.best, self.best_is == "highest")
        for name in layout.to_delete(present, whole, self.keep_last, best, self._bad):
            layout.delete(self.directory, name)


class Saving:
    """One save that has begun; made by ``CheckpointStore.begin``."""

    def __init__(
        self, store: CheckpointStore, name: Name, serializer: Serializer, epoch: int | None, metrics: dict[str, float]
    ) -> None:
        self.store, self.name = store, name
        self.base = os.path.join(store.directory, str(name))
        self.error: BaseException | None = None
        self._serializer, self._epoch, self._metrics = serializer, epoch, metrics
        self._begun = time.monotonic()
        self._files: dict[str, Written] = {}

    def write(self, state: Any) -> None:
        """Write this rank's part and wait until it is on the disk. Never raises: ``publish`` does."""
        if self.store.sharded:
            name = manifest.part(self.store.ranks.rank) + DATA
            path = os.path.join(self.base, name)
        else:
            name, path = str(self.name) + DATA, self.base + DATA + TEMPORARY

        def content(file: BinaryIO) -> None:
            try:
                self._serializer.save(state, file)
            except OSError as error:
                if error.errno in durable.NO_ROOM:
                    raise  # of a file of its own
                raise durable.foreign(error, "the serializer") from error

        try:
            self._files[name] = durable.write_new(path, content)
            self._verify(path)
        except Exception as error:
            self.error = error

    def _verify(self, path: str) -> None:
        """Refuse what could not be loaded, while little is lost; later keep it, since types can still be allowed."""
        try:
            if isinstance(self._serializer, serializers.Serializer):
                self._serializer.verify(path)
        except serializers.UnloadableError as error:
            if not self.store._made:
                raise
            log.error("forewarn: %s will not be restored as it is: %s", self.name, error)

    def write_files(self, write: Callable[[str], Iterable[str]], serializer: str) -> None:
        """Let ``write(directory)`` make files of its own in a sharded checkpoint; it returns their names."""
        try:
            for name in self._made(write):
                path = os.path.join(self.base, name)
                self._files[name] = durable.sync_file(path)
                durable.sync_directory(os.path.dirname(path))
        except Exception as error:
            self.error = error
        self._serializer = serializers.Functions(serializer, _no_file, _no_file)

    def _made(self, write: Callable[[str], Iterable[str]]) -> list[str]:
        try:
            return list(write(self.base))
        except OSError as error:
            # The system names the file that it could not open; a disk that is full while writing has no name.
            named = error.filename
            if isinstance(named, str) and os.path.commonpath([os.path.abspath(named), self.base]) != self.base:
                raise durable.foreign(error, "what writes the files") from error
            raise
        except Exception as error:
            # A writer in another language may have lost the system's number (torch: "unexpected pos").
            refused = durable.refusal(self.base)
            if refused is not None:
                raise refused from error
            raise

    def publish(self) -> Checkpoint:
        """Make the checkpoint complete, then delete what it makes superfluous.

        Raises ``CheckpointError`` on every rank where any rank failed; the rest of the save is then removed.
        """
        ranks = self.store.ranks
        if self.store.sharded and self.error is None:
            try:
                sidecar = os.path.join(self.base, manifest.part(ranks.rank) + SIDECAR)
                durable.put(sidecar, manifest.dump(self._manifest()))
            except OSError as error:
                self.error = error
        done: Checkpoint | None = None
        failure = ranks.highest([_failure(self.error)])[0]
        if not failure:
            try:
                done = self._finish() if ranks.rank == 0 else self._own_view()
            except Exception as error:
                self.error = error
            failure = ranks.highest([_failure(self.error)])[0]
        if done is None or failure:
            # A name that was taken is another run's, which saves here at the same moment: not ours to delete.
            if ranks.rank == 0 and not isinstance(self.error, FileExistsError):
                layout.delete(self.store.directory, self.name)
            raise self.store._failed(self.error, failure)
        self.store._made = True
        if ranks.rank == 0:
            self.store.prune()
        return done

    def _finish(self) -> Checkpoint:
        if not self.store.sharded:
            durable.publish(self.base + DATA + TEMPORARY, self.base + DATA)
            durable.put(self.base + SIDECAR, manifest.dump(self._manifest()))
            return self._own_view()
        files: dict[str, Written] = {}
        for rank in range(self.store.ranks.size):
            with open(os.path.join(self.base, manifest.part(rank) + SIDECAR), "rb") as file:
                files.update(manifest.parse(file.read()).files)
        self._files = files
        durable.sync_directory(self.store.directory)
        durable.put(os.path.join(self.base, DONE), manifest.dump(self._manifest()))
        return self._own_view()

    def _own_view(self) -> Checkpoint:
        return Checkpoint(self.name, self.base if self.store.sharded else self.base + DATA, self._manifest())

    def _manifest(self) -> Manifest:
        return Manifest(
            step=self.name.step,
            serializer=self._serializer.name,
            files=self._files,
            written_at=contract.format_instant(datetime.now(UTC)),
            cost=round(time.monotonic() - self._begun, 6),
            ranks=self.store.ranks.size,
            epoch=self._epoch,
            config=self.store.config,
            metrics=self._metrics,
        )


_NO_NUMBER = 1 << 16


def whole_step(step: Any) -> int:
    """Return a step as an int, from whatever counts as a whole number (numpy's too); else raises ``ValueError``."""
    try:
        number = int(operator.index(step))
    except TypeError:
        number = -1
    if not 0 <= number < 10**manifest.STEP_DIGITS or isinstance(step, bool):
        raise ValueError(f"step must be a whole number, 0 or more, not {step!r}")
    return number


def _failure(error: BaseException | None) -> int:
    """Return an error as a number that ranks can exchange: 0 for none, the system's where it has one."""
    if error is None:
        return 0
    return (error.errno if isinstance(error, OSError) else None) or _NO_NUMBER


def _no_file(*_arguments: Any) -> Any:
    raise ValueError("this checkpoint is a directory, read by restore(load=…)")
