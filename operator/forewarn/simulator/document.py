"""A strict look at a YAML file: every complaint names its file and line."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from forewarn import yaml_error
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LARGEST = 1_000_000
"""Bytes of a scenario; anything larger is another file given by mistake."""


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'? `` where a known word is close, else nothing."""
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"did you mean {close[0]!r}? " if close else ""


class Document:
    """One YAML document as nodes with places; scalars keep the text as it was typed (``0.50`` stays ``0.50``)."""

    def __init__(self, path: Path) -> None:
        """Read the file; raises ``UserError`` where it is missing, too large, not UTF-8 or not one YAML document."""
        self.path = path
        allowed = "allowed: a scenario file in YAML"
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise UserError(str(path), f"cannot be read: {error.strerror}", allowed) from None
        if len(raw) > LARGEST:
            raise UserError(str(path), f"has {len(raw):,} bytes", f"allowed: at most {LARGEST:,}")
        with yaml_error.explained(str(path), allowed):
            root = yaml.compose(raw, Loader=yaml.SafeLoader)
        if root is None:
            raise UserError(str(path), "is empty", allowed)
        self.root: yaml.Node = root

    def place(self, node: yaml.Node) -> Place:
        """Return where a node begins."""
        return Place(str(self.path), node.start_mark.line + 1)

    def fail(self, node: yaml.Node, what: str, allowed: str) -> NoReturn:
        """Raise ``UserError`` at a node."""
        raise UserError(str(self.place(node)), what, allowed)

    def fields(self, node: yaml.Node, of: str, known: Iterable[str]) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return a mapping's (key node, value node) by key; refuses unknown and repeated keys."""
        known = tuple(known)
        found = self.entries(node, of)
        for key, (key_node, _) in found.items():
            if key not in known:
                self.fail(key_node, f"{of} has no {key!r}", f"{nearest(key, known)}allowed: {', '.join(sorted(known))}")
        return found

    def entries(self, node: yaml.Node, of: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return a mapping's (key node, value node) by key, whatever the keys; refuses repeated ones."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{of} must be a mapping", "allowed: KEY: VALUE lines")
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            key = self.text(key_node, f"a key of {of}")
            if key in found:
                self.fail(key_node, f"{of} has {key!r} twice", "allowed: each key once")
            found[key] = (key_node, value_node)
        return found

    def items(self, node: yaml.Node, of: str) -> list[yaml.Node]:
        """Return a list's nodes."""
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{of} must be a list", "allowed: lines that begin with a dash")
        return list(node.value)

    def text(self, node: yaml.Node, of: str) -> str:
        """Return a scalar's text as it was typed."""
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, f"{of} must be one value", "allowed: text or a number")
        return str(node.value)

    def value(self, node: yaml.Node) -> Any:
        """Return a node as plain Python values (a manifest that is written inside the scenario)."""
        loader = yaml.SafeLoader("")
        try:
            value = loader.construct_document(node)
            json.dumps(value, default=str)  # what an anchor makes part of itself cannot be sent
            return value
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
            self.fail(node, f"cannot be read: {getattr(error, 'problem', error)}", "allowed: plain YAML values")
        finally:
            loader.dispose()


def is_null(node: yaml.Node) -> bool:
    """Whether a value was left out: ``key:`` and nothing more, ``~`` or ``null``."""
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
