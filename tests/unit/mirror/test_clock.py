"""The API server's clock, learnt from Date headers."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.mirror.clock import Clock


class Time:
    """A machine's clocks and an API server's, by hand."""

    def __init__(self, wall: float) -> None:
        self.passed, self.wall_offset = 0.0, wall
        self.server = 1_800_000_000.0

    def monotonic(self) -> float:
        return 5000.0 + self.passed

    def wall(self) -> float:
        return self.server + self.passed + self.wall_offset

    def ask(self, clock: Clock, way: float, back: float) -> None:
        asked = self.monotonic()
        self.passed += way
        date = formatdate(self.server + self.passed, usegmt=True)
        self.passed += back
        clock.answered(date, asked, self.monotonic())

    def error(self, clock: Clock) -> float:
        return clock.now().timestamp() - (self.server + self.passed)


def test_without_an_answer_it_is_our_own_clock() -> None:
    time = Time(300)
    clock = Clock(time.monotonic, time.wall)
    assert not clock.measured
    assert time.error(clock) == pytest.approx(300)


@given(st.floats(-300, 300), st.lists(st.tuples(st.floats(0, 0.2), st.floats(0, 0.2), st.floats(0, 5)), min_size=1))
def test_an_answer_bounds_the_error_whatever_our_clock_says(
    wall: float, answers: list[tuple[float, float, float]]
) -> None:
    time = Time(wall)
    clock = Clock(time.monotonic, time.wall)
    for way, back, pause in answers:
        time.ask(clock, way, back)
        assert abs(time.error(clock)) <= 1.5
        time.passed += pause


def test_many_answers_make_it_exact() -> None:
    time = Time(300)
    clock = Clock(time.monotonic, time.wall)
    for number in range(200):
        time.ask(clock, 0.002, 0.002)
        time.passed += 0.37 + number % 7 / 10
    assert abs(time.error(clock)) < 0.05
    assert clock.offset == pytest.approx(300, abs=0.05)


def test_a_clock_that_agrees_is_left_as_it_is() -> None:
    time = Time(0.1)
    clock = Clock(time.monotonic, time.wall)
    time.ask(clock, 0.01, 0.01)
    assert time.error(clock) == pytest.approx(0.1, abs=0.01)


def test_a_step_of_our_wall_clock_does_nothing() -> None:
    time = Time(0)
    clock = Clock(time.monotonic, time.wall)
    time.ask(clock, 0.01, 0.01)
    time.wall_offset = -3600
    assert time.error(clock) == pytest.approx(0, abs=0.01)


def test_a_step_of_the_servers_clock_is_followed() -> None:
    time = Time(0)
    clock = Clock(time.monotonic, time.wall)
    time.ask(clock, 0.01, 0.01)
    time.server += 600
    time.ask(clock, 0.01, 0.01)
    assert abs(time.error(clock)) <= 1


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_date_is_passed_over(date: str | None) -> None:
    time = Time(300)
    clock = Clock(time.monotonic, time.wall)
    clock.answered(date, 1.0, 2.0)
    assert not clock.measured
