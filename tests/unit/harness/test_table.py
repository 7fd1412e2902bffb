"""The table of measurements shows ratios and tells a missed bound."""

from __future__ import annotations

import pytest

from tests.bench.table import Row, number, table


def test_a_row_is_shown_as_a_multiple_of_another() -> None:
    text = table({"calls": [Row("none", 2.0, "ms"), Row("ours", 5.0, "ms", ratio_to="none")]})
    assert "2.50 × none" in text.splitlines()[3]


@pytest.mark.parametrize(
    ("row", "ok"),
    [
        (Row("a", 5, "ms", limit=5), True),
        (Row("a", 5.1, "ms", limit=5), False),
        (Row("a", 9, "calls/s", least=10), False),
        (Row("a", 10, "calls/s", least=10), True),
        (Row("a", 1e9, "B"), True),
    ],
)
def test_a_bound_is_kept_or_missed(row: Row, ok: bool) -> None:
    assert row.ok is ok
    assert ("MISSED" in table({"title": [row]})) is not ok


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (12.345, "12.3"), (123.4, "123"), (12345.6, "12,346")]
)
def test_a_number_keeps_three_digits(value: float, text: str) -> None:
    assert number(value) == text
