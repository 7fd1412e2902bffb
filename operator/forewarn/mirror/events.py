"""Notices as events.k8s.io/v1 objects, and stories read back from them. Pure.

A pod's Events are numbered. The name of one is made from the pod's uid and the number alone, so a number can be taken
only once: of two mirrors that both want to say the next thing, one gets a 409, reads what is there and decides again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.contract import format_instant, parse_instant
from forewarn.mirror.catalogue import Reason, clean
from forewarn.mirror.notices import Notice
from forewarn.mirror.story import Story, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from forewarn.mirror.notices import Restatement

STORY = "forewarn/story"
"""Annotation of an Event: the story up to and including it."""
EPISODE = "forewarn/episode"
"""Annotation of an Event: the number of the episode that it belongs to."""
JOB = "forewarn/job"
"""Annotation of an Event on a pod: name and uid of its Job."""
ON_JOB = "forewarn/on-job"
"""Annotation of an Event on a pod: the Job is told too."""
POD_UID = "forewarn/pod-uid"
"""Annotation of an Event on a Job: the pod that it speaks of."""

API = "/apis/events.k8s.io/v1"
_NAME_LENGTH = 253
_INSTANCE_LENGTH = 128


Identity = tuple[str, str]
"""Namespace and uid of an object."""


@dataclass(frozen=True, slots=True)
class Target:
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def identity(self) -> Identity:
        """What tells it from all others: an Event of another namespace says nothing about it."""
        return self.namespace, self.uid

    @property
    def reference(self) -> dict[str, str]:
        """The object reference, as Events carry it."""
        version = "batch/v1" if self.kind == "Job" else "v1"
        return {
            "apiVersion": version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


def path(namespace: str, name: str = "") -> str:
    """Return the URL path of a namespace's Events, or of one."""
    return f"{API}/namespaces/{namespace}/events" + (f"/{name}" if name else "")


def name(target: Target, *identity: str | int) -> str:
    """Return an Event's name: the object's, so that a list can be read, and a digest of uid and identity."""
    text = "\0".join([target.uid, *map(str, identity)])
    digest = hashlib.sha256(text.encode()).hexdigest()[:20]
    return f"{target.name[: _NAME_LENGTH - 21].rstrip('.-')}.{digest}"


def entry_name(pod: Target, entry: int) -> str:
    """Return the name of a pod's Event of that number."""
    return name(pod, entry)


def job_name(job: Target, pod_uid: str, story: Story, reason: Reason) -> str:
    """Return the name of the Event that tells a Job of the opening or the end of a pod's episode."""
    return name(job, pod_uid, reason.name, story.episode)


def of_pod(notice: Notice, pod: Target, instance: str, job: Target | None = None) -> dict[str, Any]:
    """Return the Event that tells ``notice`` on the pod; ``instance`` names the mirror that writes it."""
    annotations = {EPISODE: str(notice.story.episode), STORY: encode(notice.story)}
    if job is not None:
        annotations[JOB] = f"{job.name}/{job.uid}"
        if notice.on_job:
            annotations[ON_JOB] = "true"
    return _event(notice, entry_name(pod, notice.story.entry), pod, annotations, notice.note, instance)


def of_job(notice: Notice, job: Target, pod: Target, instance: str) -> dict[str, Any]:
    """Return the Event that tells ``notice`` on the pod's Job."""

    annotations = {EPISODE: str(notice.story.episode), POD_UID: pod.uid}
    unique = job_name(job, pod.uid, notice.story, notice.reason)
    event = _event(notice, unique, job, annotations, clean(f"Pod {pod.name}: {notice.note}"), instance)
    return event | {"related": pod.reference}


def _event(
    notice: Notice, unique: str, target: Target, annotations: dict[str, str], note: str, instance: str
) -> dict[str, Any]:
    entry = notice.reason.entry
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": unique, "namespace": target.namespace, "annotations": annotations},
        "eventTime": format_instant(notice.at, "microseconds"),
        "reportingController": contract.REPORTING_CONTROLLER,
        "reportingInstance": instance[:_INSTANCE_LENGTH],
        "action": entry.action,
        "reason": notice.reason.name,
        "type": entry.type,
        "note": note,
        "regarding": target.reference,
    }


