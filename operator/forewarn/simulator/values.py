"""How the values of a scenario are spelled: times, instants, risks, counts, annotation names."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.simulator.model import Relative

if TYPE_CHECKING:
    from forewarn.contract import Keys

SPAN_ALLOWED = "allowed: a time such as 500ms, 12s, 1m30s or 2h"
INSTANT_ALLOWED = "allowed: now+15m, start+90s, or an instant such as 2026-11-29T19:30:00Z"

_SPAN = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,7}(?:\.\d{1,3})?)s)?(?:(\d{1,9})ms)?", re.ASCII)
_RELATIVE = re.compile(r"(now|start)(?:\s*([+-])\s*(\S+))?", re.ASCII)
_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


def span(text: str) -> timedelta:
    """Read a length of time: ``500ms``, ``12s``, ``1m30s``, ``2h``; raises ``ValueError`` with what is allowed.

    A bare number is refused: nobody can tell its unit.
    """
    match = _SPAN.fullmatch(text)
    if not text or match is None:
        raise ValueError(SPAN_ALLOWED)
    hours, minutes, seconds, milliseconds = (float(group or 0) for group in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)


def relative(text: str) -> Relative | None:
    """Read ``now``, ``now+15m``, ``start-10s``; ``None`` for a text of another form.

    Raises ``ValueError`` where the form is right and the time is not.
    """
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    base, sign, length = match.groups()
    offset = span(length) if length else timedelta()
    return Relative(base, -offset if sign == "-" else offset)


def instant(text: str) -> Relative | datetime:
    """Read an instant, relative or absolute; raises ``ValueError`` with what is allowed."""
    try:
        found = relative(text) or contract.parse_instant(text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(INSTANT_ALLOWED)
    return found


def risk(text: str) -> str:
    """Check a risk; the text itself is written."""
    if contract.parse_risk(text) is None:
        raise ValueError("allowed: a decimal above 0 and at most 1, such as 0.33")
    return text


def whole(text: str) -> int:
    """Read a whole number, 0 or more."""
    found = contract.parse_whole(text)
    if found is None:
        raise ValueError("allowed: a whole number, 0 or more")
    return found


def exit_code(text: str) -> int:
    """Read an exit code."""
    if not re.fullmatch(r"\d{1,3}", text, re.ASCII) or int(text) > 255:
        raise ValueError("allowed: an exit code, 0 to 255")
    return int(text)


def pattern(text: str) -> str:
    """Check a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"allowed: a regular expression ({error})") from None
    return text


def annotation_key(text: str, keys: Keys) -> str:
    """Return the key of an annotation: one of the contract's names without prefix, or any key with a prefix.

    Raises ``ValueError`` with what is allowed.
    """
    names = contract.ANNOTATION_NAMES
    if text in names:
        return keys.key(text)
    if "/" in text and _NAME.fullmatch(text):
        return text
    raise ValueError(f"allowed: {', '.join(sorted(names))}, or any key with a prefix, such as example.org/note")
