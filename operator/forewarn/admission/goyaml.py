"""YAML as kubectl reads it: 1.1's octal numbers and yes/no, no sexagesimals, no dates, libyaml's tabs. Pure."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BASES = (("0x", 16), ("0X", 16), ("0b", 2), ("0o", 8), ("0", 8))


_PLAIN = "tag:forewarn,2026:plain"
_STANDARD = "tag:yaml.org,2002:"
_TABBED_HEADER = re.compile(r"([-+]?[1-9]?|[1-9][-+]) *\t[ \t]*")
_BREAKS = "\0\r\n\x85\u2028\u2029"


class _Loader(yaml.SafeLoader):
    """PyYAML's loader with libyaml's tabs (before a comment, between tokens) and untyped plain scalars."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is yaml.ScalarNode and implicit[0]:
            return _STANDARD + "merge" if value == "<<" else _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        # As libyaml does: a tab separates, but never where an indentation could stand.
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        length = 0
        while self.peek(length) in (" ", "\t"):
            length += 1
        if "\t" in self.prefix(length):
            spaces = self.prefix(length)
            self.forward(length)
            if self.peek() not in _BREAKS:
                return [spaces]
        return super().scan_plain_spaces(indent, start_mark)

    def scan_block_scalar_indicators(self, start_mark: Any) -> Any:
        if (match := _TABBED_HEADER.match(self.prefix(64))) is None:
            return super().scan_block_scalar_indicators(start_mark)
        self.forward(match.end())
        signs, digit = match[1].strip("123456789"), match[1].strip("+-")
        return signs == "+" if signs else None, int(digit) if digit else None


def _untagged(loader: _Loader, node: yaml.Node) -> Any:
    # A tag that is not JSON's says nothing to kubectl: a text, a list, a map.
    if isinstance(node, yaml.ScalarNode):
        return node.value
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return _mapping(loader, node)


def _binary(loader: _Loader, node: Any) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return _untagged(loader, node)
    try:
        return base64.b64decode("".join(node.value.split()), validate=True).decode(errors="replace")
    except ValueError:
        raise yaml.MarkedYAMLError(problem="!!binary is not base64", problem_mark=node.start_mark) from None


def _typed(loader: _Loader, node: Any) -> Any:
    return plain(node.value) if isinstance(node, yaml.ScalarNode) else _untagged(loader, node)


def _mapping(loader: _Loader, node: Any) -> dict[str, Any]:
    loader.flatten_mapping(node)
    # As in JSON, which kubectl makes of it, every key is a text.
    made = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a list or map cannot be a key", problem_mark=key.start_mark)
        made[key_text(loader.construct_object(key))] = loader.construct_object(value, deep=True)
    return made


# Nothing of PyYAML's own is left: it makes dates, sets and bytes, which JSON does not have.
_Loader.yaml_constructors = {
    _PLAIN: _typed,
    **{_STANDARD + name: _typed for name in ("null", "bool", "int", "float")},
    _STANDARD + "binary": _binary,
    None: _untagged,
}
_Loader.yaml_multi_constructors = {}


def key_text(value: str | float | bool | None) -> str:
    """Return a scalar key as JSON has it: a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
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
    return number(bare) if _FLOAT.fullmatch(bare) else text


def number(text: str) -> int | float:
    """Return the value of a number with a point or an exponent: kubectl sends a whole one as a whole number."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


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


def events(text: str) -> Iterator[Any]:
    """Return the parse events of one YAML document, with their marks. Raises ``yaml.YAMLError``."""
    return yaml.parse(text, Loader=_Loader)
