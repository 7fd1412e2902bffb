"""The one table of all measurements. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured number.

    ``ratio_to`` names another row of the same measurement, of which the number is shown as a multiple. ``limit`` is the
    most that the number may be, ``least`` the least, both in ``unit``.
    """

    name: str
    value: float
    unit: str
    ratio_to: str | None = None
    limit: float | None = None
    least: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the number is within its bounds."""
        return (self.limit is None or self.value <= self.limit) and (self.least is None or self.value >= self.least)

    @property
    def bound(self) -> str:
        """The bound in words."""
        bounds = (("at most", self.limit), ("at least", self.least))
        return ", ".join(f"{word} {number(value)}" for word, value in bounds if value is not None)


def number(value: float) -> str:
    """Write a number with three significant digits, and none of an integer's lost."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


HEAD = ("measured", "value", "unit", "ratio", "bound", "")


def table(results: Mapping[str, Sequence[Row]]) -> str:
    """Return the table, one block per title."""
    lines: list[tuple[str, ...] | str] = [HEAD]
    for title, rows in results.items():
        by_name = {row.name: row for row in rows}
        lines.append(title)
        for row in rows:
            base = by_name.get(row.ratio_to or "")
            ratio = f"{row.value / base.value:.2f} × {base.name}" if base is not None and base.value else ""
            verdict = "" if not row.bound else "ok" if row.ok else "MISSED"
            lines.append((f"  {row.name}", number(row.value), row.unit, ratio, row.bound, verdict))
    cells = [line for line in lines if isinstance(line, tuple)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]

    def written(line: tuple[str, ...]) -> str:
        parts = [
            cell.rjust(width) if column == 1 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join(line if isinstance(line, str) else written(line) for line in lines)
