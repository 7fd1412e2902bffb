"""Reads the whole-map file: one ``key="value"`` line per annotation, the value quoted as Go's ``%q``."""

from __future__ import annotations

import re

_SIMPLE = {
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "v": b"\v",
    "\\": b"\\",
    '"': b'"',
    "'": b"'",
}

_ESCAPE = re.compile(
    r"""\\(?: x([0-9a-fA-F]{2}) | u([0-9a-fA-F]{4}) | U([0-9a-fA-F]{8}) | ([0-7]{3}) | ([abfnrtv\\"']) )""", re.VERBOSE
)


def unquote(text: str) -> str:
    """Undo Go's ``%q``: ``text`` with its quotes. What is no escape of Go's stays as it is; never raises."""
    if len(text) >= 2 and text[0] == '"' and text[-1] == '"':
        text = text[1:-1]
    if "\\" not in text:
        return text
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode("utf-8", "surrogatepass"))
        parts.append(_byte_or_rune(match))
        end = match.end()
    parts.append(text[end:].encode("utf-8", "surrogatepass"))
    # Go writes each byte that is not UTF-8 as \xNN, so only the joined bytes can be decoded.
    return b"".join(parts).decode("utf-8", "replace")


def _byte_or_rune(match: re.Match[str]) -> bytes:
    byte, short, long, octal, simple = match.groups()
    if simple:
        return _SIMPLE[simple]
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF])
    number = int(short or long, 16)
    return chr(number).encode("utf-8", "surrogatepass") if number <= 0x10FFFF else match.group().encode()


def read_map(text: str) -> dict[str, str]:
    """Return the annotations of a whole-map file; a line without ``=`` is left out."""
    pairs = (line.partition("=") for line in text.split("\n"))
    return {key: unquote(value) for key, equals, value in pairs if equals}
