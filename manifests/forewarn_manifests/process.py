"""What the container runs: the mode of a launch, its command, the script, the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.errors import UserError
from forewarn.pid_one import END_AT_TERM, script_swallows_sigterm, swallows_sigterm
from forewarn_manifests import checks
from forewarn_manifests.request import Mode

if TYPE_CHECKING:
    from forewarn_manifests.reader import Reader

SCRIPT_DIRECTORY = "/etc/forewarn"
SCRIPT_LIMIT = 200_000
"""Bytes of a script: it travels as an annotation, and all annotations of a pod hold 262,144 at most."""

LOGGER = """\
log=$0
mkdir -p -- "${log%/*}"
exec 3> >(trap "" TERM INT HUP; exec tee -a -- "$log")
tee=$!
exec 2>/dev/null
set -m
"$@" >&3 2>&3 3>&- &
child=$!
for name in TERM INT HUP USR1 USR2; do trap "told=$name; kill -$name -- -$child" "$name"; done
while told=; wait "$child"; code=$?; [ "$told" ]; do :; done
exec 3>&-
(sleep 5; kill -KILL "$tee") >/dev/null &
wait "$tee"
exit "$code"
"""
"""Bash that shows and appends what a command writes, passes signals to it, and ends with its exit code.

The log is whole before PID 1 ends; a process that the command left behind has five seconds to close it.
"""


@dataclass(frozen=True)
class Process:
    """The container's process; ``command`` replaces the image's entrypoint and is mostly empty."""

    mode: Mode
    command: tuple[str, ...]
    args: tuple[str, ...]
    ports: tuple[int, ...]
    script: str
    script_name: str
    quiet: int


@dataclass
class _Switches:
    """What is on, after the flags in their order: a later flag beats an earlier one."""

    shell: bool
    jupyter: bool
    sshd: bool
    background: bool = False
    batch: bool = False
    script: bool = False
    quiet: int = 0

    def turn(self, field: str, on: bool) -> None:
        """Apply one flag."""
        if field in ("background", "batch", "script"):
            setattr(self, field, on)
            self.shell = self.jupyter = False
        elif field == "shell_only":
            self.shell, self.jupyter = True, False
        elif field == "sshd":
            self.sshd, self.shell, self.jupyter = True, False, False
            self.quiet = max(self.quiet, 1)
        elif field in ("shell", "jupyter"):
            setattr(self, field, on)


def process(reader: Reader, image: str, home: str, script: str | None) -> Process:
    """Decide what the container runs. ``script`` is the text of the file that -f names.

    Raises ``UserError`` for a batch launch without a command, and for a command or script that no container can get.
    """
    switches = _switches(reader)
    words = tuple(checks.text("the command", word) for word in reader.arguments.command)
    name, text = "", ""
    if switches.script:
        name, text = _script(reader, script)
        path = f"{SCRIPT_DIRECTORY}/{name}"
        words = (path, *words) if text.startswith("#!") else ("bash", path, *words)
    elif switches.batch and not words:
        raise reader.refuse("batch", "there is no command to run", "write it behind --, as in: -B -- python train.py")
    port = int(reader.whole("port", 1, "a port", 65535))
    ports: tuple[int, ...] = ()
    proxy = reader.switch("proxy", bool(reader.profile.defaults["proxy"]))
    if words:
        jupyter = sshd = False
    else:
        jupyter, sshd = switches.jupyter, switches.sshd
        words = _own(reader, jupyter, sshd, port)
    if proxy and (jupyter or reader.given("port") is not None):
        ports = (port,)
    if sshd:
        ports = (reader.profile.ssh_port,)
    entrypoint = reader.text("entrypoint")
    log = reader.given("log")
    command = (entrypoint,) if entrypoint else ()
    under_init = log is not None or _has_init(reader, image, command)
    _warn_of_shell(reader, command, words, text, name, under_init)
    if log is not None:
        # The logger replaces the image's entrypoint where --entrypoint does, so that that program's output is logged.
        words = ("-c", LOGGER, _log_path(log.where, log.value, home), *command, *words)
        command, words = (("/bin/bash",), words) if entrypoint else ((), ("/bin/bash", *words))
    return Process(_mode(switches, sshd), command, words, ports, text, name, switches.quiet)


def _switches(reader: Reader) -> _Switches:
    defaults = reader.profile.defaults
    switches = _Switches(bool(defaults["shell"]), bool(defaults["jupyter"]), bool(defaults["sshd"]))
    shell = reader.environ.get("SPAWN_INTERACTIVE_SHELL")
    if shell:
        switches.shell = checks.yes_or_no("SPAWN_INTERACTIVE_SHELL", shell)
    for given in reader.arguments.given:
        switches.turn(given.flag.field, given.value != "no")
        if given.flag.field == "quiet":
            switches.quiet = int(given.value)
    return switches


def _mode(switches: _Switches, sshd: bool) -> Mode:
    if switches.script:
        return Mode.SCRIPT
    if switches.batch:
        return Mode.BATCH
    if switches.background:
        return Mode.BACKGROUND
    if switches.shell:
        return Mode.INTERACTIVE
    return Mode.SSH if sshd else Mode.FOREGROUND


def _own(reader: Reader, jupyter: bool, sshd: bool, port: int) -> tuple[str, ...]:
    """Return the profile's command for a launch that names none."""
    name = "sshd" if sshd else "jupyter" if jupyter else "idle"
    reader.why["command"] = f"profile {reader.profile.name}, {name}"
    commands = reader.profile.commands
    if name not in commands:
        raise UserError(f"profile {reader.profile.name}", f"has no command for {name}", "add it under commands")
    if name == "jupyter":
        return tuple(reader.fill(word, {"port": str(port)}) for word in commands[name])
    return commands[name]


