"""argparse whose errors are one line: where, what, what is allowed."""

from __future__ import annotations

import argparse
from typing import NoReturn

from forewarn.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ``UserError`` where argparse would print its usage and exit.

    Abbreviated options are off: a script that uses one would break when a longer option appears.
    """

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise ``UserError`` with argparse's own sentence."""
        raise UserError(self.prog, message, f"see {self.prog} --help")
