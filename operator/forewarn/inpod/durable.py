"""Writes files so that they are whole and on the disk, or not there at all; says clearly why where it cannot."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, cast

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 20

_ADVICE = {
    errno.ENOSPC: "no space left; delete what is not needed, or save elsewhere",
    errno.EDQUOT: "the quota is used up; delete what is not needed, or save elsewhere",
    errno.EROFS: "the file system is read-only; save into a directory that is yours",
    errno.EACCES: "no permission; save into a directory that is yours",
    errno.EPERM: "no permission; save into a directory that is yours",
    errno.ESTALE: "the NFS server no longer knows this directory (it was removed or exported anew)",
    errno.EFBIG: "a file may not be that large here (ulimit -f, or the file system)",
    errno.EIO: "the storage failed",
}

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class CheckpointError(UserError):
    """A checkpoint could not be saved or restored; ``errno`` is the system's number where there is one."""

    def __init__(self, where: str, what: str, allowed: str = "", number: int | None = None) -> None:
        super().__init__(where, what, allowed)
        self.errno = number


def cannot_save(where: str, error: BaseException) -> CheckpointError:
    """Return the error that says why a save failed and that what was saved before is untouched."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (number is not None and _ADVICE.get(number)) or f"{type(error).__name__}: {error}"
    return CheckpointError(where, f"the checkpoint was not saved: {reason}", "the ones before it are intact", number)


def foreign(error: Exception, whose: str) -> Exception:
    """Return the error of somebody else's code so that it cannot pass for one of the storage we write to."""
    if not isinstance(error, OSError):
        return error
    found = RuntimeError(f"{whose} raised {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


@dataclass(frozen=True)
class Written:
    """What a file holds: its size in bytes and its SHA-256."""

    size: int
    sha256: str


class _Tee(io.RawIOBase):
    """Passes on what is written, in order, and takes its digest; remembers the first error of the system.

    A serializer in another language may turn our OSError into one of its own, and the number would be lost.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with self._noting():
            self._file.write(view)
        self.digest.update(view)
        self.size += len(view)
        return len(view)

    def flush(self) -> None:
        # Python flushes this object once more when it is deleted, after the file is closed.
        if not self._file.closed:
            with self._noting():
                self._file.flush()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = self.error or error
            raise


def write_new(path: str, write: Callable[[BinaryIO], object]) -> Written:
    """Make the file ``path`` of what ``write`` puts into a file object, and wait until it is on the disk.

    The name must be new (``FileExistsError``). A file that could not be finished is removed again. The file object is
    written from front to back; it cannot seek. Raises the ``OSError`` behind whatever ``write`` made of it.
    """
    with open(path, "xb") as file:
        tee = _Tee(file)
        try:
            write(cast("BinaryIO", tee))
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            remove(path)
            if tee.error is not None:
                raise tee.error from None
            raise
    return Written(tee.size, tee.digest.hexdigest())


def publish(temporary: str, path: str) -> None:
    """Give a finished file its name, durably; a file of that name is replaced at once."""
    os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def put(path: str, data: bytes) -> None:
    """Write a small file durably and at once."""
    temporary = f"{path}.tmp"
    remove(temporary)
    write_new(temporary, lambda file: file.write(data))
    publish(temporary, path)


def refusal(directory: str) -> OSError | None:
    """Return the error that a directory has for a file of one block now, or ``None`` where it takes it."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_BLOCK))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk, where its file system can do that."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems have no fsync for directories; the rename itself stays atomic.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def sync_file(path: str) -> Written:
    """Wait until a file that somebody else wrote is on the disk; return its size and digest."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return measure(path)


def measure(path: str) -> Written:
    """Return the size and digest of a file by reading it."""
    digest, size = hashlib.sha256(), 0
    for block in _blocks(path):
        digest.update(block)
        size += len(block)
    return Written(size, digest.hexdigest())


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            yield block


def remove(path: str) -> None:
    """Remove a file that may not be there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
