"""The written corpus of pods under tests/cases/inject, each with the expected result beside it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forewarn.admission.inject import InjectSettings, Operation

FOLDER = Path(__file__).resolve().parents[2] / "cases" / "inject"
_SETTINGS = "# settings: "


@dataclass(frozen=True)
class Case:
    """One pod, the settings that its first line names, and what is expected: the pod afterwards and the warnings."""

    name: str
    settings: InjectSettings
    pod: dict[str, Any]
    expected_pod: dict[str, Any]
    expected_warnings: tuple[str, ...]


def names() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(".expected"))


def load(name: str) -> Case:
    """Read one case."""
    text = (FOLDER / f"{name}.yaml").read_text()
    first = text.partition("\n")[0]
    settings = json.loads(first.removeprefix(_SETTINGS)) if first.startswith(_SETTINGS) else {}
    pod = yaml.safe_load(text)
    expected = yaml.safe_load((FOLDER / f"{name}.expected.yaml").read_text())
    after = pod if expected["pod"] == "unchanged" else expected["pod"]
    return Case(name, InjectSettings(**settings), pod, after, tuple(expected["warnings"]))


def apply(pod: dict[str, Any], patch: Iterable[Operation]) -> dict[str, Any]:
    """Return the pod with a patch applied (RFC 6902's ``add`` is all that a patch of ours holds)."""
    result = copy.deepcopy(pod)
    for operation in patch:
        assert operation.op == "add"
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in operation.path.split("/")[1:]]
        place: Any = result
        for token in tokens[:-1]:
            place = place[int(token)] if isinstance(place, list) else place[token]
        if isinstance(place, list):
            assert tokens[-1] == "-"
            place.append(copy.deepcopy(operation.value))
        else:
            place[tokens[-1]] = copy.deepcopy(operation.value)
    return result
