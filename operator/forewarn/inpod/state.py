"""Gathers what a torch run needs to go on as if it had not stopped, and puts it back. torch is imported late."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPILED = "_orig_mod."
"""What ``torch.compile`` puts into the keys of a module's state; left out, so that either kind of module can load."""

PARTS = ("model", "optimizer", "scheduler", "scaler", "loader", "averaged")


def gather(
    *,
    step: int,
    epoch: int | None = None,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    loader: Any = None,
    averaged: Any = None,
    best: Mapping[str, float] | None = None,
    generators: Mapping[str, Any] | None = None,
    extra: Any = None,
) -> dict[str, Any]:
    """Return a state that ``torch.save`` keeps and ``weights_only=True`` loads.

    ``model``, ``optimizer``, ``scheduler``, ``scaler`` (mixed precision), ``loader`` (a StatefulDataLoader, or what
    else has ``state_dict``), ``averaged`` (averaged weights): each as it is, its ``state_dict`` is taken. ``best``:
    best metrics so far. ``generators``: torch or numpy generators of your own, by name. ``extra``: plain data. The
    random states of Python, numpy (if loaded), torch and CUDA are always there. Under DistributedDataParallel give
    the module inside (``model.module``).
    """
    given = dict(zip(PARTS, (model, optimizer, scheduler, scaler, loader, averaged)))
    # numpy's numbers, which a metric often is, would not be loaded again.
    state: dict[str, Any] = {
        "step": int(step),
        "epoch": _number(epoch),
        "best": {name: _number(value) for name, value in (best or {}).items()},
        "extra": extra,
    }
    for name, part in given.items():
        if part is not None:
            state[name] = part.state_dict()
    for name in ("model", "averaged"):
        if name in state:
            state[name] = _without_compiled(state[name])
    state["random"] = random_state(generators or {})
    return state


def _number(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" else value


def restore(
    state: Mapping[str, Any],
    *,
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    scaler: Any = None,
    loader: Any = None,
    averaged: Any = None,
    generators: Mapping[str, Any] | None = None,
) -> int:
    """Put a gathered state back into the same objects; return the step that it was gathered after.

    Raises ``KeyError`` where the state lacks what is asked for: a part that silently stays new shows only as a jump
    in the loss.
    """
    given = dict(zip(PARTS, (model, optimizer, scheduler, scaler, loader, averaged)))
    for name, part in given.items():
        if part is None:
            continue
        if name not in state:
            raise KeyError(f"the checkpoint holds no {name}")
        part.load_state_dict(_as_compiled(state[name], part) if name in ("model", "averaged") else state[name])
    set_random_state(state["random"], generators or {})
    return int(state["step"])


def _without_compiled(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace(COMPILED, ""): value for key, value in state.items()}


def _as_compiled(state: Mapping[str, Any], module: Any) -> dict[str, Any]:
    """Return the state with the keys that this module has, compiled in whole, in part or not at all."""
    wanted = {key.replace(COMPILED, ""): key for key in module.state_dict()}
    return {wanted.get(key, key): value for key, value in state.items()}


def random_state(generators: Mapping[str, Any]) -> dict[str, Any]:
    """Return every random state of this process as plain data and tensors."""
    import torch

    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "torch": torch.get_rng_state(),
        "cuda": list(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else [],
        "own": {name: _generator_state(generator) for name, generator in generators.items()},
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = [kind, [int(key) for key in keys], int(position), int(has_gauss), float(cached)]
    return state


def set_random_state(state: Mapping[str, Any], generators: Mapping[str, Any]) -> None:
    """Put the random states back; CUDA's only as far as there are devices."""
    import torch

    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        for index, device_state in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(device_state, index)
    if "numpy" in state:
        import numpy

        kind, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    for name, generator in generators.items():
        _set_generator_state(generator, state["own"][name])


def _generator_state(generator: Any) -> Any:
    if hasattr(generator, "bit_generator"):
        return _plain(generator.bit_generator.state)
    return generator.get_state()


def _set_generator_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _plain(value: Any) -> Any:
    """Return a numpy generator's state without numpy's own types, which ``weights_only`` would refuse."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value
