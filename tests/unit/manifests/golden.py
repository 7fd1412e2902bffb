"""The golden launches of tests/cases/render; ``python -m tests.unit.manifests.golden`` writes what is expected anew."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from forewarn_manifests import flags, many
from forewarn_manifests.command import request
from forewarn_manifests.render import as_json, manifest
from forewarn_manifests.request import LaunchRequest, Person

DIRECTORY = Path(__file__).parents[2] / "cases/render"
ALICE = Person("alice", 1000, 1000)


@dataclass(frozen=True)
class Case:
    """One launch: its arguments (files are relative to the cases), its environment, the file that is expected."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def dump(self) -> bool:
        return "-d" in self.argv[: self.argv.index("--")] if "--" in self.argv else "-d" in self.argv

    @property
    def expected(self) -> Path:
        return DIRECTORY / "expected" / f"{self.name}.{'json' if self.dump else 'yaml'}"

    def requests(self) -> list[LaunchRequest]:
        arguments = flags.parse([str(DIRECTORY / word) if word in FILES else word for word in self.argv])
        if arguments.last("many"):
            return many.requests(arguments, self.environ, ALICE)
        return [request(arguments, self.environ, ALICE)]

    def text(self) -> str:
        """Return what is printed, before it the warnings as comments where the output has comments."""
        found = self.requests()
        text = "---\n".join(manifest(one, "--explain" in self.argv) for one in found)
        if self.dump:
            return as_json(text)
        lines = dict.fromkeys(line for one in found for line in one.warnings)
        return "".join(f"# warning: {line}\n" for line in lines) + text


FILES = frozenset({"script.sh", "plain.sh", "class.csv", "class.yaml"})


def cases() -> list[Case]:
    raw: dict[str, dict[str, Any]] = yaml.safe_load((DIRECTORY / "cases.yaml").read_text(encoding="utf-8"))
    site = {"FOREWARN_PROFILES": str(DIRECTORY / "profiles")}
    return [
        Case(name, tuple(case["argv"]), {**case.get("environ", {}), **(site if case.get("site") else {})})
        for name, case in raw.items()
    ]


def documents(paths: Iterable[Path]) -> list[tuple[str, dict[str, Any]]]:
    """Return every object of the expected files, with a name for a test's id; a List's items one by one."""
    found = []
    for path in paths:
        for index, document in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
            items = document["items"] if document["kind"] == "List" else [document]
            found += [(f"{path.stem}-{index}-{part}", item) for part, item in enumerate(items)]
    return found


if __name__ == "__main__":
    wanted = {case.expected for case in cases()}
    for case in cases():
        case.expected.write_text(case.text(), encoding="utf-8")
    for path in (DIRECTORY / "expected").iterdir():
        if path not in wanted:
            path.unlink()
    print(f"golden: wrote {len(wanted)} files", file=sys.stderr)
