"""Launches from a list: one row of a .csv or .yaml file each, the command line's flags beneath every row."""

from __future__ import annotations

import csv
import io
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.errors import UserError
from forewarn_manifests import checks
from forewarn_manifests.flags import BY_LONG, Given

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn_manifests.flags import Arguments, Flag
    from forewarn_manifests.request import LaunchRequest, Person

COMMAND = "command"
NOT_IN_ROWS = frozenset({"many", "dump", "explain", "help", "plan", "server-dry-run", "namespace"})
COLUMNS = (*(name for name in BY_LONG if name not in NOT_IN_ROWS), COMMAND)


def requests(arguments: Arguments, environ: Mapping[str, str], person: Person) -> list[LaunchRequest]:
    """Return the launches of the list that --many names, all checked before any is printed.

    Raises ``UserError`` whose place begins with the file and the row's line.
    """
    from forewarn_manifests.command import request

    given = arguments.last("many")
    assert given is not None  # noqa: S101  (the caller looked)
    names: dict[str, str] = {}
    found = []
    for place, row in _rows(given.where, given.value):
        try:
            one = request(_with_row(arguments, row), environ, person)
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
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for column in reader.fieldnames or ():
            checks.one_of(f"{path}:1", "column", column, COLUMNS)
        for row in reader:
            place = f"{path}:{reader.line_num}"
            if None in row:
                raise UserError(place, "has more fields than columns", f"columns: {', '.join(reader.fieldnames or ())}")
            values: dict[str, Any] = {key: value for key, value in row.items() if value}
            if COMMAND in values:
                try:
                    values[COMMAND] = shlex.split(values[COMMAND])
                except ValueError as error:
                    raise UserError(f"{place}: {COMMAND}", str(error), "quote it as a shell would") from None
            yield place, values
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}", str(error), "allowed: comma-separated values") from None


def _yaml(path: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node = yaml.compose(text, Loader=loader)
        rows = yaml.load(text, Loader=loader)  # noqa: S506  (a safe loader, in C where it is there)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}", str(error.problem), "allowed: YAML") from None
    except yaml.YAMLError as error:
        raise UserError(path, str(error), "allowed: YAML") from None
    if not isinstance(rows, list):
        raise UserError(path, "is no list", "allowed: a list of mappings, one for each launch")
    for row, place in zip(rows, node.value if node else (), strict=True):
        where = f"{path}:{place.start_mark.line + 1}"
        if not isinstance(row, dict):
            raise UserError(where, f"{row!r} is no mapping", f"allowed keys: {', '.join(COLUMNS)}")
        for key in row:
            checks.one_of(where, "key", str(key), COLUMNS)
        if isinstance(row.get(COMMAND), str):
            raise UserError(
                f"{where}: {COMMAND}", "is one text", "allowed: a list of words, such as [python, train.py]"
            )
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
    if flag.metavar.startswith("[=") and value in (True, "yes", "true"):
        yield Given(flag, flag.constant, name)
        return
    values = value if isinstance(value, list) else [value]
    if len(values) != 1 and not flag.repeat:
        raise UserError(name, f"{value!r} is a list", "allowed: one value")
    for one in values:
        yield Given(flag, _text(name, one), name)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise UserError(name, f"{value!r} is neither a text nor a whole number", "put a text in quotes")
    return str(value)
