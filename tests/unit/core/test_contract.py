"""The contract's formats: what is read, what is ignored, and that reading never raises."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forewarn import contract
from forewarn.contract import UTC, Band, Keys, band, format_instant, parse_instant, parse_risk, parse_whole

NOON = datetime(2026, 8, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-08-21T12:00:00Z",
        "2026-08-21T12:00:00z",
        "2026-08-21T12:00:00",
        "2026-08-21T12:00:00.000Z",
        "2026-08-21T12:00:00,000000Z",
        "2026-08-21T14:00:00+02:00",
        "2026-08-21T14:00:00+0200",
        "2026-08-21T14:00:00+02",
        "2026-08-21T05:00:00-07:00",
        "2026-08-21 12:00:00",
        "2026-08-21 12:00:00 UTC",
        "2026-08-21 12:00:00 +00:00",
        "2026-08-21T12:00Z",
        "20260821T120000Z",
        "  2026-08-21T12:00:00Z\n",
    ],
)
def test_every_common_form_of_an_instant_is_read(text: str) -> None:
    assert parse_instant(text) == NOON


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "soon",
        "2026-08-21",
        "2026-13-21T12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-08-21T25:00:00Z",
        "2026-08-21T12:00:00+24:00",
        "2026-08-21T12:00:00+02:61",
        "٢٠٢٦-08-21T12:00:00Z",
        "2026-08-21T12:00:00Z Z",
        "1787572800",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-08-21T12:00:00Z\x00",
    ],
)
def test_anything_else_is_no_instant(text: str | None) -> None:
    assert parse_instant(text) is None


def test_a_fraction_of_a_second_is_kept() -> None:
    assert parse_instant("2026-08-21T12:00:00.123456789Z") == NOON + timedelta(microseconds=123456)


@given(st.text())
@example("-" * 100_000)
def test_reading_never_raises(text: str) -> None:
    parse_instant(text)
    parse_risk(text)
    parse_whole(text)


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
    )
)
def test_what_is_written_is_read_back_to_the_second(instant: datetime) -> None:
    try:
        whole = instant.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        return
    assert parse_instant(format_instant(instant)) == whole


@pytest.mark.parametrize(("text", "risk"), [("0.33", 0.33), ("1.00", 1.0), ("1", 1.0), (".5", 0.5), ("0.08", 0.08)])
def test_a_risk_is_a_decimal_above_zero_and_at_most_one(text: str, risk: float) -> None:
    assert parse_risk(text) == risk


@pytest.mark.parametrize("text", ["0", "0.00", "1.01", "-0.5", "50%", "nan", "inf", "1e-1", "0x1", "", None, "0,33"])
def test_any_other_risk_is_unreadable(text: str | None) -> None:
    assert parse_risk(text) is None


@pytest.mark.parametrize(
    ("risk", "expected"),
    [
        (None, Band.UNKNOWN),
        (0.01, Band.POSSIBLE),
        (0.49, Band.POSSIBLE),
        (0.5, Band.LIKELY),
        (0.99, Band.LIKELY),
        (1.0, Band.CERTAIN),
    ],
)
def test_a_risk_has_one_band(risk: float | None, expected: Band) -> None:
    assert band(risk) is expected


def test_the_prefix_is_a_setting_and_the_idle_cullers_is_not() -> None:
    keys = Keys("horae/")
    assert keys.key(contract.WARNING_AT) == "horae/termination-warning-at"
    assert keys.key(contract.IDLE_STATUS) == "dsmlp/idle-gpu-status"


def test_podinfo_has_six_files() -> None:
    assert [name for name, _ in Keys().podinfo_items()] == [
        "guaranteed-until",
        "termination-warning-at",
        "termination-warning-risk",
        "termination-warning-message",
        "idle-gpu-status",
        "idle-gpu-cull-deadline",
    ]
    assert dict(Keys().podinfo_items())["guaranteed-until"] == "metadata.annotations['galends/guaranteed-until']"
