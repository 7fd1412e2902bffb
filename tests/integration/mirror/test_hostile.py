"""Pods and Events that somebody made to confuse the mirror, and ends of pods as a kubelet plays them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from forewarn import contract
from forewarn.mirror import events
from forewarn.mirror.events import Target
from tests.integration.mirror.support import KEYS, NO_WARNING, MirrorProcess, Sessions, at, pod_body, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import until


def forge(sessions: Sessions, pod: Target, number: int, story: Any = None, controller: str = "somebody") -> None:
    """Store an Event under the name that the mirror's Event of that number would have."""
    annotations = {} if story is None else {events.STORY: json.dumps(story)}
    name = events.entry_name(pod, number)
    body = {
        "metadata": {"name": name, "namespace": pod.namespace, "annotations": annotations},
        "eventTime": at(0).replace("Z", ".000000Z"),
        "reportingController": controller,
        "reportingInstance": "x",
        "action": "x",
        "reason": "Forged",
        "type": "Normal",
        "note": "x",
        "regarding": pod.reference,
    }
    sessions.ok("POST", events.path(pod.namespace), body)


def genuine(sessions: Sessions, name: str) -> list[str]:
    return [reason for reason in sessions.reasons(name) if reason != "Forged"]


@pytest.mark.parametrize("controller", ["somebody", contract.REPORTING_CONTROLLER])
def test_a_number_that_somebody_took_is_passed_over(sessions: Sessions, mirror: MirrorProcess, controller: str) -> None:
    uid = sessions.create(pod_body("train"))
    pod = Target("Pod", sessions.namespace, "train", uid)
    for number in (1, 2, 4):
        forge(sessions, pod, number, {"of": "a newer version"}, controller)
    sessions.annotate("train", warning(900))
    expected = ["TerminationWarning"]
    until(lambda: genuine(sessions, "train") == expected, "the warning, told nevertheless")
    sessions.annotate("train", NO_WARNING)
    expected.append("TerminationWarningWithdrawn")
    until(lambda: genuine(sessions, "train") == expected, "its withdrawal")
    conflicts = mirror.metric("forewarn_mirror_event_conflicts_total")
    sessions.annotate("train", warning(1200))
    expected.append("TerminationWarning")
    until(lambda: genuine(sessions, "train") == expected, "the second warning")
    assert conflicts == mirror.metric("forewarn_mirror_event_conflicts_total") <= 4, "each number is tried once"


def test_forged_stories_and_endless_instants_keep_nobody_from_being_told(
    api_server: ApiServer, sessions: Sessions, tmp_path: Path
) -> None:
    endless = {KEYS.key(contract.WARNING_AT): "9999-12-31T23:59:59Z"}
    uid = sessions.create(pod_body("endless", endless))
    forge(
        sessions,
        Target("Pod", sessions.namespace, "other", "u2"),
        1,
        {"told_at": "0001-01-01T00:00:00+14:00"},
        "forewarn",
    )
    forge(
        sessions,
        Target("Pod", sessions.namespace, "endless", uid),
        9,
        {"entry": 9, "told_at": "9999-12-31T23:59:59Z", "state": "at-risk"},
        "forewarn",
    )
    sessions.create(pod_body("huge", warning(900), terminationGracePeriodSeconds=2**63 - 1))
    sessions.create(pod_body("train", warning(900)))
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", "-n", sessions.namespace) as mirror:
        mirror.ready()
        for name in ("endless", "huge", "train"):
            until(
                lambda name=name: genuine(sessions, name) == ["TerminationWarning"],  # type: ignore[misc]
                f"the warning of {name}",
            )
        sessions.delete("huge")
        until(lambda: genuine(sessions, "huge")[1:] == ["SessionStopping"], "the stop")
        assert "Traceback" not in mirror.output()


def test_a_session_that_ends_at_once_had_its_whole_grace(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    sessions.delete("train")
    time.sleep(1.0)
    # What a kubelet does when all containers have ended.
    sessions.delete("train", 0)
    stopping = sessions.until("train", ["TerminationWarning", "SessionStopping"])[-1]["note"]
    assert "It has 10 min of grace" in stopping


def test_annotations_that_are_tidied_up_after_the_delete_are_no_withdrawal(
    sessions: Sessions, mirror: MirrorProcess
) -> None:
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    sessions.delete("train")
    # A kopf worker takes only the newest of what comes within a tenth of a second; the stop is told after three.
    time.sleep(1.0)
    sessions.annotate("train", NO_WARNING)
    sessions.until("train", ["TerminationWarning", "SessionStopping"])


def test_a_pod_out_of_the_selectors_sight_goes_on_where_it_was(
    api_server: ApiServer, sessions: Sessions, tmp_path: Path
) -> None:
    instant = warning(900)
    sessions.create(pod_body("train", instant, metadata={"labels": {"session": "yes"}}))

    def label(value: str | None) -> None:
        path = f"/api/v1/namespaces/{sessions.namespace}/pods/train"
        sessions.ok("PATCH", path, {"metadata": {"labels": {"session": value}}}, "application/merge-patch+json")

    flags = ("-n", sessions.namespace, "--pod-selector=session=yes")
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.ready()
        expected = ["TerminationWarning", "TerminationWarningWithdrawn", "TerminationWarning"]
        sessions.until("train", expected[:1])
        sessions.annotate("train", NO_WARNING)
        sessions.until("train", expected[:2])
        sessions.annotate("train", instant)
        sessions.until("train", expected)
        label(None)
        mirror.until(lambda: mirror.metric("forewarn_mirror_sessions") == 0, "the pod is out of sight")
        label("yes")
        mirror.until(lambda: mirror.metric("forewarn_mirror_sessions") == 1, "the pod is seen again")
        sessions.annotate("train", NO_WARNING)
        told = sessions.until("train", [*expected, "TerminationWarningWithdrawn"])
        assert json.loads(told[-1]["metadata"]["annotations"][events.STORY])["episode"] == 2
