"""Whether a condition holds, does not hold yet, or can never hold any more. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn import contract, wording
from forewarn.simulator import model

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from forewarn.contract import Keys
    from forewarn.simulator.world import PodState


SIGNAL = r"\bSIGTERM\b"
"""What a log line that tells of SIGTERM looks like, unless the scenario says otherwise."""


def signal_patterns(scenario: model.Scenario) -> dict[str, re.Pattern[str]]:
    """Return, for each pod, what its log says when SIGTERM comes."""
    given = {step.pod: step.condition.log for step in scenario.steps if isinstance(step.condition, model.Signalled)}
    return {pod.name: re.compile(given.get(pod.name, SIGNAL)) for pod in scenario.pods}


def interest(scenario: model.Scenario) -> Callable[[str, str], bool]:
    """Return what tells of a pod and a line of its log whether the scenario depends on it."""
    patterns = {pod.name: [re.compile(SIGNAL)] for pod in scenario.pods}
    for step in scenario.steps:
        if isinstance(step.condition, model.Signalled):
            patterns[step.pod].append(re.compile(step.condition.log))
        elif isinstance(step.condition, model.LogHas):
            patterns[step.pod].append(re.compile(re.escape(step.condition.text)))
    return lambda pod, text: any(pattern.search(text) for pattern in patterns[pod])


@dataclass(frozen=True)
class Verdict:
    """``holds`` is ``None`` where it can never hold any more; ``detail`` says what is the case, for a person.

    ``again`` is when time alone may change it.
    """

    holds: bool | None
    detail: str
    again: datetime | None = None


def judge(condition: model.Condition, pod: PodState, now: datetime, keys: Keys) -> Verdict:
    """Judge a condition by what is known of its pod at ``now``."""
    match condition:
        case model.Started():
            return _started(pod)
        case model.Gone():
            return Verdict(pod.gone, "the pod is gone" if pod.gone else "the pod is still there")
        case model.WarningPast():
            return _past(condition, pod, now, keys)
        case model.FileHolds():
            return _file(condition, pod)
        case model.EventCount():
            return _events(condition, pod)
        case model.Signalled():
            return _signalled(condition, pod)
        case model.Exited():
            return _exited(condition, pod)
        case model.Grace():
            return _grace(condition, pod)
        case model.LogHas():
            return _log(condition, pod)


def _started(pod: PodState) -> Verdict:
    if pod.placed and pod.running | pod.ended.keys() >= set(pod.placed.containers):
        return Verdict(True, "its containers run")
    if pod.gone:
        return Verdict(None, "the pod went away before it ran")
    return Verdict(False, f"it does not run: {pod.waits or 'no word from the cluster yet'}")


def _past(condition: model.WarningPast, pod: PodState, now: datetime, keys: Keys) -> Verdict:
    at = contract.parse_instant(pod.written.get(keys.key(contract.WARNING_AT)))
    if at is None:
        return Verdict(None, "no warning stands that could become stale")
    due = at + condition.by
    if now >= due:
        return Verdict(True, f"the warning's instant is past by {wording.span((now - at).total_seconds())}")
    return Verdict(False, f"the warning's instant is {wording.distance(at, now)}", due)


def _file(condition: model.FileHolds, pod: PodState) -> Verdict:
    containers = [condition.container] if condition.container else list(pod.placed.mounting if pod.placed else ())
    if not containers:
        return Verdict(False, f"no container mounts {contract.MOUNT_PATH}")
    wanted = condition.wanted if condition.wanted is not None else pod.written.get(condition.key, "")
    for container in containers:
        text = pod.files.get(container, {}).get(condition.name)
        if text is None:
            why = pod.blind.get(f"files of {container}", "not seen yet")
            return Verdict(False, f"{condition.name} in container {container}: {why}")
        if condition.contains is not None:
            if condition.contains not in text:
                return Verdict(False, f"{condition.name} in {container} is {text!r}, without {condition.contains!r}")
        elif text != wanted:
            return Verdict(False, f"{condition.name} in {container} is {text!r}, not {wanted!r}")
    return Verdict(True, f"{condition.name} in {', '.join(containers)} is as expected")


def _events(condition: model.EventCount, pod: PodState) -> Verdict:
    found = [
        event
        for event in pod.events.values()
        if event.reason == condition.reason
        and event.source == condition.source
        and (condition.type is None or event.type == condition.type)
        and (condition.note is None or condition.note in event.note)
    ]
    wanted = f"{condition.least}" if condition.most is not None else f"{condition.least} or more"
    detail = f"{len(found)} {condition.reason} of {wanted}"
    if not found and (others := [event for event in pod.events.values() if event.source == condition.source]):
        detail += f" (there are: {', '.join(dict.fromkeys(_short(event.reason, event.note) for event in others))})"
    elif "events" in pod.blind:
        detail += f" ({pod.blind['events']})"
    if condition.most is not None and len(found) > condition.most:
        return Verdict(None, detail)
    return Verdict(len(found) >= condition.least, detail)


def _short(reason: str, note: str) -> str:
    return f"{reason} {note[:60]!r}"


def _signalled(condition: model.Signalled, pod: PodState) -> Verdict:
    if pod.deleted_at is None:
        return Verdict(False, "the pod was not deleted")
    pattern = re.compile(condition.log)
    lines = (line for line in pod.noted if condition.container in (None, line.container) and line.at >= pod.deleted_at)
    line = next((line for line in lines if pattern.search(line.text)), None)
    if line is None:
        return Verdict(False, f"no log line after the delete matches {condition.log!r}{_unread_logs(pod)}")
    after = line.at - pod.deleted_at
    told = f"SIGTERM {after.total_seconds():.1f} s after the delete"
    return Verdict(True if after <= condition.after else None, told)


def _exited(condition: model.Exited, pod: PodState) -> Verdict:
    names = [condition.container] if condition.container else list(pod.placed.containers if pod.placed else ())
    waiting = [name for name in names if name not in pod.ended]
    wrong = [pod.ended[name] for name in names if name in pod.ended and pod.ended[name].code != condition.code]
    if wrong:
        told = ", ".join(f"{end.container} with {end.code}{f' ({end.reason})' if end.reason else ''}" for end in wrong)
        return Verdict(None, f"ended: {told}, not {condition.code}")
    if waiting or not names:
        why = "the pod is gone and nothing said how it ended" if pod.gone else "still running"
        return Verdict(None if pod.gone else False, f"{', '.join(waiting) or 'no container'}: {why}")
    return Verdict(True, f"{', '.join(names)} ended with {condition.code}")


def _grace(condition: model.Grace, pod: PodState) -> Verdict:
    if pod.placed is None:
        return Verdict(False, "the pod is not there yet")
    if condition.seconds is not None and pod.placed.grace != condition.seconds:
        return Verdict(None, f"the pod has a grace of {pod.placed.grace} s, not {condition.seconds} s")
    told = f"the pod has a grace of {pod.placed.grace} s"
    if condition.least is None and condition.most is None:
        return Verdict(True, told)
    lasted = grace_used(pod)
    if lasted is None:
        return Verdict(None if pod.gone else False, "no delete and end of every container seen")
    told = f"{told}, of which it used {lasted:.1f} s"
    short = condition.least is not None and lasted < condition.least.total_seconds()
    long = condition.most is not None and lasted > condition.most.total_seconds()
    return Verdict(None if short or long else True, told)


def grace_used(pod: PodState) -> float | None:
    """Return the seconds from the delete to the end of the pod's last container; ``None`` while not both are known."""
    if pod.deleted_at is None or pod.placed is None or not pod.ended.keys() >= set(pod.placed.containers):
        return None
    last = max(pod.ended[name].when for name in pod.placed.containers)
    return max((last - pod.deleted_at).total_seconds(), 0.0)


def _log(condition: model.LogHas, pod: PodState) -> Verdict:
    for line in pod.noted:
        if condition.container in (None, line.container) and condition.text in line.text:
            return Verdict(True, f"{line.container} wrote {line.text[:80]!r}")
    last = f"; the last line is {pod.log[-1].text[:80]!r}" if pod.log else ""
    return Verdict(False, f"no line with {condition.text!r}{last}{_unread_logs(pod)}")


def _unread_logs(pod: PodState) -> str:
    blind = "; ".join(f"{what}: {why}" for what, why in pod.blind.items() if what.startswith("log"))
    return f" ({blind})" if blind else ""
