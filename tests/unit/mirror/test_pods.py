"""A pod's object, however hostile, as plain values that can be reckoned with."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.contract import ANNOTATION_NAMES, format_instant
from forewarn.mirror.episodes import step
from forewarn.mirror.notices import Around, Rules
from forewarn.mirror.pods import observe
from forewarn.mirror.story import NOTHING
from tests.unit.mirror.sessions import KEYS, RULES, at, text

LARGEST = 2**63 - 1
extremes = st.sampled_from(
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
        text(900),
        "x" * 10000,
        "\ud83d",
        "1" * 400,
        "warning",
    ]
)
contents = st.dictionaries(st.sampled_from([KEYS.key(name) for name in ANNOTATION_NAMES]), extremes)
spans = st.sampled_from([None, 0, 1, 600, 10**12, LARGEST])


@given(contents, spans, spans, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_content_breaks_the_machine(
    values: dict[str, str], grace: int | None, limit: int | None, deleted: bool, bare: bool
) -> None:
    meta: dict[str, Any] = {"name": "x", "namespace": "team", "uid": "u1", "annotations": values}
    if deleted:
        meta |= {"deletionTimestamp": text(60), "deletionGracePeriodSeconds": grace}
    pod: dict[str, Any] = {"metadata": meta}
    if not bare:
        pod["spec"] = {"nodeName": "n", "terminationGracePeriodSeconds": grace, "activeDeadlineSeconds": limit}
        pod["status"] = {"startTime": text(0), "phase": "Running"}
    observed = observe(pod, KEYS)
    slow = Rules(KEYS, timedelta(seconds=999_999_999), timedelta(seconds=999_999_999))
    for rules in (RULES, slow):
        story = step(NOTHING, observed, Around(cause=""), at(0), rules).story
        assert step(story, observed, Around(cause=""), at(0), rules).tell == ()


def test_nothing_at_all_is_a_pod_that_says_nothing() -> None:
    for empty in ({}, {"metadata": None, "spec": None, "status": None}):
        assert step(NOTHING, observe(empty, KEYS), Around(), at(0), RULES).tell == ()


@pytest.mark.parametrize(
    ("grace", "deletion"),
    [
        (0, at(0)),
        (600, at(600)),
        # As a real API server answers: it counts nanoseconds in 64 bits.
        (LARGEST, at(-1)),
        (10**12, at((10**21 + 2**63) % 2**64 / 1e9 - 2**63 / 1e9)),
    ],
)
def test_the_instant_of_a_delete_is_found_whatever_the_grace(grace: int, deletion: Any) -> None:
    meta = {"deletionTimestamp": format_instant(deletion), "deletionGracePeriodSeconds": grace}
    found = observe({"metadata": meta}, KEYS).deleted
    assert found is not None
    assert abs(found - at(0)) <= timedelta(seconds=1)


@pytest.mark.parametrize(
    ("other", "expected"), [({"terminated": {"finishedAt": text(60)}}, at(60)), ({"running": {}}, at(90))]
)
def test_a_pod_ends_with_the_last_of_its_containers(other: dict[str, Any], expected: datetime) -> None:
    states = [{"terminated": {"finishedAt": text(0)}}, other]
    status = {
        "phase": "Failed",
        "containerStatuses": [{"state": state} for state in states],
        # A lost node says no more of a container; what ended hours ago is not when the pod did.
        "conditions": [{"type": "Ready", "lastTransitionTime": text(90)}],
    }
    ended = observe({"metadata": {}, "status": status}, KEYS).ended
    assert ended is not None
    assert ended.at == expected


@pytest.mark.parametrize(("kind", "group"), [("PyTorchJob", "kubeflow/x"), ("ReplicaSet", "")])
def test_replicas_are_no_job_whatever_their_labels_say(kind: str, group: str) -> None:
    owner = {"kind": kind, "apiVersion": "v1", "name": "x", "uid": "x1", "controller": True}
    meta = {"ownerReferences": [owner], "labels": {"training.kubeflow.org/job-name": "x"}}
    assert observe({"metadata": meta}, KEYS).group == group
