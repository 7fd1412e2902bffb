"""Whether a container's first process would swallow SIGTERM, and how to mend it. Pure; standard library only.

The kernel drops a signal with the default action when it is sent to PID 1, and a shell that waits for a command does
not pass signals on. So a shell as PID 1 neither stops nor tells its program: the container lives through its whole
grace and is then killed, with nothing saved.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
INITS = frozenset({"tini", "dumb-init", "catatonit", "docker-init", "init", "s6-svscan", "su-exec", "gosu"})
PREFIXES = frozenset({"env", "nice", "nohup", "stdbuf", "setsid", "exec"})
"""Programs that replace themselves by the command behind them."""

_TRAP = r"\btrap\b[^\n;]*\b(SIG)?(TERM|EXIT)\b|\btrap\b[^\n;]*\s(15|0)\b"
_PIECE = r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|[<>]&|&>|(?P<end>&&|[;\n])|(?P<clever>[|&`])"""
_KEYWORDS = frozenset({"if", "for", "while", "until", "case", "select", "function", "{", "(", "((", "[[", "!", "time"})
_SHOWN = 160


def swallows_sigterm(command: Sequence[str], args: Sequence[str]) -> str | None:
    """Return how to mend a container whose PID 1 is a shell that would swallow SIGTERM, else ``None``.

    ``command`` and ``args`` are a container's fields. Where ``command`` is empty the image's entrypoint is not known:
    ``args`` are then judged as the whole command line; a caller that knows the entrypoint to be an init does not ask.
    The mend is a phrase such as ``write: bash -c 'cd /work && exec python train.py'``.
    """
    line = _behind_prefixes([*command, *args])
    if not line or line[0].rpartition("/")[2] not in SHELLS:
        return None
    text = _script_text(line)
    if text is None:
        rest = [word for word in line[1:] if not word.startswith("-")]
        if rest:
            return f"end {rest[0]} with 'exec PROGRAM', or let it trap TERM"
        return "start the program itself instead of a shell"
    index, script = text
    if re.search(_TRAP, script):
        return None
    pieces = _commands(script)
    if pieces is None or any(words[0] in _KEYWORDS or words[0].startswith("(") for _, words in pieces if words):
        return "let the script trap TERM and pass it on, or start its long part with exec"
    start, words = pieces[-1]
    if len(pieces) == 1 or words[0] == "exec":
        return None  # every common shell replaces itself by the one simple command of its -c
    if "\n" in script.strip():
        return "put exec before its last command: exec " + _shown(script[start:])
    mended = f"{script[:start]}exec {script[start:].rstrip()}"
    import shlex

    return "write: " + _shown(shlex.join([*line[:index], mended, *line[index + 1 :]]))


def script_swallows_sigterm(text: str) -> bool:
    """Return whether a script file would swallow SIGTERM as PID 1: a shell's, with neither a trap nor an ``exec``."""
    first, _, body = text.partition("\n")
    if first.startswith("#!"):
        words = _behind_prefixes(first[2:].split())
        if not words or words[0].rpartition("/")[2] not in SHELLS:
            return False
    else:
        body = text
    return not re.search(_TRAP, body) and not re.search(r"^\s*exec\s+[^\s<>&0-9]", body, re.MULTILINE)


def _behind_prefixes(words: list[str]) -> list[str]:
    """Return the command behind ``env A=b nice …``."""
    while words:
        name = words[0].rpartition("/")[2]
        if name in INITS:
            return []
        if name not in PREFIXES:
            return words
        words = words[1:]
        while words and (words[0].startswith("-") or (name == "env" and re.match(r"\w+=", words[0]))):
            takes_value = name in ("nice", "env") and words[0] in ("-n", "-u", "-C")
            words = words[2:] if takes_value else words[1:]
    return words


def _script_text(words: list[str]) -> tuple[int, str] | None:
    """Return (index, text) of the script that a shell's ``-c`` names."""
    index, given = 1, False
    while index < len(words) and words[index][:1] in ("-", "+"):
        word = words[index]
        given = given or (not word.startswith("--") and "c" in word[1:])
        if word in ("--rcfile", "--init-file") or (not word.startswith("--") and word[-1] in "oO"):
            index += 1
        index += 1
        if word == "--":
            break
    return (index, words[index]) if given and index < len(words) else None


def _commands(script: str) -> list[tuple[int, list[str]]] | None:
    """Split a script at ``;``, ``&&`` and line ends outside quotes, as (offset, words).

    ``None`` for pipes, background jobs, substitutions by backticks and unbalanced quotes: too clever to mend.
    """
    import shlex

    ends = [(0, 0)]
    for match in re.finditer(_PIECE, script, re.DOTALL):
        if match.lastgroup == "clever":
            return None
        if match.lastgroup == "end":
            ends.append(match.span())
    ends.append((len(script), len(script)))
    pieces = []
    for (_, start), (end, _) in itertools.pairwise(ends):
        text = script[start:end]
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            return None
        pieces.append((start + len(text) - len(text.lstrip()), words))
    while len(pieces) > 1 and not pieces[-1][1]:
        pieces.pop()
    return pieces


def _shown(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
