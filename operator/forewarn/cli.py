"""One command, ``forewarn``; each subcommand imports only what it needs. Standard library only, Python 3.9+."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, cast

from forewarn import __version__
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS_NEED = (3, 11)
"""The Python of everything but the in-pod part."""


@dataclass(frozen=True)
class Command:
    """A subcommand: its words, the module whose ``main(argv) -> int`` runs it, and the extra that it needs."""

    words: tuple[str, ...]
    module: str
    summary: str
    extra: str = ""


COMMANDS = (
    Command(("render",), "forewarn_manifests.command", "launch flags to a pod or Job manifest", "manifests"),
    Command(("inject",), "forewarn.admission.inject_command", "add podinfo and the grace to manifests", "manifests"),
    Command(
        ("check",), "forewarn.admission.check_command", "say which pods see warnings and survive a stop", "manifests"
    ),
    Command(("policy",), "forewarn.admission.policy_command", "print the CEL admission policy", "manifests"),
    Command(
        ("run", "admission"), "forewarn.admission.command", "the admission webhook (runs in the cluster)", "operator"
    ),
    Command(("run", "mirror"), "forewarn.mirror.command", "warnings to Events (runs in the cluster)", "operator"),
    Command(
        ("simulate",), "forewarn.simulator.command", "play the reservation controller from a scenario", "simulator"
    ),
    Command(("settings",), "forewarn.settings_command", "every setting, its value and where it came from"),
    Command(("warned",), "forewarn.inpod.warned_command", "in a pod: exit 0 if a warning is set, 1 if not"),
    Command(("shell",), "forewarn.inpod.shell_command", "print the bash functions to source"),
    Command(("export",), "forewarn.inpod.export_command", "write the in-pod library into a directory"),
    Command(("rehearse",), "forewarn.inpod.rehearse_command", "play warnings and kills against your own command"),
)


def usage() -> str:
    """Return the text of ``forewarn --help``."""
    width = max(len(" ".join(command.words)) for command in COMMANDS) + 2
    lines = [f"  {' '.join(command.words):{width}}{command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: forewarn COMMAND [ARGUMENTS]",
            "",
            "Tells sessions on a reservation-managed GPU cluster that they may be stopped.",
            "",
            "commands:",
            *lines,
            "",
            "forewarn COMMAND --help tells more; forewarn --version prints the version.",
        ]
    )


def find(argv: list[str]) -> tuple[Command, list[str]]:
    """Return the command that ``argv`` names and the arguments that are left.

    Raises ``UserError`` for a word that names none.
    """
    for command in COMMANDS:
        count = len(command.words)
        if tuple(argv[:count]) == command.words:
            return command, argv[count:]
    seconds = [command.words[1] for command in COMMANDS if len(command.words) > 1 and command.words[0] == argv[0]]
    if seconds:
        given = repr(argv[1]) if len(argv) > 1 else "nothing"
        raise UserError(f"forewarn {argv[0]}", f"{given} is not a thing to run", f"one of: {', '.join(seconds)}")
    names = ", ".join(dict.fromkeys(command.words[0] for command in COMMANDS))
    raise UserError("forewarn", f"no command {argv[0]!r}", f"one of: {names}")


@contextlib.contextmanager
def needs(command: Command) -> Iterator[None]:
    """Make a missing extra of a command, and a Python that is too old for it, a ``UserError``."""
    words = f"forewarn {' '.join(command.words)}"
    if command.extra and sys.version_info < EXTRAS_NEED:
        needed = ".".join(map(str, EXTRAS_NEED))
        raise UserError(words, f"this is Python {sys.version.split()[0]}", f"needed: {needed} or newer")
    try:
        yield
    except ModuleNotFoundError as error:
        if not command.extra or (error.name or "").partition(".")[0] in ("forewarn", "forewarn_manifests"):
            raise
        missing = f"the Python package {error.name!r} is not installed"
        raise UserError(words, missing, f"pip install the wheel with its extra '{command.extra}'") from None


def load(command: Command) -> Callable[[list[str]], int]:
    """Import the command's module and return its ``main``; raises as ``needs``."""
    with needs(command):
        module = importlib.import_module(command.module)
    return cast("Callable[[list[str]], int]", module.main)


def run(arguments: list[str]) -> int:
    """Run one subcommand and return its exit code; raises ``UserError`` for a user's mistake."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"forewarn {__version__}")
        return 0
    command, rest = find(arguments)
    main_of_command = load(command)
    try:
        # Some imports are as late as what needs them.
        with needs(command):
            return main_of_command(rest)
    except SystemExit as end:
        # argparse ends the process after --help; what it printed must still be written out.
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns its exit code (2 for a user's mistake, told in one line on stderr)."""
    try:
        if sys.stdout is None:  # Python's way to say that it was closed by the caller
            raise UserError("standard output", "is closed")
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that the terminal's encoding lacks is shown escaped.
            sys.stdout.reconfigure(errors="backslashreplace")
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except UserError as error:
        code = _told(str(error))
    except BrokenPipeError:
        # The reader went away (`forewarn … | head`): nothing is wrong, and nothing more can be said.
        code = 141
        _drop_output()
    except OSError as error:
        code = _told(f"{error.filename or 'standard input or output'}: {error.strerror or error}")
        _drop_output()
    except KeyboardInterrupt:
        code = 130
    return code


def _told(line: str) -> int:
    if sys.stderr is not None:
        print(f"error: {line}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Keep Python from writing the rest of an output that cannot be written when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
