"""What a pod's annotations mean at an instant. Pure; standard library only, Python 3.9+."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, TypeVar

from forewarn import contract
from forewarn.contract import Keys, parse_instant, parse_risk, parse_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

T = TypeVar("T")


@dataclass(frozen=True)
class Unreadable:
    """One annotation whose value does not parse; readers ignore it, the mirror reports it once."""

    name: str
    value: str


@dataclass(frozen=True)
class Facts:
    """The annotations of one session as typed values; ``None`` where a key is missing, empty or unreadable."""

    guaranteed_until: datetime | None = None
    warning_at: datetime | None = None
    warning_risk: float | None = None
    warning_message: str | None = None
    guarantee_status: str | None = None
    booking_reference: str | None = None
    reservation_kind: str | None = None
    reservation_start: datetime | None = None
    reservation_end: datetime | None = None
    reservation_gpu_count: int | None = None
    gpu_class_name: str | None = None
    admitted_at: datetime | None = None
    runtime_limit_seconds: int | None = None
    idle_status: str | None = None
    idle_cull_deadline: datetime | None = None
    unreadable: tuple[Unreadable, ...] = field(default=())

    @property
    def warned(self) -> bool:
        """Whether the session carries a warning (of which nothing but the instant is needed)."""
        return self.warning_at is not None

    @property
    def stop_from(self) -> datetime | None:
        """The earliest stop that the warning tells of: a guarantee that ends after the warning's instant wins."""
        if self.warning_at is None or self.guaranteed_until is None:
            return self.warning_at
        return max(self.warning_at, self.guaranteed_until)

    @property
    def band(self) -> contract.Band:
        """The band of the warning's risk."""
        return contract.band(self.warning_risk)


def read_values(values: Mapping[str, str]) -> Facts:
    """Read values keyed by name without prefix (as the podinfo files are named).

    An empty value is an absent annotation (that is how the downward API shows one). Never raises on content.
    """
    unreadable: list[Unreadable] = []

    def get(name: str, parse: Callable[[str | None], T | None]) -> T | None:
        raw = values.get(name)
        if raw is None or not raw.strip():
            return None
        parsed = parse(raw)
        if parsed is None:
            unreadable.append(Unreadable(name, raw))
        return parsed

    return Facts(
        guaranteed_until=get(contract.GUARANTEED_UNTIL, parse_instant),
        warning_at=get(contract.WARNING_AT, parse_instant),
        warning_risk=get(contract.WARNING_RISK, parse_risk),
        warning_message=get(contract.WARNING_MESSAGE, str),
        guarantee_status=get(contract.GUARANTEE_STATUS, str),
        booking_reference=get(contract.BOOKING_REFERENCE, str),
        reservation_kind=get(contract.RESERVATION_KIND, str),
        reservation_start=get(contract.RESERVATION_START, parse_instant),
        reservation_end=get(contract.RESERVATION_END, parse_instant),
        reservation_gpu_count=get(contract.RESERVATION_GPU_COUNT, parse_whole),
        gpu_class_name=get(contract.GPU_CLASS_NAME, str),
        admitted_at=get(contract.ADMITTED_AT, parse_instant),
        runtime_limit_seconds=get(contract.RUNTIME_LIMIT_SECONDS, parse_whole),
        idle_status=get(contract.IDLE_STATUS, str),
        idle_cull_deadline=get(contract.IDLE_CULL_DEADLINE, parse_instant),
        unreadable=tuple(unreadable),
    )


def read_annotations(annotations: Mapping[str, str], keys: Keys | None = None) -> Facts:
    """Read a pod's annotation map; keys that are not the contract's are left alone."""
    keys = keys or Keys()
    found = ((name, annotations.get(keys.key(name))) for name in contract.ANNOTATION_NAMES)
    return read_values({name: value for name, value in found if value is not None})


class Guarantee(enum.Enum):
    """Whether the session may be stopped, by the clock against ``guaranteed-until``."""

    UNKNOWN = "unknown"
    GUARANTEED = "guaranteed"
    OVERSTAY = "overstay"


class WarningState(enum.Enum):
    """What a warning means now."""

    NONE = "none"
    QUEUED = "queued"
    """Inside the guarantee: the stop waits for its end."""
    AT_RISK = "at-risk"
    STALE = "stale"
    """The instant is past and the session still runs: it may be stopped at any time."""


def guarantee_at(facts: Facts, now: datetime) -> Guarantee:
    """Return the guarantee's state at ``now``; ``guarantee-status`` lags by minutes, so the clock decides."""
    if facts.guaranteed_until is None:
        return Guarantee.UNKNOWN
    return Guarantee.GUARANTEED if now < facts.guaranteed_until else Guarantee.OVERSTAY


def warning_state_at(facts: Facts, now: datetime, stale_after: timedelta) -> WarningState:
    """Return the warning's state at ``now``; it is stale from ``stale_after`` past its instant.

    A guarantee that still runs wins over an instant that is past: such a session is not stopped.
    """
    if facts.warning_at is None:
        return WarningState.NONE
    if guarantee_at(facts, now) is Guarantee.GUARANTEED:
        return WarningState.QUEUED
    # A difference: the sum overflows for an instant at the calendar's end.
    return WarningState.STALE if now - facts.warning_at >= stale_after else WarningState.AT_RISK
