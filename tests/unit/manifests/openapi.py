"""What each supported Kubernetes version says a Pod, a Job and a Service are, cut out of its published OpenAPI.

``python -m tests.unit.manifests.openapi v1.34.4 …`` downloads those versions (Go module k8s.io/kubernetes, about 20 MB
each) and writes tests/cases/render/openapi/v1.34.4.json; the tests then need no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.unit.manifests.golden import DIRECTORY

SCHEMAS = DIRECTORY / "openapi"
FILES = ("api__v1_openapi.json", "apis__batch__v1_openapi.json")
ROOTS = {"Pod": "io.k8s.api.core.v1.Pod", "Service": "io.k8s.api.core.v1.Service", "Job": "io.k8s.api.batch.v1.Job"}
PREFIX = "#/components/schemas/"


def versions() -> list[str]:
    """Return the versions that are covered, oldest first."""
    return sorted((path.stem for path in SCHEMAS.glob("*.json")), key=lambda name: int(name.split(".")[1]))


def schema(version: str, kind: str) -> dict[str, Any]:
    """Return a JSON Schema of one kind that refuses fields which the version does not know."""
    return {"$ref": PREFIX + ROOTS[kind], "components": json.loads((SCHEMAS / f"{version}.json").read_text())}


def cut(texts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schemas that the three kinds reach, without prose, and closed against unknown fields."""
    everything: dict[str, Any] = {}
    for text in texts:
        everything |= text["components"]["schemas"]
    found: dict[str, Any] = {}
    waiting = list(ROOTS.values())
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _bare(everything[name])
        if "properties" in found[name]:
            found[name]["additionalProperties"] = False
        waiting += [part.split('"')[0] for part in json.dumps(found[name]).split(PREFIX)[1:]]
    return {"schemas": dict(sorted(found.items()))}


def _bare(value: Any) -> Any:
    """Drop prose and defaults; the properties of an object may be named like them, and stay."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, inner in value.items():
        if key == "properties":
            result[key] = {name: _bare(one) for name, one in inner.items()}
        elif key not in ("description", "default") and not key.startswith("x-"):
            result[key] = _bare(inner)
    return result


def main(wanted: list[str]) -> None:
    SCHEMAS.mkdir(exist_ok=True)
    for version in wanted:
        print(f"openapi: {version}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as cache:
            told = subprocess.run(
                ["go", "mod", "download", "-modcacherw", "-json", f"k8s.io/kubernetes@{version}"],
                env={**os.environ, "GOMODCACHE": cache},
                capture_output=True,
                check=True,
            )
            directory = Path(json.loads(told.stdout)["Dir"]) / "api/openapi-spec/v3"
            found = cut([json.loads((directory / name).read_text()) for name in FILES])
        (SCHEMAS / f"{version}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
