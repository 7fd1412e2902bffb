"""What Kubernetes and a site accept: names, labels, images, numbers; a refusal names the place and what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Patterns are texts, compiled at their first use: a launch needs few of them, and compiling all takes milliseconds.
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_KEY_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_WHOLE = r"[0-9]{1,10}"
_UNITS = r"([0-9]{1,9}) *[gG](?:i?[bB]|i)?"
_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = (
    rf"(?:(?:{_HOST}(?:\.{_HOST})*\.?(?::[0-9]+)?)/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?"
)
WORDS = {"yes": True, "true": True, "1": True, "on": True, "no": False, "false": False, "0": False, "off": False}

LABEL_ALLOWED = "allowed: KEY=VALUE, each at most 63 letters, digits, - _ . (a key may begin with a DNS name and /)"
KEY_ALLOWED = "allowed: at most 63 letters, digits, - _ . (and before them a DNS name and /)"
VALUE_ALLOWED = "allowed: at most 63 letters, digits, - _ . with a letter or digit first and last"
ANNOTATION_ALLOWED = "allowed: KEY=VALUE, the key at most 63 letters, digits, - _ . (and before them a DNS name and /)"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` was probably meant to be, whatever its case; ``None`` if none is near."""
    import difflib

    lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lower, 1, 0.6)
    return lower[found[0]] if found else None


def one_of(where: str, what: str, value: str, known: Iterable[str]) -> str:
    """Return ``value`` if it is known; else refuse it with the known ones and the nearest."""
    names = list(known)
    if value in names:
        return value
    like = nearest(value, names)
    raise UserError(
        where,
        f"no {what} {value!r}" + (f" (did you mean {like}?)" if like else ""),
        f"allowed: {', '.join(names) or 'none is set up'}",
    )


def text(where: str, value: str) -> str:
    """Refuse what no container can be given: bytes that are not UTF-8, and NUL."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError(where, f"{value!a} is not UTF-8", "allowed: any text in UTF-8") from None
    if "\0" in value:
        raise UserError(where, f"{value!r} holds a NUL", "allowed: any text in UTF-8 without NUL")
    return value


def whole(where: str, value: str, low: int, high: int, what: str) -> int:
    """Read a whole number from ``low`` to ``high``."""
    allowed = f"allowed: a whole number from {low} to {high} ({what})"
    if not re.fullmatch(_WHOLE, value):
        units = re.fullmatch(_UNITS, value.strip())
        hint = f" (write {units.group(1)}: the unit is GB)" if units else ""
        raise UserError(where, f"{value!r} is no whole number{hint}", allowed)
    if not low <= int(value) <= high:
        raise UserError(where, f"{int(value)} is out of range", allowed)
    return int(value)


def yes_or_no(where: str, value: str) -> bool:
    """Read YES or NO, in any case; also 1, 0, true, false, on, off."""
    if value.lower() not in WORDS:
        raise UserError(where, f"{value!r} is neither yes nor no", "allowed: YES or NO")
    return WORDS[value.lower()]


def object_name(where: str, value: str, limit: int = 63, dots: bool = True) -> str:
    """Check the name of a Kubernetes object."""
    pattern = _SUBDOMAIN if dots else _DNS_LABEL
    if len(value) > limit or not re.fullmatch(pattern, value):
        kinds = "lower-case letters, digits, - and ." if dots else "lower-case letters, digits and -"
        raise UserError(
            where,
            f"{value!r} is no name that Kubernetes takes",
            f"allowed: at most {limit} {kinds}, a letter or digit first and last",
        )
    return value


def host_name(where: str, value: str, allowed: str) -> str:
    """Check a DNS name."""
    if len(value) > 253 or not re.fullmatch(_SUBDOMAIN, value):
        raise UserError(where, f"{value!r} is no host name", allowed)
    return value


def variable_name(where: str, value: str) -> str:
    """Check the name of an environment variable."""
    if not re.fullmatch(_VARIABLE, value):
        raise UserError(where, f"{value!r} is no name of a variable", "allowed: letters, digits and _, no digit first")
    return value


def key(where: str, value: str, allowed: str) -> str:
    """Check the key of a label or an annotation."""
    prefix, slash, name = value.rpartition("/")
    good = re.fullmatch(_KEY_NAME, name) and (not slash or (len(prefix) <= 253 and re.fullmatch(_SUBDOMAIN, prefix)))
    if not good:
        raise UserError(where, f"{value!r} is no key", allowed)
    return value


def label_value(where: str, value: str, allowed: str = VALUE_ALLOWED) -> str:
    """Check the value of a label; ``allowed`` where it is given as a part of something longer."""
    if value and not re.fullmatch(_KEY_NAME, value):
        raise UserError(where, f"{value!r} is no label value", allowed)
    return value


def label(where: str, value: str) -> tuple[str, str]:
    """Read a label given as KEY=VALUE."""
    name, equals, content = value.partition("=")
    if not equals:
        raise UserError(where, f"{value!r} has no =", LABEL_ALLOWED)
    return key(where, name, LABEL_ALLOWED), label_value(where, content, LABEL_ALLOWED)


def annotation(where: str, value: str) -> tuple[str, str]:
    """Read an annotation given as KEY=VALUE."""
    name, equals, content = value.partition("=")
    if not equals:
        raise UserError(where, f"{value!r} has no =", ANNOTATION_ALLOWED)
    return key(where, name, ANNOTATION_ALLOWED), text(where, content)


def image(where: str, value: str) -> str:
    """Check an image reference: a bad one would wait forever with InvalidImageName."""
    if len(value) > 512 or not re.fullmatch(_IMAGE, value):
        like = value.lower()
        hint = f" (did you mean {like}?)" if like != value and len(value) <= 512 and re.fullmatch(_IMAGE, like) else ""
        raise UserError(
            where, f"{value!r} is no image{hint}", "allowed: [REGISTRY/]NAME[:TAG][@DIGEST], NAME in lower case"
        )
    return value


def path(where: str, value: str) -> str:
    """Check an absolute path in the container; one place has one spelling, so that two mounts can be compared."""
    text(where, value)
    trimmed = value.rstrip("/")
    first, *parts = trimmed.split("/")
    if first or not parts or ":" in value or not {"", ".", ".."}.isdisjoint(parts):
        raise UserError(
            where, f"{value!r} is no path to mount at", "allowed: an absolute path other than /, without : // . and .."
        )
    return trimmed


def sub_path(where: str, value: str) -> str:
    """Check a path below a volume."""
    text(where, value)
    if not value or value.startswith("/") or ".." in value.split("/"):
        raise UserError(where, f"{value!r} is no path below the home", "allowed: a relative path without ..")
    return value.rstrip("/")