def _script(reader: Reader, script: str | None) -> tuple[str, str]:
    given = reader.given("script")
    if given is None or script is None:
        raise ValueError("a script's text is passed in with -f")
    name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-"
        for letter in given.value.rpartition("/")[2]
    )
    if len(script.encode()) > SCRIPT_LIMIT:
        raise UserError(
            given.where, f"{given.value} has {len(script.encode())} bytes", f"allowed: at most {SCRIPT_LIMIT}"
        )
    if not script.strip():
        raise UserError(given.where, f"{given.value} is empty", "allowed: a script")
    if script.startswith("\ufeff"):
        raise UserError(given.where, f"{given.value} begins with a byte order mark", "allowed: UTF-8 without one")
    if script.partition("\n")[0].endswith("\r"):
        raise UserError(given.where, f"{given.value} has Windows line ends", "allowed: Unix line ends (dos2unix)")
    return name.lstrip(".") or "script", checks.text(given.where, script)


def _log_path(where: str, value: str, home: str) -> str:
    checks.text(where, value)
    path = value if value.startswith("/") else f"{home}/{value}"
    if not path.startswith(f"{home}/") or path.endswith("/") or ".." in path.split("/"):
        raise UserError(where, f"{value!r} is no file under the home", f"allowed: a file below {home}")
    return path


def _has_init(reader: Reader, image: str, command: tuple[str, ...]) -> bool:
    import fnmatch

    return not command and any(fnmatch.fnmatchcase(image, pattern) for pattern in reader.profile.init_images)


def _warn_of_shell(
    reader: Reader, command: tuple[str, ...], words: tuple[str, ...], text: str, name: str, under_init: bool
) -> None:
    """Warn of a shell that keeps its program from saving at SIGTERM.

    As PID 1 it ignores the signal. Under an init, which signals its whole group, the program is told, but a shell
    without a trap ends at once, with it the init, and with that the container.
    """
    if text:
        shell = f"the shell of {name}"
        mend = "start its long part with exec, or let it trap TERM" if script_swallows_sigterm(text) else None
    else:
        shell = "the command's shell"
        mend = swallows_sigterm(command, words)
    if mend is None or (under_init and (END_AT_TERM in mend or re.search(r"\btrap\b", text or " ".join(words)))):
        return
    if under_init:
        what = "ends at SIGTERM, and the container with it, before its program can save"
    else:
        what = "runs as PID 1 and swallows SIGTERM, so its program is not told of a stop"
    reader.warnings.append(f"{shell} {what}: {mend}")
