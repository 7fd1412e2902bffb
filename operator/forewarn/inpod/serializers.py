"""How a state becomes bytes and comes back: plain data without pickle, torch, safetensors, or your functions."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, BinaryIO, Callable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

_TAG = "~"
_STATE = "state.json"
_DICTS = (dict, OrderedDict, Counter)


class UnloadableError(ValueError):
    """A state was written, or found, that its serializer does not load."""


class Serializer:
    """Writes a state into a file object from front to back, and reads it from one that can seek."""

    name = "none"

    def save(self, state: Any, file: BinaryIO) -> None:
        """Write ``state``."""
        raise NotImplementedError

    def load(self, file: BinaryIO) -> Any:
        """Return the state that a file holds; raises whatever it likes where it holds none."""
        raise NotImplementedError

    def verify(self, path: str | os.PathLike[str]) -> None:
        """Raise ``UnloadableError`` where ``load`` would refuse what ``save`` has written; cheap, to be sure early."""


class Functions(Serializer):
    """A serializer made of ``save(state, file)`` and ``load(file)``; ``name`` is kept in the manifest."""

    def __init__(self, name: str, save: Callable[[Any, BinaryIO], Any], load: Callable[[BinaryIO], Any]) -> None:
        self.name = name
        self._save, self._load = save, load

    def save(self, state: Any, file: BinaryIO) -> None:
        """Write ``state``."""
        self._save(state, file)

    def load(self, file: BinaryIO) -> Any:
        """Return the state."""
        return self._load(file)


class Plain(Serializer):
    """JSON and npy in a zip: no pickle, so that loading runs no code of anybody's.

    Takes None, bool, int, float, str, bytes, list, tuple, dict, OrderedDict, Counter, and numpy arrays and scalars of
    plain types; gives back the same types (for a memmap an array). Raises ``TypeError``, naming the place, for anything
    else, a defaultdict too: its factory is code. numpy is needed for arrays alone.
    """

    name = "plain"

    def save(self, state: Any, file: BinaryIO) -> None:
        """Write ``state``."""
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            members: list[str] = []

            def keep(write: Callable[[BinaryIO], None]) -> str:
                members.append(f"{len(members)}")
                with archive.open(members[-1], "w", force_zip64=True) as member:
                    write(member)  # type: ignore[arg-type]
                return members[-1]

            text = json.dumps(_encode(state, "state", keep), ensure_ascii=False)
            archive.writestr(_STATE, text.encode("utf-8", "surrogatepass"))

    def load(self, file: BinaryIO) -> Any:
        """Return the state."""
        with zipfile.ZipFile(file) as archive:
            return _decode(json.loads(archive.read(_STATE).decode("utf-8", "surrogatepass")), archive)


def _encode(value: Any, where: str, keep: Callable[[Callable[[BinaryIO], None]], str]) -> Any:
    # bool, int and float exactly: a subclass (an IntEnum, a numpy float64) would come back as another type.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_encode(item, f"{where}[{index}]", keep) for index, item in enumerate(value)]
    if type(value) is tuple:
        return {_TAG: "tuple", "items": [_encode(item, f"{where}[{index}]", keep) for index, item in enumerate(value)]}
    if type(value) in _DICTS:
        if type(value) is dict and all(type(key) is str for key in value) and _TAG not in value:
            return {key: _encode(item, f"{where}[{key!r}]", keep) for key, item in value.items()}
        pairs = [[_encode(key, where, keep), _encode(item, f"{where}[{key!r}]", keep)] for key, item in value.items()]
        return {_TAG: type(value).__name__, "items": pairs}
    if type(value) is bytes:
        return {_TAG: "bytes", "member": keep(lambda file: _write(file, value))}
    if type(value).__module__ == "numpy":
        return _encode_numpy(value, where, keep)
    raise TypeError(f"{where} is a {type(value).__name__}, which the plain serializer cannot keep")


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _encode_numpy(value: Any, where: str, keep: Callable[[Callable[[BinaryIO], None]], str]) -> Any:
    import numpy as np

    # An array of a subclass (a matrix) would come back as a plain one.
    if not (type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic)) or value.dtype.hasobject:
        raise TypeError(f"{where} is a numpy {type(value).__name__} that the plain serializer cannot keep")
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    member = keep(lambda file: np.lib.format.write_array(file, np.asanyarray(value), allow_pickle=False))
    return {_TAG: kind, "member": member}


def _decode(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_decode(item, archive) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(_TAG)
    if tag is None:
        return {key: _decode(item, archive) for key, item in value.items()}
    if tag == "tuple":
        return tuple(_decode(item, archive) for item in value["items"])
    for kind in _DICTS:
        if tag == kind.__name__:
            return kind({_decode(key, archive): _decode(item, archive) for key, item in value["items"]})
    data = archive.read(value["member"])
    if tag == "bytes":
        return data
    if tag not in ("array", "scalar"):
        raise ValueError(f"unknown kind {tag!r}")
    import numpy as np

    array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array if tag == "array" else array[()]


class Torch(Serializer):
    """``torch.save``, loaded with ``weights_only=True`` and an allow-list of further types.

    What that refuses (numpy's arrays and scalars, paths, dates, classes of your own) is told at the save already.
    ``allowed``: classes and functions that the state holds beyond tensors and plain containers. ``map_location``: as
    in ``torch.load``; by default the CPU, from where ``load_state_dict`` copies to wherever a module is.
    """

    name = "torch"

    def __init__(self, allowed: Iterable[Any] = (), map_location: Any = "cpu") -> None:
        self._allowed, self._map_location = list(allowed), map_location

    def save(self, state: Any, file: BinaryIO) -> None:
        """Write ``state``."""
        import torch

        torch.save(state, file)

    def load(self, file: BinaryIO) -> Any:
        """Return the state; a type that is not allowed raises ``UnloadableError``, and no code of the file's is run."""
        return self._load(file, self._map_location)

    def verify(self, path: str | os.PathLike[str]) -> None:
        """Raise ``UnloadableError`` for a type that is not allowed; reads no tensor, but every plain value."""
        with self._allowing():
            if _refused(path) == []:
                return
        # It may be loaded all the same: the load itself decides, with the tensors left on the disk.
        self._load(os.fspath(path), "cpu", mmap=True)

    def _allowing(self) -> AbstractContextManager[Any]:
        import torch

        # At its end torch takes away what it was given, also what the program itself had allowed before.
        known = torch.serialization.get_safe_globals()
        allowing: AbstractContextManager[Any] = torch.serialization.safe_globals(
            [each for each in self._allowed if each not in known]
        )
        return allowing

    def _load(self, file: BinaryIO | str, map_location: Any, **options: Any) -> Any:
        import torch

        with self._allowing():
            try:
                return torch.load(file, map_location=map_location, weights_only=True, **options)
            except pickle.UnpicklingError as error:
                # torch's own advice is to load without weights_only, which runs any code.
                told = str(error).rpartition("WeightsUnpickler error:")[2].strip() or "nothing"
                holds = ", ".join(_refused(file) or []) or f"what it cannot read ({told.splitlines()[0]})"
                raise UnloadableError(
                    f"the state holds {holds}, which torch does not load with weights_only=True: keep plain data and "
                    "tensors (float(x), x.tolist(), str(path)), or name the types in Torch(allowed=[…])"
                ) from None


def _refused(file: BinaryIO | str | os.PathLike[str]) -> list[str] | None:
    """Return the types in a file of ``torch.save`` that are not allowed; ``None`` where it cannot be told."""
    import torch

    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file))
    except Exception:
        return None


class Safetensors(Serializer):
    """safetensors, for weights alone: a flat mapping of names to torch tensors."""

    name = "safetensors"

    def save(self, state: Any, file: BinaryIO) -> None:
        """Write ``state``."""
        from safetensors.torch import save

        file.write(save({name: tensor.detach().contiguous() for name, tensor in state.items()}))

    def load(self, file: BinaryIO) -> Any:
        """Return the tensors by name, on the CPU."""
        from safetensors.torch import load

        return load(file.read())


def for_saving() -> Serializer:
    """Return torch's serializer in a program that has loaded torch, else the plain one."""
    return Torch() if "torch" in sys.modules else Plain()


def for_loading(name: str) -> Serializer:
    """Return the serializer of a manifest; raises ``ValueError`` for one that is not of this module."""
    known = {kind.name: kind for kind in (Plain, Torch, Safetensors)}
    if name not in known:
        raise ValueError(f"it was saved by the serializer {name!r}; give the store the same one")
    return known[name]()
