"""Check a site's profile against profiles/schema.json: the part of JSON Schema that it uses, each error one line."""

from __future__ import annotations

import re
import reprlib
from typing import TYPE_CHECKING, Any

from forewarn.errors import UserError
from forewarn_manifests.checks import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
}
_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text (put it in quotes)",
    "boolean": "true or false",
    "integer": "a whole number",
}


def check(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """Check a value; raises ``UserError`` whose place is ``where`` and the path of keys to the first mistake."""
    _check(value, schema, schema, where, "")


def _check(value: Any, part: Mapping[str, Any], whole: Mapping[str, Any], where: str, path: str) -> None:
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    place = f"{where}: {path.lstrip('.')}" if path else where
    _check_kind(value, part, place)
    if isinstance(value, dict):
        _check_keys(value, part, place)
        for key, inner in value.items():
            below = part.get("properties", {}).get(key, part.get("additionalProperties"))
            if isinstance(below, dict):
                _check(inner, below, whole, where, f"{path}.{key}")
    elif isinstance(value, list):
        if len(value) < part.get("minItems", 0):
            raise UserError(place, "is empty", "allowed: at least one")
        for index, inner in enumerate(value):
            _check(inner, part.get("items", {}), whole, where, f"{path}[{index}]")


def _check_kind(value: Any, part: Mapping[str, Any], place: str) -> None:
    if "enum" in part and value not in part["enum"]:
        raise UserError(place, f"{value!r} is none of the allowed", f"allowed: {', '.join(part['enum'])}")
    kind = part.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        raise UserError(place, f"{_short(value)} has the wrong type", f"allowed: {_NAMES[kind]}")
    if isinstance(value, str):
        if len(value) < part.get("minLength", 0):
            raise UserError(place, "is empty", "allowed: a text")
        if "pattern" in part and not re.search(part["pattern"], value):
            raise UserError(place, f"{value!r} does not fit", f"allowed: {part['pattern']}")
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = part.get("minimum"), part.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = " and ".join([f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None))
            raise UserError(place, f"{value} is out of range", f"allowed: {bounds}")


def _short(value: Any) -> str:
    """Show a value; a list of lists of aliases may be short in the file and endless as a text."""
    return repr(value) if isinstance(value, str) else reprlib.repr(value)


def _check_keys(value: Mapping[Any, Any], part: Mapping[str, Any], place: str) -> None:
    known = part.get("properties", {})
    for key in value:
        if not isinstance(key, str):
            raise UserError(place, f"the key {key!r} is no text", "put it in quotes")
        if key not in known and part.get("additionalProperties") is False:
            like = nearest(key, known)
            raise UserError(
                place,
                f"unknown key {key!r}" + (f" (did you mean {like}?)" if like else ""),
                f"allowed: {', '.join(known)}",
            )
    for key in part.get("required", ()):
        if key not in value:
            raise UserError(place, f"{key} is missing", f"needed: {', '.join(part['required'])}")
    low, high = part.get("minProperties", 0), part.get("maxProperties", len(value))
    if not low <= len(value) <= high:
        raise UserError(place, f"{len(value)} keys", f"allowed: exactly one of {', '.join(known)}")


def markdown() -> str:
    """Return the table of a profile's keys for the documentation, made from the schema."""
    import json
    from pathlib import Path

    schema = json.loads((Path(__file__).parent / "profiles/schema.json").read_text(encoding="utf-8"))
    rows = ["| key | value | meaning |", "|---|---|---|"]
    return "\n".join(rows + _rows(schema, schema, ""))


def _rows(part: Mapping[str, Any], whole: Mapping[str, Any], path: str) -> list[str]:
    found = []
    for key, below in part.get("properties", {}).items():
        inner = {**whole["$defs"][below["$ref"].rpartition("/")[2]], **below} if "$ref" in below else below
        item = inner.get("items", {})
        open_mapping = isinstance(inner.get("additionalProperties"), dict)
        kind = " or ".join(inner["enum"]) if "enum" in inner else _NAMES[inner["type"]].partition(" (")[0]
        found.append(f"| `{path}{key}` | {kind} | {inner.get('description', '')} |")
        if key != "volume" and not open_mapping:
            found += _rows(inner, whole, f"{path}{key}.") + _rows(item, whole, f"{path}{key}[].")
    return found
