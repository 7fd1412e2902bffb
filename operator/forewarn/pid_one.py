"""Whether a container's first process would swallow SIGTERM, and how to mend it. Pure; standard library only.

The kernel drops a signal with the default action when it is sent to PID 1, and a shell that waits for a command does
not pass signals on. So a shell as PID 1 neither stops nor tells its program: the container lives through its whole
grace and is then killed, with nothing saved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
INITS = frozenset({"tini", "dumb-init", "catatonit", "docker-init", "init", "s6-svscan", "su-exec", "gosu"})
PREFIXES = frozenset({"env", "nice", "nohup", "stdbuf", "setsid", "exec"})
"""Programs that replace themselves by the command behind them."""

WAITERS = frozenset({"sleep", "tail"})
"""Programs that wait for ever and handle no signal: as PID 1 they ignore SIGTERM like a shell does."""

END_AT_TERM = 'trap "exit 0" TERM'
"""What mends a shell that only waits: it has nothing to save."""

IN_GENERAL = "let the script trap TERM and pass it on, or start its long part with exec"
BETWEEN_COMMANDS = (
    "its trap runs only once the running command ends: run that in the background and wait for it (& wait)"
)

_TOKEN = re.compile(
    r"""(?P<space>[^\S\n]+|\\\n)
    |(?P<comment>(?<![^\s;&|()<>])\#[^\n]*)
    |(?P<open>[<>]?\()
    |(?P<close>\))
    |(?P<redirect>&>>?|<<<|<(?!<)&?|>[>|&]?)
    |(?P<joint>&&|\|[|&]?|;|&|\n)
    |(?P<word>[^\s;&|<>()'"\\`]+|\\.|'[^']*'|"[^"\\]*(?:\\.[^"\\]*)*"|`[^`\\]*(?:\\.[^`\\]*)*`)""",
    re.VERBOSE | re.DOTALL,
)
_LOOPS = frozenset({"for", "while", "until", "select", "do"})
_SETS_UP = frozenset(
    {"apt-get", "chmod", "chown", "conda", "cp", "ln", "mkdir", "nvidia-smi", "pip", "service", "ssh-keygen", "sshd"}
    | {"touch"}
)
"""Programs that are over soon, and have nothing to save."""

_OPENERS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time"})
"""Keywords that a command stands behind."""

_KEYWORDS = _OPENERS | {"for", "case", "select", "function", "[[", "fi", "done", "esac", "}"}
_INTERRUPTED = frozenset({"wait", "read", "source", ".", "eval"})
"""What a trap interrupts, and what may hold anything."""

_OVER_AT_ONCE = re.compile(
    r"[.:\[]|alias|bg|break|builtin|cd|command|continue|declare|disown|echo|eval|exit|export|false|fg|hash|jobs|kill|let"
    r"|local|popd|printf|pushd|pwd|read|readonly|return|set|shift|shopt|sleep|source|tail|test|times|trap|true|type"
    r"|typeset|ulimit|umask|unalias|unset|wait|\w+\+?=.*",
    re.DOTALL,
)
"""Last commands that are not the long part of a script, and mostly nothing that ``exec`` could start."""

_REDIRECTION = re.compile(r"\d*(&>>?|<<<|<&?|>[>|&]?)")
_LONG = re.compile(r"inf(inity)?|\d{4,}s?|\d+[mhd]")
_UNREAD = re.compile(r"(?:^|[;&])[ \t]*(?:trap|exec)[ \t]+[^\s<>&0-9]", re.MULTILINE)
_SHOWN = 160


class _Command(NamedTuple):
    """One command of a script: its place, its words, what joins it to the next, whether it is a part of a larger one.

    The words are without redirections, quotes and keywords in front.
    """

    start: int
    end: int
    words: list[str]
    joint: str
    compound: bool
    loop: bool

    def traps(self, *, at_exit: bool = True) -> bool:
        """Whether it lets something happen at SIGTERM, or ``at_exit`` (of bash at SIGTERM too) passes it on."""
        if self.words[0] != "trap":
            return False
        action, *signals = [word for word in self.words[1:] if word != "--"] or [""]
        if action in ("", "-"):
            return False
        names = {each.upper().removeprefix("SIG") for each in signals}
        if not names.isdisjoint({"TERM", "15"}) or any("$" in name for name in names):
            return True
        # A function may do anything; other words show whether they pass it on.
        return at_exit and not names.isdisjoint({"EXIT", "0"}) and (action.isidentifier() or "kill" in action)

    def sets_up(self) -> bool:
        """Whether it is over soon, and loses nothing when it is ended."""
        return bool(_OVER_AT_ONCE.fullmatch(self.words[0])) or self.words[0].rpartition("/")[2] in _SETS_UP

    def execs(self) -> bool:
        """Whether it replaces the shell itself."""
        return len(self.words) > 1 and self.words[0] == "exec" and self.joint not in ("|", "&")


def swallows_sigterm(command: Sequence[str], args: Sequence[str]) -> str | None:
    """Return how to mend a container whose PID 1 is a shell that would swallow SIGTERM, else ``None``.

    ``command`` and ``args`` are a container's fields. Where ``command`` is empty the image's entrypoint is not known:
    ``args`` are then judged as the whole command line; a caller that knows the entrypoint to be an init does not ask.
    The mend is a phrase such as ``write: bash -c 'cd /work && exec python train.py'``. Takes time in proportion to the
    length of the line.
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
    return _mend(line, *text)


def _mend(line: list[str], index: int, script: str) -> str | None:
    commands = _commands(script)
    if not commands:
        return IN_GENERAL if commands is None and not _UNREAD.search(script) else None
    start, many = commands[-1].start, "\n" in script.strip()
    if _only_waits(commands):
        return _mend_of_waiter(line, index, script, commands)
    if _handles(commands):
        return None
    if any(each.traps(at_exit=False) for each in commands):
        return BETWEEN_COMMANDS
    if any(each.compound or each.joint in ("|", "||", "&") or each.words[0] == "trap" for each in commands):
        return IN_GENERAL
    if len(commands) == 1:
        return None  # every common shell replaces itself by the one simple command of its -c
    if _OVER_AT_ONCE.fullmatch(commands[-1].words[0]):
        return IN_GENERAL
    if many:
        return "put exec before its last command: exec " + _shown(script[start:])
    return _written(line, index, f"{script[:start]}exec {script[start:].rstrip()}")


def _mend_of_waiter(line: list[str], index: int, script: str, commands: list[_Command]) -> str:
    if not all(each.sets_up() for each in commands[:-1]):
        return IN_GENERAL
    start = commands[-1].start
    ending = script[start : commands[-1].end].removeprefix("exec ") + " & wait"
    if "\n" in script.strip():
        return f"let it begin with: {END_AT_TERM}, and end with: {_shown(ending)}"
    return _written(line, index, f"{END_AT_TERM}; {script[:start].lstrip()}{ending}")


def script_swallows_sigterm(text: str) -> bool:
    """Return whether a script file would swallow SIGTERM as PID 1: a shell's that neither traps it nor ends in exec."""
    first, _, body = text.partition("\n")
    if first.startswith("#!"):
        words = _behind_prefixes(first[2:].split())
        if not words or words[0].rpartition("/")[2] not in SHELLS:
            return False
    else:
        body = text
    commands = _commands(body)
    return not (_UNREAD.search(body) if commands is None else _handles(commands))


def waits(words: Sequence[str]) -> bool:
    """Return whether a command line is one of the WAITERS, at work for ever (or for as long as it is told)."""
    name = words[0].rpartition("/")[2] if words else ""
    return name == "sleep" or (
        name == "tail" and any(re.match(r"-[a-zA-Z]*[fF]|--f|--retry", word) is not None for word in words[1:])
    )


def _only_waits(commands: list[_Command]) -> bool:
    """Whether what a script comes to in the end is one of the WAITERS, of which only the shell can take care."""
    *before, last = commands
    behind_exec = last.words[1:] if last.words[0] == "exec" else last.words
    if not waits(behind_exec) or any(each.joint == "&" or each.traps() for each in commands):
        return False
    if not before:
        return not last.compound
    in_one_shell = last.execs() or not any(each.compound or each.joint in ("|", "||") for each in before)
    for_ever = behind_exec[0].endswith("tail") or any(_LONG.fullmatch(word) for word in behind_exec[1:])
    return in_one_shell and for_ever and before[-1].joint != "|"


def _handles(commands: list[_Command]) -> bool:
    """Whether a script ends in exec, or has a trap that can run before its program ends.

    A shell puts a trap off while it waits for a command in the foreground: a script that is neither in steps (a loop)
    nor waits in the background never comes to it.
    """
    in_steps = any(each.compound for each in commands)
    if commands[-1].execs() and (len(commands) == 1 or commands[-2].joint != "|"):
        return True
    if in_steps and not _apart(commands) and any(each.execs() for each in commands):
        return True
    interrupted = any(each.loop or each.words[0] in _INTERRUPTED for each in commands)
    return interrupted and any(each.traps() for each in commands)


def _apart(commands: list[_Command]) -> bool:
    """Whether a group or loop is in a pipe or in the background: what it executes does not replace the shell."""
    behind = [*commands[1:], None]
    return any(
        (each.compound and each.joint in ("|", "&")) or (each.joint == "|" and after is not None and after.compound)
        for each, after in zip(commands, behind, strict=True)
    )


def _behind_prefixes(words: list[str]) -> list[str]:
    """Return the command behind ``env A=b nice …``."""
    at = 0
    while at < len(words):
        name = words[at].rpartition("/")[2]
        if name in INITS:
            return []
        if name not in PREFIXES:
            break
        at += 1
        while at < len(words) and (words[at].startswith("-") or (name == "env" and re.match(r"\w+=", words[at]))):
            at += 2 if name in ("nice", "env") and words[at] in ("-n", "-u", "-C") else 1
    return words[at:]


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


def _commands(script: str) -> list[_Command] | None:
    """Split a script into its commands; what stands in parentheses is a part of one word.

    ``None`` for what is too clever to read so: here-documents, ``case``, unbalanced quotes and parentheses.
    """
    found: list[_Command] = []
    spans: list[tuple[int, int]] = []
    depth, at, word_end = 0, 0, -1
    while at < len(script):
        match = _TOKEN.match(script, at)
        if match is None:
            return None
        kind, start, at = match.lastgroup, at, match.end()
        within = depth > 0
        depth += (kind == "open") - (kind == "close")
        if depth < 0 or (script[start] == '"' and script.count("$(", start, at) > script.count(")", start, at)):
            return None
        if within or kind in ("word", "open", "redirect"):
            # A file descriptor belongs to its redirection, and a word may be quoted in parts.
            if within or (start == word_end and (kind != "redirect" or script[slice(*spans[-1])].isdigit())):
                spans[-1] = (spans[-1][0], at)
            else:
                spans.append((start, at))
            word_end = -1 if kind == "redirect" and not within else at
        elif kind == "joint" and spans:
            found.append(_command(script, spans, match.group().replace("|&", "|")))
            spans = []
    if depth:
        return None
    return [*found, _command(script, spans, "")] if spans else found


def _command(script: str, spans: list[tuple[int, int]], joint: str) -> _Command:
    raw = [script[start:end] for start, end in spans]
    compound = raw[0] in _KEYWORDS or raw[0][0] == "(" or any("()" in word for word in raw[:2])
    first = next((place for place, word in enumerate(raw) if word not in _OPENERS), len(raw))
    # A redirection and the file behind it are no words; without any it is the command that does nothing.
    words = [
        word.replace("'", "").replace('"', "")
        for last, word in zip(["", *raw[first:]], raw[first:], strict=False)
        if not (_redirects(last) or _redirects(word))
    ]
    return _Command(spans[0][0], spans[-1][1], words or [":"], joint, compound, raw[0] in _LOOPS)


def _redirects(word: str) -> bool:
    return _REDIRECTION.fullmatch(word) is not None


def _written(line: list[str], index: int, script: str) -> str:
    import shlex

    return "write: " + _shown(shlex.join([*line[:index], script, *line[index + 1 :]]))


def _shown(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
