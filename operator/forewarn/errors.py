"""What a user did wrong, in one line. Standard library only, Python 3.9+."""

from __future__ import annotations


class UserError(Exception):
    """A mistake of the user's, or something that is missing: where, what, what is allowed; exit code 2.

    ``where`` names the place (a flag, a file and line, a resource), ``what`` the problem, ``allowed`` what would do.
    """

    def __init__(self, where: str, what: str, allowed: str = "") -> None:
        self.where, self.what, self.allowed = where, what, allowed
        super().__init__(where, what, allowed)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" + (f"; {self.allowed}" if self.allowed else "")
        return " ".join(line.split())
