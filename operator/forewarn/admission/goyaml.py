"""YAML as kubectl reads it: YAML 1.1's octal numbers and yes/no, but no sexagesimal numbers and no dates. Pure."""

from __future__ import annotations

import re
from typing import Any

import yaml

_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BASES = (("0x", 16), ("0X", 16), ("0b", 2), ("0o", 8), ("0", 8))


_PLAIN = "tag:forewarn,2026:plain"


class _Loader(yaml.SafeLoader):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return "tag:yaml.org,2002:merge" if value == "<<" else _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]


def _untagged(loader: _Loader, _: str, node: yaml.Node) -> Any:
    # A tag of the author's own says nothing to kubectl either.
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return _mapping(loader, node)


def _mapping(loader: _Loader, node: Any) -> dict[str, Any]:
    loader.flatten_mapping(node)
    # As in JSON, which kubectl makes of it, every key is a text.
    return {
        _key(loader.construct_object(key, deep=True)): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


_Loader.add_constructor(_PLAIN, lambda _, node: plain(node.value))
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)
_Loader.add_multi_constructor("!", _untagged)


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        raise yaml.YAMLError("a list or map cannot be a key")
    return "null" if value is None else str(value)


def plain(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[:1] not in "+-.0123456789":
        return text
    bare = text.replace("_", "")
    if (whole := _whole(bare)) is not None:
        return whole
    if _FLOAT.fullmatch(bare):
        number = float(bare)
        return int(number) if number.is_integer() and abs(number) < 2**63 else number
    return text


def _whole(text: str) -> int | None:
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    for prefix, base in _BASES:
        if digits.startswith(prefix) and len(digits) > len(prefix):
            digits, chosen = digits[len(prefix) :], base
            break
    else:
        chosen = 10
    try:
        return int(sign + digits, chosen) if digits.isalnum() and digits.isascii() else None
    except ValueError:
        return None


def load(text: str) -> Any:
    """Read one YAML document. Raises ``yaml.YAMLError``."""
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply, or holds itself") from None
    finally:
        loader.dispose()
