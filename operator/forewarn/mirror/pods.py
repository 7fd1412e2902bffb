"""A pod's object as the few plain values that the episodes need. Pure; never raises on content."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from forewarn import contract, session
from forewarn.admission.audit import in_scope, sees_podinfo
from forewarn.contract import parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.contract import Keys

TERMINAL = ("Succeeded", "Failed")
_EPOCH = datetime(1970, 1, 1, tzinfo=contract.UTC)
_KUBEFLOW_LABEL = "training.kubeflow.org/job-name"
_NO_FACTS = session.Facts()
_LAST = datetime(9900, 1, 1, tzinfo=contract.UTC)
"""The latest instant of a warning: one at the calendar's end leaves no room to reckon with."""
LONGEST = 10 * 365 * 86400
"""Seconds of the longest grace or limit that is reckoned with; the API server takes any 64-bit number."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A terminal phase: ``phase``, the pod's own reason (``DeadlineExceeded``, ``Evicted``, …) and when."""

    phase: str
    reason: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Seen:
    """One pod as observed."""

    uid: str
    namespace: str
    name: str
    version: int
    facts: session.Facts
    created: datetime
    scheduled: bool
    """Whether it has a node: what never had one is no session that stops."""
    started: datetime | None
    limit_seconds: int | None
    """``activeDeadlineSeconds``."""
    grace_seconds: int
    """The grace of the delete where it was deleted, else the configured one."""
    deleted: datetime | None
    """The instant of the delete: deletionTimestamp less its grace."""
    ended: Ended | None
    sees_podinfo: bool
    """Whether its containers can read a warning; also true for who opted out."""
    job: tuple[str, str] | None
    """Name and uid of the owning Job."""
    group: str
    """Key of the pods that end with this one; empty for none."""

    @property
    def running(self) -> bool:
        """Whether it was started and has neither ended nor been told to stop."""
        return self.started is not None and self.deleted is None and self.ended is None


def observe(pod: Mapping[str, Any], keys: Keys) -> Seen:
    """Read a pod as the API server sends it."""
    meta = pod.get("metadata") or {}
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    labels = meta.get("labels") or {}
    annotations = meta.get("annotations") or {}
    facts = session.read_annotations(annotations, keys)
    if facts.warning_at is not None and facts.warning_at > _LAST:
        facts = replace(facts, warning_at=_LAST)
    deletion = parse_instant(meta.get("deletionTimestamp"))
    deletion_grace = meta.get("deletionGracePeriodSeconds") or 0
    limit = spec.get("activeDeadlineSeconds")
    owner = _controller(meta)
    job = _job(owner)
    return Seen(
        uid=str(meta.get("uid", "")),
        namespace=sys.intern(str(meta.get("namespace", ""))),
        name=str(meta.get("name", "")),
        version=_version(meta.get("resourceVersion")),
        # Most sessions of a quiet cluster carry nothing: they share one object.
        facts=_NO_FACTS if facts == _NO_FACTS else facts,
        created=parse_instant(meta.get("creationTimestamp")) or _EPOCH,
        scheduled=bool(spec.get("nodeName")),
        started=parse_instant(status.get("startTime")),
        limit_seconds=None if limit is None else _bounded(limit),
        grace_seconds=_bounded(deletion_grace if deletion else spec.get("terminationGracePeriodSeconds") or 0),
        deleted=deletion - _added(deletion_grace) if deletion else None,
        ended=_ended(status),
        sees_podinfo=not in_scope(pod, {}) or sees_podinfo(pod, keys.prefix),
        job=job,
        group=_group(labels, owner, job),
    )


def _bounded(seconds: int) -> int:
    return min(max(seconds, 0), LONGEST)


def _added(grace: int) -> timedelta:
    """Return what the API server added to the instant of a delete: 64 bits of nanoseconds, which may have wrapped."""
    nanoseconds = (grace * 10**9 + 2**63) % 2**64 - 2**63
    return timedelta(microseconds=nanoseconds // 1000)


def _version(text: Any) -> int:
    # The API only promises equality, but every API server's versions are etcd's revisions, and since 1.35 it says so.
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def _ended(status: Mapping[str, Any]) -> Ended | None:
    phase = status.get("phase")
    if phase not in TERMINAL:
        return None
    ends = [
        parse_instant(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for container in status.get("containerStatuses") or []
    ]
    # Of a lost node's pod some containers have no end: those that have ended hours ago say nothing of the pod's.
    finished = [instant for instant in ends if instant] if all(ends) else []
    moved = [
        instant
        for condition in status.get("conditions") or []
        if (instant := parse_instant(condition.get("lastTransitionTime")))
    ]
    return Ended(phase, str(status.get("reason") or ""), max(finished or moved, default=None))


def _controller(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((owner for owner in meta.get("ownerReferences") or [] if owner.get("controller")), {})


def _job(owner: Mapping[str, Any]) -> tuple[str, str] | None:
    if owner.get("kind") != "Job" or not str(owner.get("apiVersion")).startswith("batch/"):
        return None
    return str(owner.get("name")), str(owner.get("uid"))


def _group(labels: Mapping[str, str], owner: Mapping[str, Any], job: tuple[str, str] | None) -> str:
    if job is not None:
        return "job/" + job[1]
    name = labels.get(_KUBEFLOW_LABEL)
    # A Deployment's replicas carry whatever label its template has, and one does not end with another.
    return f"kubeflow/{name}" if name and owner.get("kind") != "ReplicaSet" else ""
