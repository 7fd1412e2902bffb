"""Additions to a YAML document, written into its own text: every other byte stays. Pure."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from forewarn.admission import goyaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.admission.inject import Operation
    from forewarn.admission.templates import Path

_PLAIN = re.compile(r"[A-Za-z/][\w./-]*")
_PLAIN_IN_BLOCK = re.compile(r"[A-Za-z/][\w./'\[\]-]*")


@dataclass(eq=False)
class Node:
    """A value and where it stands: offsets of its text, where its entries begin, how deep it is."""

    start: int
    end: int
    depth: int
    kind: str
    """``scalar``, ``map``, ``list`` or ``alias``"""
    flow: bool = False
    opened: int = 0
    text: str = ""
    style: str | None = None
    keys: list[Node] = field(default_factory=list)
    values: list[Node] = field(default_factory=list)
    target: Node | None = None

    @property
    def itself(self) -> Node:
        """What an alias stands for; any other node itself."""
        return self.target or self

    def own(self, key: str) -> Node | None:
        """Return the value of a key of this mapping's own; of two the last, as kubectl takes it."""
        found = [value for name, value in zip(self.keys, self.values, strict=True) if name.text == key]
        return found[-1] if found else None

    def merged(self, key: str) -> Node | None:
        """Return the value of a key that this mapping has by a merge."""
        for name, value in zip(self.keys, self.values, strict=True):
            sources = value.itself.values if value.itself.kind == "list" else [value]
            for source in sources if name.text == "<<" else ():
                if found := source.itself.own(key) or source.itself.merged(key):
                    return found
        return None


@functools.lru_cache(maxsize=1)
def tree(text: str) -> Node | None:
    """Return a document's nodes, ``None`` for an empty one. Raises ``yaml.YAMLError``."""
    events = goyaml.events(text)
    anchors: dict[str, Node] = {}

    def node(event: Any, depth: int) -> Node:
        made = Node(event.start_mark.index, event.end_mark.index, depth, "scalar")
        if isinstance(event, yaml.AliasEvent):
            made.kind, made.target = "alias", anchors[str(event.anchor)]
            return made
        if event.anchor:
            anchors[event.anchor] = made
        if isinstance(event, yaml.ScalarEvent):
            made.style, made.text = event.style, event.value
            if event.implicit[0] and event.value != "<<":
                made.text = goyaml.key_text(goyaml.plain(event.value))
            return made
        made.kind = "map" if isinstance(event, yaml.MappingStartEvent) else "list"
        made.flow, made.opened = bool(event.flow_style), event.end_mark.index
        while not isinstance(event := next(events), yaml.CollectionEndEvent):
            if made.kind == "map":
                made.keys.append(node(event, depth + 1))
                event = next(events)
            made.values.append(node(event, depth + 1))
        made.end = int(event.end_mark.index)  # type: ignore[union-attr]
        return made

    for event in events:
        if isinstance(event, yaml.NodeEvent):
            return node(event, 0)
    return None


def twice(text: str) -> Iterator[tuple[str, int]]:
    """Yield each key that stands twice in one mapping, and the line of its last place, counted from 0."""
    nodes = [tree(text)]
    while nodes:
        node = nodes.pop()
        if node is None:
            continue
        seen: set[str] = set()
        for key in node.keys:
            if key.kind == "scalar" and key.text in seen:
                yield key.text, text.count("\n", 0, key.start)
            seen.add(key.text)
        nodes += reversed(node.values)