def restatement(said: Restatement) -> dict[str, Any]:
    """Return the merge patch that restates an Event through its series and brings its story up to date."""
    return {
        "metadata": {"annotations": {STORY: encode(said.story)}},
        "series": {"count": said.story.restated + 1, "lastObservedTime": format_instant(said.at, "microseconds")},
    }


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the stored Events say of one pod: who it is, and its story."""

    pod: Target
    story: Story
    job: tuple[str, str] | None
    """Name and uid of the owning Job."""


def is_ours(event: Mapping[str, Any]) -> bool:
    """Whether the mirror wrote the Event (or somebody in its name: a story is never trusted to be well-formed)."""
    return event.get("reportingController") == contract.REPORTING_CONTROLLER


def target_of(event: Mapping[str, Any]) -> Target:
    """Return what an Event is about."""
    reference = event.get("regarding") or {}
    keys = ("kind", "namespace", "name", "uid")
    return Target(*(str(reference.get(key, "")) for key in keys))


def story_of(event: Mapping[str, Any]) -> Story | None:
    """Return the story that an Event carries, if it is one of ours on a pod and says the truth about its number."""
    if not is_ours(event):
        return None
    meta = event.get("metadata") or {}
    return decode((meta.get("annotations") or {}).get(STORY))


def recover(stored: Iterable[Mapping[str, Any]]) -> dict[Identity, Recovered]:
    """Return the newest story of each pod."""
    newest: dict[Identity, Recovered] = {}
    for event in stored:
        target = target_of(event)
        if not _is_of_pod(event, target):
            continue
        story = story_of(event)
        if story is None:
            continue
        known = newest.get(target.identity)
        if known is None or _order(story) > _order(known.story):
            newest[target.identity] = Recovered(target, story, _job_of(event))
    return newest


_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def _is_of_pod(event: Mapping[str, Any], target: Target) -> bool:
    """Whether an Event is about a pod of its own namespace; a name that no pod can have would go into our requests."""
    namespace = (event.get("metadata") or {}).get("namespace")
    named = _POD_NAME.fullmatch(target.name) is not None and target.uid != ""
    return target.kind == "Pod" and target.namespace == namespace and named


def _job_of(event: Mapping[str, Any]) -> tuple[str, str] | None:
    name, slash, uid = str(((event.get("metadata") or {}).get("annotations") or {}).get(JOB, "")).partition("/")
    return (name, uid) if slash else None


def _order(story: Story) -> tuple[int, int]:
    # A restated Event carries a later state of the same number.
    return story.entry, story.restated


def untold_jobs(stored: Iterable[Mapping[str, Any]], since: datetime) -> list[tuple[Notice, Target, Target]]:
    """Return (notice, pod, Job) of each Event since then whose Job was not told: a mirror ended between the two."""
    ours = [event for event in stored if is_ours(event)]
    names = {(event["metadata"].get("namespace"), event["metadata"]["name"]) for event in ours}
    missing = []
    for event in ours:
        pod, story, at, owner = (
            target_of(event),
            story_of(event),
            parse_instant(str(event.get("eventTime"))),
            _job_of(event),
        )
        if ON_JOB not in (event["metadata"].get("annotations") or {}) or at is None or at < since:
            continue
        # One that was restated was told long ago: its Job's copy is missing because it has expired.
        if not _is_of_pod(event, pod) or story is None or story.restated or owner is None:
            continue
        job = Target("Job", pod.namespace, *owner)
        reason = Reason.__members__.get(str(event.get("reason")))
        if reason is not None and (pod.namespace, job_name(job, pod.uid, story, reason)) not in names:
            missing.append((Notice(reason, str(event.get("note")), at, story, on_job=True), pod, job))
    return missing
