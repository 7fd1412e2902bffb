"""Launches from a list: one row of a .csv or .yaml file each, the command line's flags beneath every row."""

from __future__ import annotations

import csv
import io
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.errors import UserError
from forewarn_manifests import checks
from forewarn_manifests.flags import BY_LONG, OF_THE_COMMAND, Given

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn_manifests.flags import Arguments, Flag
    from forewarn_manifests.request import LaunchRequest, Person

COMMAND = "command"
COLUMNS = (*(name for name in BY_LONG if name not in OF_THE_COMMAND), COMMAND)


def requests(arguments: Arguments, environ: Mapping[str, str], person: Person) -> list[LaunchRequest]:
    """Return the launches of the list that --many names, all checked before any is printed.

    --number's has the row's own behind it, so that rows without a name are told apart.

    Raises ``UserError`` whose place begins with the file and the row's line.
    """
    from forewarn_manifests.command import request

    given = arguments.last("many")
    assert given is not None  # noqa: S101  (the caller looked)
    number = arguments.last("number")
    names: dict[str, str] = {}
    found = []
    for index, (place, row) in enumerate(_rows(given.where, given.value), 1):
        own = [replace(number, value=f"{number.value}-{index}")] if number else []
        try:
            one = request(_with_row(arguments.followed_by(own, None), row), environ, person)
        except UserError as error:
            raise UserError(f"{place}: {error.where}", error.what, error.allowed) from None
        if one.name and one.name in names:
            raise UserError(place, f"the name {one.name!r} is taken by {names[one.name]}", "give each row its own name")
        names[one.name] = place
        found.append(one)
    if not found:
        raise UserError(given.value, "holds no launch", "allowed: one row for each launch")
    return found


def _rows(where: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".yaml", ".yml"):
        raise UserError(where, f"{path} is neither .csv nor .yaml", "allowed: a .csv or .yaml file")
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(path, "is not UTF-8", "allowed: a list in UTF-8") from None
    except OSError as error:
        raise UserError(where, f"{path} cannot be read: {error.strerror}", "allowed: a file") from None
    return _csv(path, text) if suffix == ".csv" else _yaml(path, text)


def _csv(path: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    columns: list[str] = []
    for line, fields in _fields(path, text):
        place = f"{path}:{line}"
        if not columns:
            columns = _columns(place, fields)
            continue
        if len(fields) != len(columns):
            kind = "more" if len(fields) > len(columns) else "fewer"
            what = f"has {kind} fields than columns ({len(fields)}, not {len(columns)})"
            raise UserError(place, what, f"columns: {', '.join(columns)}")
        values: dict[str, Any] = {key: value for key, value in zip(columns, fields, strict=True) if value}
        if not values:
            raise UserError(place, "has only empty fields", "leave the row out")
        if COMMAND in values:
            try:
                values[COMMAND] = shlex.split(values[COMMAND])
            except ValueError as error:
                raise UserError(f"{place}: {COMMAND}", str(error), "quote it as a shell would") from None
        yield place, values


def _fields(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank with the line that it begins on: a quoted field may hold newlines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        what = "a quote is not closed" if "unexpected end" in str(error) else str(error)
        raise UserError(f"{path}:{line}", what, "allowed: comma-separated values") from None


def _columns(place: str, names: list[str]) -> list[str]:
    for index, name in enumerate(names):
        checks.one_of(place, "column", name, COLUMNS)
        if name in names[:index]:
            raise UserError(place, f"the column {name!r} is there twice", "name each column once")
    return names


def _yaml(path: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    from forewarn_manifests.yaml_text import load

    node, rows = load(path, text, as_written=True)
    if node is None or not isinstance(rows, list):
        raise UserError(path, "is no list", "allowed: a list of mappings, one for each launch")
    for row, place in zip(rows, node.value, strict=True):
        where = f"{path}:{place.start_mark.line + 1}"
        if not isinstance(row, dict):
            raise UserError(where, f"{row!r} is no mapping", f"allowed keys: {', '.join(COLUMNS)}")
        for key in row:
            checks.one_of(where, "key", str(key), COLUMNS)
        if not isinstance(row.get(COMMAND, []), list):
            what = "is one text" if isinstance(row[COMMAND], str) else f"{row[COMMAND]!r} is no list"
            raise UserError(f"{where}: {COMMAND}", what, "allowed: a list of words, such as [python, train.py]")
        yield where, row


def _with_row(arguments: Arguments, row: Mapping[str, Any]) -> Arguments:
    command = row.get(COMMAND)
    words: Sequence[str] | None = None if command is None else [_text(COMMAND, word) for word in command]
    given = [one for name, value in row.items() if name != COMMAND for one in _given(BY_LONG[name], name, value)]
    return arguments.followed_by(given, words)


def _given(flag: Flag, name: str, value: Any) -> Iterator[Given]:
    """Return what a row's field means as flags: a switch is true or false, a repeated flag may be a list."""
    if not flag.metavar:
        on = value if isinstance(value, bool) else checks.yes_or_no(name, str(value))
        if on:
            yield Given(flag, flag.constant, name)
        return
    if flag.metavar.startswith("[=") and str(value).lower() in checks.WORDS:
        if checks.yes_or_no(name, str(value)):
            yield Given(flag, flag.constant, name)
        return
    values = value if isinstance(value, list) else [value]
    if len(values) != 1 and not flag.repeat:
        raise UserError(name, f"{value!r} is a list", "allowed: one value")
    for one in values:
        yield Given(flag, _text(name, one), name)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UserError(name, f"{value!r} is neither a text nor a whole number", "put a text in quotes")
    return str(value)
