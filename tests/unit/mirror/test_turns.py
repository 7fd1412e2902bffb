"""Turns: never more than the rate in a second, and no wait while there is room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.mirror.turns import Turns

ROUNDING = 1e-6

times = st.lists(st.floats(0, 3), max_size=60).map(lambda gaps: list(itertools.accumulate(gaps)))


@given(times, st.integers(1, 10))
def test_no_second_holds_more_than_the_rate_and_nobody_waits_without_need(asked: list[float], rate: int) -> None:
    turns, begun = Turns(rate), list[float]()
    for now in asked:
        turn = now + turns.take(now)
        if len([each for each in begun if each > now - 1]) < rate:
            assert turn == pytest.approx(now)
        begun.append(turn)
    assert begun == sorted(begun)
    for first, behind in zip(begun, begun[rate:], strict=False):
        assert behind - first >= 1 - ROUNDING


def test_what_was_held_up_catches_up_within_the_rate() -> None:
    turns = Turns(300)
    for number in range(100):
        turns.take(number / 100)
    assert [turns.take(1.0) for _ in range(200)] == [0.0] * 200


@pytest.mark.parametrize(("rate", "waits"), [(0.5, [0, 2, 4]), (1.5, [0, 1, 2]), (2.5, [0, 0, 1, 1, 2])])
def test_a_rate_that_is_no_whole_number_is_not_exceeded(rate: float, waits: list[float]) -> None:
    turns = Turns(rate)
    assert [turns.take(7.0) for _ in waits] == waits
