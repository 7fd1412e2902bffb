"""What annotations mean at an instant."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn import contract
from forewarn.contract import UTC, Keys, format_instant
from forewarn.session import (
    Facts,
    Guarantee,
    Unreadable,
    WarningState,
    guarantee_at,
    read_annotations,
    read_values,
    warning_state_at,
)

NOW = datetime(2026, 8, 21, 12, 0, 0, tzinfo=UTC)
STALE_AFTER = timedelta(seconds=60)


def minutes(count: float) -> datetime:
    return NOW + timedelta(minutes=count)


def test_nothing_is_known_of_a_pod_without_annotations() -> None:
    assert read_annotations({}) == Facts()
    assert guarantee_at(Facts(), NOW) is Guarantee.UNKNOWN
    assert warning_state_at(Facts(), NOW, STALE_AFTER) is WarningState.NONE


def test_an_empty_value_is_an_absent_annotation() -> None:
    assert read_values({contract.WARNING_AT: "", contract.WARNING_RISK: " ", contract.WARNING_MESSAGE: "\n"}) == Facts()


def test_a_value_that_does_not_parse_is_ignored_and_named() -> None:
    facts = read_annotations({"galends/termination-warning-at": "soon", "galends/termination-warning-risk": "2"})
    assert not facts.warned
    assert facts.unreadable == (
        Unreadable("termination-warning-at", "soon"),
        Unreadable("termination-warning-risk", "2"),
    )


def test_keys_under_another_prefix_are_not_ours() -> None:
    assert read_annotations({"galends/termination-warning-at": format_instant(NOW)}, Keys("horae/")) == Facts()


@pytest.mark.parametrize(
    ("until", "at", "guarantee", "warning"),
    [
        (None, None, Guarantee.UNKNOWN, WarningState.NONE),
        (None, 10, Guarantee.UNKNOWN, WarningState.AT_RISK),
        (20, None, Guarantee.GUARANTEED, WarningState.NONE),
        (20, 20, Guarantee.GUARANTEED, WarningState.QUEUED),
        (0, 0, Guarantee.OVERSTAY, WarningState.AT_RISK),
        (-5, 10, Guarantee.OVERSTAY, WarningState.AT_RISK),
        (-5, -0.5, Guarantee.OVERSTAY, WarningState.AT_RISK),
        (-5, -1, Guarantee.OVERSTAY, WarningState.STALE),
        (20, -30, Guarantee.GUARANTEED, WarningState.QUEUED),
    ],
)
def test_the_clock_decides(until: float | None, at: float | None, guarantee: Guarantee, warning: WarningState) -> None:
    facts = Facts(
        guaranteed_until=None if until is None else minutes(until),
        warning_at=None if at is None else minutes(at),
        guarantee_status="guaranteed",
    )
    assert guarantee_at(facts, NOW) is guarantee
    assert warning_state_at(facts, NOW, STALE_AFTER) is warning


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_an_instant_at_the_calendars_end_is_an_instant(text: str) -> None:
    facts = read_values({contract.WARNING_AT: text, contract.GUARANTEED_UNTIL: text})
    assert guarantee_at(facts, NOW) is not Guarantee.UNKNOWN
    assert warning_state_at(facts, NOW, STALE_AFTER) is not WarningState.NONE


NAMES = contract.ANNOTATION_NAMES
VALUES = st.dictionaries(st.sampled_from(NAMES), st.text() | st.just(format_instant(NOW)) | st.just("0.33"))


@given(VALUES)
def test_any_content_is_read_and_every_value_is_used_or_named(values: dict[str, str]) -> None:
    facts = read_values(values)
    named = {unreadable.name for unreadable in facts.unreadable}
    typed = {
        contract.WARNING_AT: facts.warning_at,
        contract.WARNING_RISK: facts.warning_risk,
        contract.WARNING_MESSAGE: facts.warning_message,
        contract.IDLE_CULL_DEADLINE: facts.idle_cull_deadline,
    }
    for name, value in typed.items():
        given_value = values.get(name, "").strip()
        assert (value is not None) == (bool(given_value) and name not in named)


@given(VALUES)
def test_both_readers_agree(values: dict[str, str]) -> None:
    keys = Keys()
    assert read_annotations({keys.key(name): value for name, value in values.items()}) == read_values(values)
