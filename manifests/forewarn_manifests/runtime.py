"""The little of Jinja2's runtime that the precompiled templates use, so that a launch need not import Jinja2.

The templates keep to values, attributes, ``if``, ``for`` and the filter ``tojson``; precompile.py refuses anything
more, and a test renders every golden case with Jinja2 itself as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from forewarn_manifests.quoting import tojson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Root = Callable[..., Iterator[str]]

missing = object()


class TemplateRuntimeError(Exception):
    """A template asks for what is not there: a defect of ours."""


def internalcode(function: Any) -> Any:
    """Mark nothing; Jinja2's own hides the function from tracebacks."""
    return function


class Undefined:
    """A value that the template names and nobody passed."""

    def __init__(self, name: str = "") -> None:
        raise TemplateRuntimeError(f"the template's {name!r} was not passed")


class Environment:
    """What a compiled template calls its environment."""

    undefined = Undefined
    concat = "".join

    def __init__(self) -> None:
        self.filters = {"tojson": tojson}
        self.tests: dict[str, NoReturn] = {}

    @staticmethod
    def getattr(value: Any, name: str) -> Any:
        """Return ``value.name``; the views are mappings."""
        return value[name]


class Context:
    """The values that a template was given."""

    eval_ctx = None

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def resolve_or_missing(self, name: str) -> Any:
        """Return a value by name."""
        return self._values.get(name, missing)


environment = Environment()


def render(root: Root, values: Mapping[str, Any]) -> str:
    """Run a compiled template."""
    return "".join(root(Context(values)))
