"""A person's YAML to plain values: every mistake is one line, and no key may be there twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from forewarn import yaml_error
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WHOLE = "tag:yaml.org,2002:int"


class _AsWritten(_SAFE):  # type: ignore[misc]
    """A safe loader that leaves a whole number the text that it is: ``030`` is not 24, ``6:00`` is not 360."""


_AsWritten.add_constructor(_WHOLE, lambda _, node: node.value)


def load(path: str, text: str, as_written: bool = False) -> tuple[yaml.Node | None, Any]:
    """Return the document's tree, for its line numbers, and its value; both ``None`` for an empty text.

    Raises ``UserError`` at ``path`` and the line for what is no YAML, a key that is there twice, and a tag that asks
    for more than plain values. ``as_written`` leaves whole numbers the texts that they are.
    """
    loader = (_AsWritten if as_written else _SAFE)(text)
    try:
        with yaml_error.explained(path, "allowed: one YAML document of plain values"):
            node = loader.get_single_node()
            if node is None:
                return None, None
            _refuse_twice(path, node)
            return node, loader.construct_document(node)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # What the constructors of PyYAML raise for, e.g., the date 2024-13-45 or !!bool maybe.
        raise UserError(path, f"a value cannot be read: {error}", "put a text in quotes") from None
    finally:
        loader.dispose()


def _refuse_twice(path: str, root: yaml.Node) -> None:
    for mapping in _mappings(root):
        lines: dict[tuple[str, str], int] = {}
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    first = f"it is on line {lines[name]} already"
                    raise UserError(f"{path}:{line}", f"the key {key.value!r} is there twice", first)
                lines[name] = line


def _mappings(root: yaml.Node) -> Iterator[yaml.MappingNode]:
    """Yield every mapping once, in the order of the text; an alias leads to a node that was seen."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [part for pair in reversed(node.value) for part in reversed(pair)]
        elif isinstance(node, yaml.SequenceNode):
            waiting += reversed(node.value)
