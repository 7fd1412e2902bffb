"""The chart, rendered by helm as a user would."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from tests.kind.places import CHART, NAMESPACE, RELEASE
from tests.support.programs import program


class ChartError(Exception):
    """Helm refused; the text is what it said."""


def helm(*arguments: str) -> str:
    """Run helm and return its output; ``ChartError`` where it fails."""
    ran = subprocess.run([program("helm"), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ChartError(ran.stderr)
    return ran.stdout


def render(*options: str, release: str = RELEASE, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """Return the objects that the chart makes; ``options`` are helm's, such as ``--set=staleAfter=30``."""
    text = helm("template", release, str(CHART), f"--namespace={namespace}", *options)
    return [item for item in yaml.safe_load_all(text) if item]


def one(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """Return the only object of a kind (and name)."""
    found = [item for item in objects if item["kind"] == kind and name in ("", item["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} objects {kind} {name}"
    return found[0]
