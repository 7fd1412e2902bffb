"""Whether a container's first process ends on SIGTERM, and how long its preStop takes, as far as can be told. Pure.

PID 1 has no default action for a signal: what has no handler of its own ignores SIGTERM and holds its GPU for the
whole grace. A shell has none, and does not pass the signal on to the command that it waits for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from forewarn.admission.pod import mapping, sequence, string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"})
DEAF = frozenset({"sleep", "tail"})
"""Programs that wait for ever and handle no signal."""

_EXEC_WRAPPERS = frozenset({"env", "nice", "ionice", "stdbuf", "nohup", "setpriv"})
"""Programs that replace themselves by the command behind their own options."""

_SEPARATOR = re.compile(r"&&|\|\||[;&|\n]")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
_TRAP = re.compile(r"(?:^|[\s;&|({])trap\s")
_COMPOUND = re.compile(r"(?:if|for|while|until|case|select|time|function)\b|[({!]|\w+\s*\(\)")
_ASSIGNMENT = re.compile(r"\w+=\S*\s+")
_SLEEP = re.compile(r"(?:^|[\s;&|(/])sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?![\w.])")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def program(words: Sequence[str]) -> list[str]:
    """Return the words of the command that PID 1 becomes, behind the programs that only replace themselves."""
    rest = list(words)
    while rest and _base(rest[0]) in _EXEC_WRAPPERS:
        rest = rest[1:]
        while rest and (rest[0].startswith("-") or ("=" in rest[0] and "/" not in rest[0].partition("=")[0])):
            # The short options of these that take a value as a word of its own.
            rest = rest[2 if re.fullmatch(r"-[nucpioeS]", rest[0]) and len(rest) > 1 else 1 :]
    return rest


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def deaf_program(container: Mapping[str, Any]) -> str | None:
    """Return the name of a container's PID 1 where it is sure to let SIGTERM pass by; ``None`` where it cannot be told.

    Only what the pod says is looked at: with no ``command`` the image's entry point runs, which it does not say.
    Raises ``Malformed``.
    """
    command = [string(word) for word in sequence(container.get("command"))]
    if not command:
        return None
    words = program(command + [string(word) for word in sequence(container.get("args"))])
    if not words:
        return None
    name = _base(words[0])
    if name in DEAF:
        return name
    if name not in SHELLS:
        return None
    script = _inline_script(words)
    if script is None:
        # A script file is not in the pod; a bare shell is deaf where it has something to wait for.
        waits = bool(container.get("tty") or container.get("stdin"))
        return name if waits and not any(not word.startswith("-") for word in words[1:]) else None
    return name if shell_stays(script) else _deaf_tail(script)


def _inline_script(words: Sequence[str]) -> str | None:
    for index, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word):
            # `bash -c -e SCRIPT` and `bash -o pipefail -c SCRIPT`: the script is the first word that is no option.
            return next((rest for rest in words[index + 1 :] if not rest.startswith("-")), "")
        if not word.startswith("-") and words[index - 1] not in ("-o", "-O", "+o", "+O"):
            return None
    return None


def shell_stays(script: str) -> bool:
    """Return whether a shell that runs ``script`` with ``-c`` stays as PID 1 and passes no SIGTERM on.

    It does not stay where the script is one simple command (every shell replaces itself by that) or ends with
    ``exec``; it may hear the signal where it sets a ``trap``.
    """
    bare = _bare(script)
    if _TRAP.search(bare):
        return False
    commands = [part.strip() for part in _SEPARATOR.split(bare) if part.strip()]
    if not commands:
        return False
    if re.match(r"exec\s+[^\s<>\d&]", commands[-1]):
        return False
    return len(commands) > 1 or bare.strip().endswith("&") or bool(_COMPOUND.match(commands[0]))


def _deaf_tail(script: str) -> str | None:
    bare = _bare(script)
    if _TRAP.search(bare):
        return None
    last = [part.strip() for part in _SEPARATOR.split(bare) if part.strip()][-1:]
    words = re.sub(r"^exec\s+", "", _ASSIGNMENT.sub("", last[0])).split() if last else []
    return _base(words[0]) if words and _base(words[0]) in DEAF else None


def _bare(script: str) -> str:
    # What is quoted is data: a ';' in it separates nothing. A redirection such as 2>&1 is no background '&'.
    text = _QUOTED.sub(lambda match: "" if match.group() == "\\\n" else "Q", script)
    return re.sub(r"\d*[<>]&\d*-?|&>>?", " ", _COMMENT.sub("", text))


def pre_stop_seconds(container: Mapping[str, Any]) -> float:
    """Return how long a container's preStop is sure to take: its sleep, or the sleeps in its command; else 0.

    Raises ``Malformed``.
    """
    hook = mapping(mapping(container.get("lifecycle")).get("preStop"))
    seconds = mapping(hook.get("sleep")).get("seconds")
    if isinstance(seconds, int):
        return float(min(seconds, 2**53))
    words = " ".join(string(word) for word in sequence(mapping(hook.get("exec")).get("command")))
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(words))
