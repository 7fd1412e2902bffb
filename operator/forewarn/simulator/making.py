"""What a step's values make of it: its action, its condition, how long that must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.simulator import model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from forewarn.contract import Keys


@dataclass(frozen=True)
class Given:
    """What a step gives its verb: values by field name (``None`` where left out), and the annotation keys."""

    values: Mapping[str, Any]
    keys: Keys

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class Made:
    """What a verb's values make of a step."""

    action: model.Action | None = None
    condition: model.Condition | None = None
    hold: timedelta = model.NOTHING


def _warning(v: Given, at: Any) -> list[tuple[str, model.Value]]:
    message = v["message"] if v["message"] is not None else model.MessageFor(at)
    return [
        (v.keys.key(contract.WARNING_AT), at),
        (v.keys.key(contract.WARNING_RISK), v["risk"]),
        (v.keys.key(contract.WARNING_MESSAGE), message),
    ]


def warn(v: Given) -> Made:
    """Make a warning: all three keys."""
    return Made(model.Write(tuple(_warning(v, v["at"]))))


def change(v: Given) -> Made:
    """Make a change of a warning; raises ``ValueError`` where nothing is given."""
    written: list[tuple[str, model.Value]] = []
    if v["at"] is not None:
        written.append((v.keys.key(contract.WARNING_AT), v["at"]))
    if v["risk"] is not None:
        written.append((v.keys.key(contract.WARNING_RISK), v["risk"]))
    message = v["message"] or (model.MessageFor(v["at"]) if v["at"] is not None else None)
    if message is not None:
        written.append((v.keys.key(contract.WARNING_MESSAGE), message))
    if not written:
        raise ValueError("allowed: at, risk or message, at least one of them")
    return Made(model.Write(tuple(written)))


def withdraw(v: Given) -> Made:
    """Make the removal of a warning."""
    return Made(model.Write(tuple((v.keys.key(name), None) for name in contract.WARNING_NAMES)))


def leave_stale(v: Given) -> Made:
    """Make the wait for a warning's instant to pass."""
    return Made(condition=model.WarningPast(v["by"]))


def guarantee(v: Given) -> Made:
    """Make a guarantee."""
    written: list[tuple[str, model.Value]] = [(v.keys.key(contract.GUARANTEED_UNTIL), v["until"])]
    if v["status"] is not None:
        written.append((v.keys.key(contract.GUARANTEE_STATUS), v["status"]))
    return Made(model.Write(tuple(written)))


def queue(v: Given) -> Made:
    """Make a warning inside the guarantee."""
    until = (v.keys.key(contract.GUARANTEED_UNTIL), v["until"])
    at = v["at"] if v["at"] is not None else v["until"]
    return Made(model.Write((until, *_warning(v, at))))


def idle(v: Given) -> Made:
    """Make the idle culler's keys."""
    status, deadline = v.keys.key(contract.IDLE_STATUS), v.keys.key(contract.IDLE_CULL_DEADLINE)
    return Made(model.Write(((status, v["status"]), (deadline, v["deadline"]))))


def annotate(v: Given) -> Made:
    """Make any annotations."""
    return Made(model.Write(tuple(v["annotations"])))


def remove(v: Given) -> Made:
    """Make the removal of any annotations."""
    return Made(model.Write(tuple((key, None) for key in v["names"])))


def expect_file(v: Given) -> Made:
    """Make the expectation of a file; raises ``ValueError`` where what it should hold is not clear."""
    if sum(v[name] is not None for name in ("holds", "contains", "empty")) > 1:
        raise ValueError("allowed: one of holds, contains and empty")
    wanted = "" if v["empty"] else v["holds"]
    if v["name"] == contract.WHOLE_MAP_FILE and wanted is None and v["contains"] is None:
        raise ValueError("allowed: holds or contains with the whole map")
    key = v.keys.key(v["name"])
    return Made(None, model.FileHolds(v["name"], key, wanted, v["contains"], v["container"]), v["for"] or model.NOTHING)


def expect_event(v: Given) -> Made:
    """Make the expectation of an Event."""
    least, most = (v["count"], v["count"]) if v["count"] is not None else (1, None)
    count = model.EventCount(v["reason"], least, most, v["note"], v["type"], v["from"])
    return Made(None, count, v["for"] or model.NOTHING)


def expect_no_event(v: Given) -> Made:
    """Make the expectation that an Event stays away."""
    return Made(None, model.EventCount(v["reason"], 0, 0, v["note"], v["type"], v["from"]), v["for"])


def expect_grace(v: Given) -> Made:
    """Make the expectation of a grace; raises ``ValueError`` where nothing is given."""
    grace = model.Grace(v["seconds"], v["lasted-at-least"], v["lasted-at-most"])
    if grace == model.Grace():
        raise ValueError("allowed: seconds, lasted-at-least or lasted-at-most, at least one of them")
    return Made(None, grace)
