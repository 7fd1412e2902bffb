"""What makes a checkpoint complete: its names on the disk and the manifest that is written last. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from forewarn.inpod.durable import Written

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
DONE = "DONE"
DATA = ".ckpt"
SIDECAR = ".json"
TEMPORARY = ".tmp"

STEP_DIGITS = 18
_NAME = re.compile(r"(\d{6,18})-step-(\d{1,18})(\.ckpt|\.json)?((?:\.ckpt|\.json)?\.tmp)?")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, order=True)
class Name:
    """A checkpoint's number in its directory (which only grows) and its step."""

    sequence: int
    step: int

    def __str__(self) -> str:
        return f"{self.sequence:06d}-step-{self.step}"


def parse_name(entry: str) -> Name | None:
    """Return which checkpoint a directory entry belongs to, whether it is whole or a leftover; else ``None``."""
    match = _NAME.fullmatch(entry)
    return Name(int(match.group(1)), int(match.group(2))) if match else None


def part(rank: int) -> str:
    """Return the name of one rank's part, without its ending."""
    return f"rank-{rank:05d}"


@dataclass(frozen=True)
class Manifest:
    """What is known of one checkpoint. ``files``: name → size and digest; ``cost``: seconds until it was durable."""

    step: int
    serializer: str
    files: Mapping[str, Written]
    written_at: str
    cost: float
    ranks: int = 1
    epoch: int | None = None
    config: Any = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    format: int = FORMAT


def dump(manifest: Manifest) -> bytes:
    """Return a manifest as JSON, for people too."""
    return (json.dumps(asdict(manifest), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )


def parse(data: bytes) -> Manifest:
    """Read a manifest; raises ``ValueError`` for anything that is none of this format."""
    try:
        values = json.loads(data)
        if values["format"] != FORMAT:
            raise ValueError(f"its format is {values['format']!r}, this forewarn reads {FORMAT}")
        values["files"] = {name: Written(**written) for name, written in values["files"].items()}
        return Manifest(**values)
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no manifest ({type(error).__name__}: {error})") from error


def plain(config: Any) -> Any:
    """Return a configuration as JSON keeps it, so that one from a file and one from a program compare equal.

    A dataclass is kept by its fields, a set in order, anything else as its text; raises ``TypeError`` where the next
    run could not find the same again.
    """
    try:
        return json.loads(json.dumps(config, sort_keys=True, default=_as_json))
    except (TypeError, ValueError) as error:
        raise TypeError(f"config cannot be kept as JSON: {error}") from None


def _as_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {known.name: getattr(value, known.name) for known in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    text = str(value)
    if _ADDRESS.search(text):
        raise TypeError(f"{text} is told by its address, which is another in each run")
    return text


def difference(saved: Any, given: Any, where: str = "") -> list[str]:
    """Return where two plain configurations differ, each as ``a.key: saved → given``."""
    if not (isinstance(saved, dict) and isinstance(given, dict)):
        return [] if saved == given else [f"{where or 'all of it'}: {saved!r} → {given!r}"]
    found: list[str] = []
    for key in sorted({*saved, *given}):
        found += difference(saved.get(key, _ABSENT), given.get(key, _ABSENT), f"{where}.{key}" if where else key)
    return found


class _Absent:
    def __repr__(self) -> str:
        return "not set"


_ABSENT = _Absent()
