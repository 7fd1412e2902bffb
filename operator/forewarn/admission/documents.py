"""A stream of YAML or JSON documents, cut at its own bytes, and one document rewritten with patches applied."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError as RoundTripError

from forewarn import yaml_error
from forewarn.admission import goyaml, splice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.admission.inject import Operation
    from forewarn.admission.templates import Path

_MARKER = re.compile(r"^(?:---(?=[ \t\r\n]|\Z)[ \t]*(?:#[^\n]*)?\n?|\.\.\.(?=[ \t\r\n]|\Z)[^\n]*\n?)", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """One document: the text before it (its ``---``), its own text, its first line's number, its value."""

    head: str
    text: str
    line: int
    value: Any
    is_json: bool = False


def read(source: str, text: str) -> Iterator[Document]:
    """Yield the documents of a stream; their heads and texts, joined, are the stream.

    Raises ``UserError`` with file and line for what is neither YAML nor JSON.
    """
    line = 1
    for head, body in _cut(text):
        line += head.count("\n")
        for part, value, is_json in _values(source, body, line):
            yield Document(head, part, line, value, is_json)
            head = ""
            line += part.count("\n")


def _cut(text: str) -> Iterator[tuple[str, str]]:
    """Cut at the document markers: at the start of a line they are nothing else, even in a block of text."""
    start, head = 0, ""
    for match in _MARKER.finditer(text):
        if match.start() > start or head:
            yield head, text[start : match.start()]
        head, start = match.group(), match.end()
    yield head, text[start:]


def _values(source: str, text: str, line: int) -> Iterator[tuple[str, Any, bool]]:
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            yield from list(_json_values(text))
            return
    if not re.search(r"^[^%#\s]", text, re.MULTILINE) and re.search(r"^%", text, re.MULTILINE):
        # The directives of the next document.
        yield text, None, False
        return
    with yaml_error.explained(source, "allowed: YAML or JSON documents", line):
        value = goyaml.load(text)
    yield text, value, False


def _json_values(text: str) -> Iterator[tuple[str, Any, bool]]:
    """Yield the values of a text that holds JSON documents one after another."""
    decoder, position = json.JSONDecoder(parse_float=goyaml.number, parse_constant=_no_json), 0
    while True:
        begin = len(text) - len(text[position:].lstrip())
        if begin == len(text):
            break
        value, end = decoder.raw_decode(text, begin)
        rest = text[end:]
        # White space behind the last value belongs to it.
        end = len(text) if not rest.strip() else end
        yield text[position:end], value, True
        position = end


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def rewrite(document: Document, edits: Sequence[tuple[Path, Sequence[Operation]]]) -> tuple[str, bool]:
    """Return a document's text with patches applied to the pods at the given paths, and whether it was written anew.

    The additions are written into the text. Only where that cannot be is a document written anew: order, most comments
    and what is shared survive. Raises ``ValueError`` where the result would not read as it should.
    """
    # Through JSON, so that what is shared through an anchor is one object no longer.
    wanted = json.loads(json.dumps(document.value))
    for path, patch in edits:
        _apply(wanted, path, patch)
    # What several places share stays shared where the change suits them all.
    attempts: tuple[Callable[[], str], ...] = (
        lambda: _splice(document.text, edits, None),
        lambda: _splice(document.text, edits, functools.partial(_at, wanted)),
        lambda: _rewrite_yaml(document.text, edits, lambda _: _Shared()),
        lambda: _rewrite_yaml(document.text, edits, _Unshared),
    )
    if document.is_json:
        attempts = (lambda: _splice_json(document.text, edits), lambda: _rewrite_json(document.text, edits))
    problem = "the result would not read as it should"
    for number, attempt in enumerate(attempts):
        try:
            text = attempt()
            read_back = json.loads(text) if document.is_json else goyaml.load(text)
        except (ValueError, LookupError, RecursionError, yaml.YAMLError) as error:
            problem = str(error).partition("\n")[0] or problem
            continue
        if json.loads(json.dumps(read_back)) == wanted:
            return text, number >= (1 if document.is_json else 2)
    raise ValueError(problem)


def twice(document: Document) -> list[tuple[str, int]]:
    """Return each key that stands twice in one mapping of a document, and its line, counted from 0."""
    try:
        return list(splice.twice(document.text))
    except (yaml.YAMLError, RecursionError):  # JSON that is no YAML
        return []


def _splice(text: str, edits: Sequence[tuple[Path, Sequence[Operation]]], wanted: Callable[[Path], Any] | None) -> str:
    made = splice.Splice(text, indentation(text), wanted)
    for path, patch in edits:
        made.apply(path, patch)
    return made.result()


def _splice_json(text: str, edits: Sequence[tuple[Path, Sequence[Operation]]]) -> str:
    unit = re.search(r"\n([ \t]+)\S", text)

    def dump(value: Any, indent: str | None) -> str:
        if indent is not None and unit is not None:
            # What is on a line of its own there stands one step deeper here.
            return json.dumps(value, indent=unit[1], ensure_ascii=False).replace("\n" + unit[1], "\n" + indent)
        return json.dumps(value, ensure_ascii=False, separators=None if '": ' in text else (",", ":"))

    made = splice.Splice(text, (2, 0, 2), None, dump)
    for path, patch in edits:
        made.apply(path, patch)
    return made.result()


