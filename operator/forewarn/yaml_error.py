"""A YAML text that cannot be read, as one line for the user: file, line, what."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import yaml

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def explained(path: str, allowed: str, line: int = 1) -> Iterator[None]:
    """Turn what PyYAML raises in the block into a ``UserError``; the text begins on the file's ``line``, from 1."""
    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # Without a mark the beginning of the text is all that is known; that of the whole file says nothing.
        place = f":{line + mark.line}" if mark else f":{line}" if line > 1 else ""
        # PyYAML's sentence is in two halves: "while parsing a flow node", "did not find expected node content".
        said = filter(None, (getattr(error, "context", None), getattr(error, "problem", None)))
        problem = ", ".join(said) or str(error).partition("\n")[0]
        raise UserError(f"{path}{place}", f"cannot be read as YAML: {problem}", allowed) from None
    except RecursionError:
        raise UserError(path, "is nested too deeply", allowed) from None
