"""How a value is written into a manifest: as JSON that YAML 1.1 reads alike, and with Kubernetes' own ``$`` escaped."""

from __future__ import annotations

import json
import re
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False).encode

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON takes raw and YAML does not, or reads as a line break."""

_DOLLARS = re.compile(r"\$+(?=(\(|[^\x00-\x7f])?)")


def tojson(value: Any) -> str:
    """Write a value as one line of JSON that is YAML as well; nothing else in it is escaped, so it stays legible."""
    return printable(_encode(value))


def printable(text: str) -> str:
    """Escape in a JSON text what YAML refuses to read."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def literal(text: str) -> str:
    """Escape ``$`` so that the kubelet's expansion of ``$(NAME)`` gives back ``text`` as it was typed.

    The expansion reads ``$$`` as ``$`` everywhere, ``$(`` as the start of a name, and tears a character apart that is
    not ASCII and follows a ``$``; a lone ``$`` before anything else is itself.
    """

    def escape(match: re.Match[str]) -> str:
        run = match.group()
        return run * 2 if len(run) > 1 or match.group(1) else run

    return _DOLLARS.sub(escape, text)