def _at(value: Any, path: Path) -> Any:
    for token in path:
        value = value[int(token) if isinstance(value, list) else token]
    return value


def _apply(document: Any, path: Path, patch: Iterable[Operation], places: _Shared | None = None) -> None:
    for operation in patch:
        tokens: list[str | int] = [
            *path,
            *(token.replace("~1", "/").replace("~0", "~") for token in operation.path.split("/")[1:]),
        ]
        place = document
        for token in tokens[:-1]:
            key = int(token) if isinstance(place, list) else token
            place = place[key] if places is None else places.enter(place, key)
        value = copy.deepcopy(operation.value)
        if places is not None and places.has(place, tokens[-1], value):
            continue
        if isinstance(place, list):
            place.append(value)
        else:
            place[tokens[-1]] = value


class _Shared:
    """Writes into what is shared, once for all that share it."""

    def __init__(self) -> None:
        self._written: set[tuple[int, str]] = set()

    def enter(self, parent: Any, key: str | int) -> Any:
        """Return ``parent[key]``, to be written to."""
        return parent[key]

    def has(self, place: Any, key: str | int, value: Any) -> bool:
        """Whether this was written already, through another alias of the same place."""
        mark = (id(place), json.dumps([key, value]))
        known = mark in self._written
        self._written.add(mark)
        return known


class _Unshared(_Shared):
    """Gives each place that is written to a copy of its own, where others share it by an alias or a merge."""

    def __init__(self, root: Any) -> None:
        super().__init__()
        self._uses: Counter[int] = Counter()
        self._count(root)

    def _count(self, node: Any) -> None:
        self._uses[id(node)] += 1
        if self._uses[id(node)] > 1:
            return
        if isinstance(node, CommentedMap):
            for source in getattr(node, "merge", None) or ():
                self._count(source)
                # Also its values are read by whoever merges it.
                self._uses[id(source)] += 1
            for key in node._ok:  # the keys of its own, without those merged in
                self._count(node[key])
        elif isinstance(node, CommentedSeq):
            for entry in node:
                self._count(entry)

    def enter(self, parent: Any, key: str | int) -> Any:
        """Return ``parent[key]``, a copy put in its place first where others would see the change."""
        child = parent[key]
        merged = isinstance(parent, CommentedMap) and key not in parent._ok
        if merged or self._uses[id(child)] > 1:
            child = _without_anchors(copy.deepcopy(child))
            parent[key] = child
            self._count(child)
        return child


def _without_anchors(node: Any) -> Any:
    if isinstance(node, (CommentedMap, CommentedSeq)):
        node.anchor.value, node.anchor.always_dump = None, False
        for child in node.values() if isinstance(node, CommentedMap) else node:
            _without_anchors(child)
    return node


def _rewrite_yaml(
    text: str, edits: Sequence[tuple[Path, Sequence[Operation]]], places_of: Callable[[Any], _Shared]
) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    round_trip = YAML(typ="rt")
    round_trip.preserve_quotes = True
    round_trip.allow_duplicate_keys = True
    round_trip.width = 1_000_000
    mapping, dash, entry = indentation(text)
    round_trip.indent(mapping=mapping, sequence=dash + entry, offset=dash)
    try:
        data = round_trip.load(text.replace("\r\n", "\n"))
        places = places_of(data)
        for path, patch in edits:
            _apply(data, path, patch, places)
        output = io.StringIO()
        round_trip.dump(data, output)
    except (RoundTripError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    written = output.getvalue()
    if not text.endswith("\n"):
        written = written.removesuffix("\n")
    return written.replace("\n", newline)


def indentation(text: str) -> tuple[int, int, int]:
    """Return how a YAML text is indented: a mapping's spaces, those before a dash, from a dash to its entry."""
    mapping, dash, entry = 0, -1, 2
    previous: tuple[int, bool] | None = None
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        depth, is_entry = len(line) - len(line.lstrip(" ")), bare.startswith("- ") or bare == "-"
        if previous is not None and previous[1]:
            if is_entry and dash < 0 and depth >= previous[0]:
                dash = depth - previous[0]
                entry = len(bare) - len(bare[1:].lstrip(" ")) if bare != "-" else 2
            if not is_entry and not mapping and depth > previous[0]:
                mapping = depth - previous[0]
        opens = bare.endswith(":") and not is_entry
        previous = (depth, opens)
    return mapping or 2, max(dash, 0), entry


_FLOATS = re.compile(r'"\\u0000float:([^"]*)"')


def _rewrite_json(text: str, edits: Sequence[tuple[Path, Sequence[Operation]]]) -> str:
    # A float keeps its spelling: 1.10 stays 1.10.
    data = json.loads(text, parse_float=lambda spelled: f"\x00float:{spelled}")
    for path, patch in edits:
        _apply(data, path, patch)
    second = re.search(r"\n([ \t]+)\S", text)
    dumped = json.dumps(
        data,
        indent=second.group(1) if second else None,
        ensure_ascii=text.isascii(),
        separators=None if second or re.search(r'": ', text) else (",", ":"),
    )
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(text.rstrip()) :]
    return before + _FLOATS.sub(r"\1", dumped) + after
