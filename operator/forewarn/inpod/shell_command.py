"""``forewarn shell``: prints the bash functions, to be sourced."""

from __future__ import annotations

import pkgutil
import sys

from forewarn.arguments import Parser

SCRIPT = "forewarn.sh"


def script() -> str:
    """Return the text of forewarn.sh, from a package folder or from inside a zip."""
    data = pkgutil.get_data("forewarn.inpod", SCRIPT)
    if data is None:
        raise FileNotFoundError(SCRIPT)
    return data.decode()


def main(argv: list[str]) -> int:
    """Print forewarn.sh."""
    Parser("forewarn shell", "Prints bash functions; use it as: source <(forewarn shell)").parse_args(argv)
    sys.stdout.write(script())
    return 0
