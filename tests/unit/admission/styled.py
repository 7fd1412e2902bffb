"""A value written as YAML the way people do it: mixed styles, comments, tabs before them, anchors, odd indentation."""

from __future__ import annotations

import json
import random
from typing import Any


class Writer:
    """Writes one value; the seed chooses the style. Each comment and anchor has a name of its own."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def text(self, value: dict[str, Any]) -> str:
        """Return the whole document."""
        text = "\n".join(self._block(value, 0)) + self._chance.choice(("\n", "\n", ""))
        return text.replace("\n", "\r\n") if self._chance.random() < 0.2 else text

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}n"

    def _comment(self) -> str:
        return self._chance.choice(("", "", " ", f"  # {self._name()}", f"\t# {self._name()}"))

    def _anchor(self) -> str:
        return f"&{self._name()} " if self._chance.random() < 0.1 else ""

    def _scalar(self, value: Any) -> str:
        if isinstance(value, str) and "\n" not in value and self._chance.random() < 0.4:
            return "'" + value.replace("'", "''") + "'"
        return json.dumps(value)

    def _space(self, pad: str) -> str:
        roll = self._chance.random()
        return f"{self._comment() if roll < 0.2 else ''}\n{pad} " if roll < 0.4 else self._chance.choice(("", " "))

    def _flow(self, value: Any, pad: str) -> str:
        if isinstance(value, dict):
            entries = [f"{json.dumps(key)}: {self._flow(each, pad + '  ')}" for key, each in value.items()]
        elif isinstance(value, list):
            entries = [self._flow(each, pad + "  ") for each in value]
        else:
            return self._scalar(value)
        text = ("{" if isinstance(value, dict) else "[") + self._space(pad)
        for number, entry in enumerate(entries, 1):
            comma = "," if number < len(entries) or self._chance.random() < 0.2 else ""
            text += entry + self._space(pad) + comma + self._space(pad)
        return text + ("}" if isinstance(value, dict) else "]")

    def _opened(self, value: Any) -> bool:
        return isinstance(value, (dict, list)) and bool(value) and self._chance.random() < 0.8

    def _block(self, value: Any, column: int) -> list[str]:
        pad, lines = " " * column, []
        dash = self._chance.choice((2, 2, 2, 4))
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if self._chance.random() < 0.1:
                lines += [f"{pad}# {self._name()}", *[""] * self._chance.randrange(2)]
            if isinstance(value, list) and isinstance(each, dict) and self._opened(each):
                inner = self._block(each, column + dash)
                first = next(n for n, line in enumerate(inner) if line.strip() and not line.lstrip().startswith("#"))
                inner[first] = f"{pad}-{' ' * (dash - 1)}{inner[first].lstrip()}"
                lines += inner
            elif isinstance(value, dict) and self._opened(each):
                steps = (0, 2, 2, 4) if isinstance(each, list) else (2, 2, 4, 1)
                lines.append(f"{pad}{key}: {self._anchor()}".rstrip() + self._comment())
                lines += self._block(each, column + self._chance.choice(steps))
            else:
                head = "-" if isinstance(value, list) else f"{key}:"
                lines.append(f"{pad}{head} {self._anchor()}{self._flow(each, pad + '  ')}{self._comment()}")
        return lines
