"""A YAML text that cannot be read, as one line for the user: file, line, what."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import yaml

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def explained(path: str, allowed: str, above: int = 0) -> Iterator[None]:
    """Turn what PyYAML raises in the block into a ``UserError``; ``above`` lines of the file stand before the text."""
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{above + mark.line + 1}" if mark else f":{above + 1}" if above else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UserError(f"{path}{line}", f"not YAML: {problem}", allowed) from None
    except RecursionError:
        raise UserError(path, "is nested too deeply", allowed) from None
