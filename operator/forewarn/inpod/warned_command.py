"""``forewarn warned``: exit 0 while the pod carries a warning, 1 while it does not, 2 for an error."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

from forewarn import wording
from forewarn.arguments import Parser
from forewarn.contract import UTC
from forewarn.errors import UserError
from forewarn.inpod.reader import PodInfo

if TYPE_CHECKING:
    from forewarn.session import Facts

CODES = "exit codes: 0 warned, 1 not warned (also where there is no podinfo directory), 2 error"


def sentence(facts: Facts, now: datetime) -> str:
    """Return one line about the warning, for a person."""
    if facts.warning_at is None:
        return "not warned"
    when = f"earliest stop {wording.utc(facts.warning_at)} ({wording.distance(facts.warning_at, now)})"
    message = "".join(c if c.isprintable() else " " for c in facts.warning_message or "")
    return f"warned: {when}, risk {facts.band.value}" + (f": {message}" if message else "")


def main(argv: list[str]) -> int:
    """Look once; print nothing unless asked to."""
    parser = Parser("forewarn warned", "Tells by its exit code whether this pod carries a termination warning.", CODES)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the warning in one line")
    parser.add_argument("--podinfo", metavar="DIR", help="the podinfo directory (default: $PODINFO, else /etc/podinfo)")
    arguments = parser.parse_args(argv)
    try:
        facts = PodInfo(arguments.podinfo).read()
        if arguments.verbose:
            print(sentence(facts, datetime.now(UTC)))
            sys.stdout.flush()
    except UserError:
        raise
    except Exception as error:
        # Python's own exit code for a traceback is 1, which here says "not warned".
        raise UserError("forewarn warned", f"{type(error).__name__}: {error}", "please report this") from error
    return 0 if facts.warned else 1