class Splice:
    """One document's text and what is to be written into it."""

    def __init__(
        self,
        text: str,
        shape: tuple[int, int, int],
        wanted: Callable[[Path], Any] | None = None,
        dump: Callable[[Any, str | None], str] | None = None,
    ) -> None:
        """``shape`` is how the text is indented (mapping, dash, entry).

        ``dump`` is for JSON: it writes a value in the style of the text, on lines of that indentation or (``None``) on
        one.

        With ``wanted``, which returns what shall stand at a path, an alias or merge on the way to a change is replaced
        by that, and so is an alias of what is changed; without, the change is made once for all that share it.
        """
        self._text, self._wanted, self._dump = text, wanted, dump
        self._mapping, self._dash, self._entry = shape
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._cuts: list[tuple[int, int, int, str]] = []
        self._added: dict[Node, list[tuple[str, Any]]] = {}
        self._done: set[tuple[Node, str]] = set()
        self._touched: set[Node] = set()
        self._root = tree(text)

    def apply(self, path: Path, patch: Sequence[Operation]) -> None:
        """Take up a patch of the pod at ``path``. Raises ``ValueError`` for what cannot be written so."""
        for operation in patch:
            tokens = [*map(str, path)]
            tokens += [token.replace("~1", "/").replace("~0", "~") for token in operation.path.split("/")[1:]]
            self._add(tokens, operation.value)

    def _add(self, tokens: list[str], value: Any) -> None:
        if self._root is None:
            raise ValueError("it is empty")
        place = self._root
        for position, token in enumerate(tokens[:-1]):
            child, merged = self._child(place, token)
            if self._wanted is not None and (merged or child.kind == "alias"):
                wanted = self._wanted(tuple(tokens[: position + 1]))
                self._put(place, token, wanted, None if merged else child)
                return
            place = child.itself
        key = tokens[-1]
        old = place.own(key) if place.kind == "map" else None
        self._put(place, key, value, old)

    def _child(self, place: Node, token: str) -> tuple[Node, bool]:
        if place.kind == "list":
            return place.values[int(token)], False
        if (child := place.own(token)) is not None:
            return child, False
        if (child := place.merged(token)) is not None:
            return child, True
        raise ValueError(f"{token} is not there")

    def _put(self, place: Node, key: str, value: Any, old: Node | None) -> None:
        mark = (place, key if key != "-" else json.dumps(value))
        if mark in self._done:
            return
        self._done.add(mark)
        self._touched |= {place} if old is None else {place, old}
        if old is not None:
            self._replace(place, old, value)
        elif place.kind == "scalar":
            raise ValueError(f"{key} has no place")
        else:
            self._added.setdefault(place, []).append((key, value))

    def _cut(self, start: int, end: int, depth: int, text: str) -> None:
        self._cuts.append((start, end, depth, text))

    def result(self) -> str:
        """Return the text with everything in it. Raises ``ValueError``."""
        if self._wanted is not None and self._root is not None:
            self._part(self._root, ())
        for place, entries in self._added.items():
            if place.flow:
                self._into_flow(place, entries)
            else:
                self._into_block(place, entries)
        # What belongs deeper comes first where two things are written at one place.
        parts, at = [], 0
        for start, end, _, text in sorted(self._cuts, key=lambda cut: (cut[0], -cut[2])):
            if start < at:
                raise ValueError("two changes at one place")
            parts += [self._text[at:start], text]
            at = end
        return "".join((*parts, self._text[at:]))

    def _part(self, place: Node, path: Path) -> None:
        """Replace each alias of something that is changed by what shall stand there."""
        for number, child in enumerate(place.values):
            here = (*path, place.keys[number].text if place.kind == "map" else number)
            if child.target is None:
                self._part(child, here)
            elif here[-1] != "<<" and child not in self._touched and self._holds_a_change(child.target):
                self._replace(place, child, self._wanted(here) if self._wanted is not None else None)

    def _holds_a_change(self, node: Node) -> bool:
        return node in self._touched or any(self._holds_a_change(each.itself) for each in node.values)

    def _replace(self, place: Node, old: Node, value: Any) -> None:
        if old.kind not in ("scalar", "alias") or old.style in ("|", ">"):
            raise ValueError("what stands there cannot be replaced")
        anchor = re.search(r"&\S+", self._text[old.start : old.end]) if old.kind == "scalar" else None
        kept = (anchor.group() + " " if anchor else "") if old.style is None else ""
        inline = place.flow or place.kind == "list" or not isinstance(value, (dict, list)) or not value
        if inline:
            space = " " if old.start == old.end else ""
            self._cut(old.start, old.end, old.depth, space + kept + self._inline(value))
            return
        self._cut(old.start, old.end, old.depth, kept.rstrip())
        step = self._dash if isinstance(value, list) else self._mapping
        self._lines(old.end, old.depth, self._block(value, self._column(place) + step))

    def _into_block(self, place: Node, entries: list[tuple[str, Any]]) -> None:
        column = self._column(place)
        made: Any = dict(entries) if place.kind == "map" else [value for _, value in entries]
        last = place
        while last.values and not last.flow:
            last = last.values[-1]
        self._lines(self._end(last), place.depth, self._block(made, column))

    def _end(self, last: Node) -> int:
        if last.style not in ("|", ">"):
            return last.end
        body = self._text[last.start : last.end]
        # Blank lines behind it are its own only where it keeps them.
        return last.end if "+" in body.partition("\n")[0] else last.start + len(body.rstrip())

    def _lines(self, after: int, depth: int, lines: list[str]) -> None:
        """Write whole lines behind the line that ``after`` is on."""
        stop = after if after and self._text[after - 1] == "\n" else self._text.find("\n", after) + 1
        if not re.fullmatch(r"[ \t]*(?:(?<=[ \t])#.*)?\s*", self._text[after : stop or None]):
            raise ValueError("something else stands on the line")
        if stop:
            self._cut(stop, stop, depth, "".join(line + self._newline for line in lines))
        else:
            end = len(self._text)
            self._cut(end, end, depth, "".join(self._newline + line for line in lines))

    def _column(self, place: Node) -> int:
        opened = place.opened
        # A list that is no deeper than its key is said to begin behind its first dash.
        if place.kind == "list" and self._text[opened] != "-":
            opened -= 1
        return opened - self._text.rfind("\n", 0, opened) - 1

    def _into_flow(self, place: Node, entries: list[tuple[str, Any]]) -> None:
        if not place.values:
            self._cut(place.opened, place.opened, place.depth, self._entries(place, entries, None))
            return
        first = (place.keys or place.values)[-1]
        end = max(first.end, place.values[-1].end)
        if place.kind == "map" and self._text[end - 1] == ":":
            # Not every reader takes a comma right behind a colon.
            self._cut(end, end, place.depth, " null")
        indent = self._text[self._text.rfind("\n", 0, first.start) + 1 : first.start]
        stop = self._text.find("\n", end)
        rest = re.fullmatch(r"(,?)[ \t]*(?:#.*)?\r?", self._text[end:stop]) if stop >= 0 else None
        if indent.strip() or rest is None:
            comma = ", " if self._dump is None else self._dump([0, 0], None)[2:-2]
            self._cut(end, end, place.depth, comma + self._entries(place, entries, None))
            return
        # One entry a line, as the others are.
        comma = rest[1]
        self._cut(end, end, place.depth, "" if comma else ",")
        joined = self._entries(place, entries, indent)
        self._cut(stop + 1, stop + 1, place.depth, f"{indent}{joined}{comma}{self._newline}")

    def _entries(self, place: Node, entries: list[tuple[str, Any]], indent: str | None) -> str:
        """Return entries without the brackets around them, each on a line of its own where there is an indent."""
        made: Any = dict(entries) if place.kind == "map" else [value for _, value in entries]
        if self._dump is not None:
            return self._dump(made, indent)[1:-1].strip().replace("\n", self._newline)
        if indent is None:
            return _flow(made)[1:-1]
        return f",{self._newline}{indent}".join(_flow({k: v} if place.kind == "map" else [v])[1:-1] for k, v in entries)

    def _inline(self, value: Any) -> str:
        return _flow(value) if self._dump is None else self._dump(value, None)

    def _block(self, value: Any, column: int) -> list[str]:
        pad, lines = " " * column, []
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(inner, (dict, list)) or not inner:
                    lines.append(f"{pad}{_scalar(key)}: {_flow(inner, _PLAIN_IN_BLOCK)}")
                    continue
                lines.append(f"{pad}{_scalar(key)}:")
                lines += self._block(inner, column + (self._dash if isinstance(inner, list) else self._mapping))
            return lines
        for each in value:
            if not isinstance(each, dict) or not each:
                lines.append(f"{pad}-{' ' * (self._entry - 1)}{_flow(each)}")
                continue
            inner = self._block(each, column + self._entry)
            lines += [f"{pad}-{' ' * (self._entry - 1)}{inner[0].lstrip()}", *inner[1:]]
        return lines


def _scalar(value: Any, bare: re.Pattern[str] = _PLAIN) -> str:
    if isinstance(value, str) and bare.fullmatch(value) and goyaml.plain(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _flow(value: Any, bare: re.Pattern[str] = _PLAIN) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    return _scalar(value, bare)
