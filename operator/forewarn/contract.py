"""The contract with the reservation controller: keys, file names, formats; the only place that spells them.

Standard library only, Python 3.9+: the program in the pod shares this module with the operator.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

DEFAULT_PREFIX = "galends/"
"""The controller's annotation prefix; older controllers write ``horae/``, so it is a setting."""

IDLE_PREFIX = "dsmlp/"
"""The idle culler's annotation prefix."""

GUARANTEED_UNTIL = "guaranteed-until"
WARNING_AT = "termination-warning-at"
WARNING_RISK = "termination-warning-risk"
WARNING_MESSAGE = "termination-warning-message"
GUARANTEE_STATUS = "guarantee-status"
BOOKING_REFERENCE = "booking-reference"
RESERVATION_KIND = "reservation-kind"
RESERVATION_START = "reservation-start"
RESERVATION_END = "reservation-end"
RESERVATION_GPU_COUNT = "reservation-gpu-count"
GPU_CLASS_NAME = "gpu-class-name"
ADMITTED_AT = "admitted-at"
RUNTIME_LIMIT_SECONDS = "pod-runtime-limit-seconds"
IDLE_STATUS = "idle-gpu-status"
IDLE_CULL_DEADLINE = "idle-gpu-cull-deadline"

WARNING_NAMES = (WARNING_AT, WARNING_RISK, WARNING_MESSAGE)
"""The three that come and go together."""

CONTROLLER_NAMES = (
    GUARANTEED_UNTIL,
    *WARNING_NAMES,
    GUARANTEE_STATUS,
    BOOKING_REFERENCE,
    RESERVATION_KIND,
    RESERVATION_START,
    RESERVATION_END,
    RESERVATION_GPU_COUNT,
    GPU_CLASS_NAME,
    ADMITTED_AT,
    RUNTIME_LIMIT_SECONDS,
)
IDLE_NAMES = (IDLE_STATUS, IDLE_CULL_DEADLINE)
ANNOTATION_NAMES = (*CONTROLLER_NAMES, *IDLE_NAMES)

PODINFO_NAMES = (GUARANTEED_UNTIL, *WARNING_NAMES, *IDLE_NAMES)
"""The six that a podinfo volume projects, one file each; a file is named as its key without the prefix."""

WHOLE_MAP_FILE = "annotations"
"""The file that holds the whole annotation map, where a pod projects it."""

VOLUME_NAME = "podinfo"
MOUNT_PATH = "/etc/podinfo"
GRACE_SECONDS = 600
"""terminationGracePeriodSeconds of a session."""

SESSIONS_LABEL = "forewarn/sessions"
SESSIONS_ENABLED = "enabled"
INJECT_LABEL = "forewarn/inject"
INJECT_DISABLED = "disabled"
GRACE_LABEL = "forewarn/grace"
GRACE_KEEP = "keep"

REPORTING_CONTROLLER = "forewarn"
RESERVATION_CONTROLLER = "gpu-reservation-controller"

COURSE_LABEL = "dsmlp/course"
USER_LABEL = "dsmlp/user"
GPU_CLASS_LABEL = "gpu-class"
GPU_RESOURCE = "nvidia.com/gpu"

PODINFO_VARIABLE = "PODINFO"
"""Environment variable that overrides ``MOUNT_PATH`` for the program in the pod."""
RUNTIME_LIMIT_VARIABLE = "FOREWARN_RUNTIME_LIMIT_SECONDS"
PREFIX_VARIABLE = "FOREWARN_ANNOTATION_PREFIX"
"""The setting ``annotation-prefix`` for the program in the pod, which has no table of settings."""

EXIT_STOPPED = 75
"""EX_TEMPFAIL: a batch job that stopped between two units and wants to be run again."""

UTC = timezone.utc


@dataclass(frozen=True)
class Keys:
    """The annotation keys under one controller prefix (``prefix`` ends with a slash)."""

    prefix: str = DEFAULT_PREFIX

    def key(self, name: str) -> str:
        """Return the annotation key of ``name``, e.g. ``galends/guaranteed-until``."""
        return (IDLE_PREFIX if name in IDLE_NAMES else self.prefix) + name

    def podinfo_items(self) -> tuple[tuple[str, str], ...]:
        """Return (file name, fieldPath) of each file of a podinfo volume, in order."""
        return tuple((name, field_path(self.key(name))) for name in PODINFO_NAMES)


def field_path(key: str) -> str:
    """Return the downward API's fieldPath of one annotation."""
    return f"metadata.annotations['{key}']"


WHOLE_MAP_FIELD_PATH = "metadata.annotations"

SPACE = " \t\n\r\v\f"
"""What may stand around a value; spelled out, so that forewarn.sh can strip exactly the same."""

_INSTANT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?(?: ?(Z|z|UTC|[+-]\d\d(?::?\d\d)?))?",
    re.ASCII,
)


def parse_instant(text: str | None) -> datetime | None:
    """Read an ISO 8601 instant; ``None`` for anything else, never an exception.

    A naive time is UTC; an offset and a fraction of a second are accepted. The controller writes
    ``YYYY-MM-DDTHH:MM:SSZ``; the idle culler's format is not published, so any common form is taken.
    """
    match = _INSTANT.fullmatch(text.strip(SPACE)) if text else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(group or 0) for group in match.groups()[:6])
    fraction, zone = match.group(7), match.group(8)
    try:
        naive = datetime(  # noqa: DTZ001  (the zone is applied below)
            year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")[:6])
        )
        return (naive - _offset(zone)).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in ("Z", "z", "UTC"):
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset


def format_instant(instant: datetime, precision: str = "seconds") -> str:
    """Write an aware instant as the controller does: ``YYYY-MM-DDTHH:MM:SSZ`` (whole seconds, rounded down).

    ``precision`` is one that ``isoformat`` knows, such as ``microseconds`` for the API's MicroTime.
    """
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


_DECIMAL = re.compile(r"\d{1,3}(?:\.\d{1,9})?|\.\d{1,9}", re.ASCII)
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)


def parse_risk(text: str | None) -> float | None:
    """Read ``termination-warning-risk``: a decimal in (0, 1]; ``None`` for anything else."""
    match = _DECIMAL.fullmatch(text.strip(SPACE)) if text else None
    value = float(match.group()) if match else 0.0
    return value if 0.0 < value <= 1.0 else None


def parse_whole(text: str | None) -> int | None:
    """Read a whole number of at most nine digits, not negative; ``None`` for anything else."""
    match = _WHOLE.fullmatch(text.strip(SPACE)) if text else None
    return int(match.group()) if match else None


class Band(enum.Enum):
    """What the risk figure may be used for: the share of the candidates that must go, in coarse steps."""

    POSSIBLE = "possible"
    LIKELY = "likely"
    CERTAIN = "certain"
    UNKNOWN = "unknown"


def band(risk: float | None) -> Band:
    """Return the band of a risk: possible (< 0.5), likely (< 1), certain (1), unknown (unreadable)."""
    if risk is None:
        return Band.UNKNOWN
    if risk < 0.5:
        return Band.POSSIBLE
    return Band.LIKELY if risk < 1.0 else Band.CERTAIN
