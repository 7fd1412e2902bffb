"""One command, ``forewarn``; each subcommand imports only what it needs. Standard library only, Python 3.9+."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Callable, cast

from forewarn import __version__
from forewarn.errors import UserError


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


def load(command: Command) -> Callable[[list[str]], int]:
    """Import the command's module and return its ``main``; a missing extra is a ``UserError``."""
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        if not command.extra or (error.name or "").partition(".")[0] in ("forewarn", "forewarn_manifests"):
            raise
        raise UserError(
            f"forewarn {' '.join(command.words)}",
            f"the Python package {error.name!r} is not installed",
            f"pip install 'forewarn[{command.extra}]' on Python 3.11 or newer",
        ) from None
    return cast("Callable[[list[str]], int]", module.main)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; returns its exit code (2 for a user's mistake, told in one line on stderr)."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(usage())
            return 0 if arguments else 2
        if arguments[0] == "--version":
            print(f"forewarn {__version__}")
            return 0
        command, rest = find(arguments)
        return load(command)(rest)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away (`forewarn … | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
