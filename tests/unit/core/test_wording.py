"""Instants and spans as a person reads them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from forewarn.contract import UTC
from forewarn.wording import distance, span, utc

NOW = datetime(2026, 8, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (3570, "1 h"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (48 * 3600, "2 d"),
        (76 * 3600, "3 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_coarsest_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_a_distance_says_which_way() -> None:
    assert distance(NOW + timedelta(minutes=14), NOW) == "in 14 min"
    assert distance(NOW - timedelta(minutes=3), NOW) == "3 min ago"
    assert distance(NOW, NOW) == "now"


def test_an_instant_is_told_in_utc() -> None:
    assert utc(NOW) == "2026-08-21 12:00:00 UTC"
