"""Jobs, the reservation controller's own word, the runtime limit: what surrounds a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forewarn import contract
from tests.integration.mirror.support import NO_WARNING, MirrorProcess, Sessions, at, pod_body, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import until


def owned(name: str, owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    reference = {"controller": True, **owner}
    return pod_body(name, metadata={"name": name, "ownerReferences": [reference]}, **more)


def make_job(sessions: Sessions, name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    path = f"/apis/batch/v1/namespaces/{sessions.namespace}/jobs"
    made = sessions.ok("POST", path, {"metadata": {"name": name}, "spec": {"template": template}})
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"]}


def test_the_owning_job_is_told_of_the_opening_and_the_end(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(owned("train-0", make_job(sessions, "train")))
    sessions.annotate("train-0", warning(900))
    sessions.until("train-0", ["TerminationWarning"])
    sessions.annotate("train-0", warning(1200))
    sessions.annotate("train-0", NO_WARNING)
    sessions.until("train-0", ["TerminationWarning", "TerminationWarningChanged", "TerminationWarningWithdrawn"])
    on_job = until(lambda: len(found := sessions.events("train", "Job")) == 2 and found, "two Events on the Job")
    assert {event["reason"] for event in on_job} == {"TerminationWarning", "TerminationWarningWithdrawn"}
    assert all(event["note"].startswith("Pod train-0: ") for event in on_job)
    assert "TerminationWarning" in sessions.server.kubectl("describe", "job", "-n", sessions.namespace, "train")


def test_the_unmarked_pods_of_a_job_are_told_once_each(sessions: Sessions, mirror: MirrorProcess) -> None:
    job = make_job(sessions, "train")
    for number in range(3):
        sessions.create(owned(f"train-{number}", job))
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "11111111-0000-0000-0000-000000000000",
    }
    for number in range(2):
        sessions.create(owned(f"web-{number}", replicas))
    for name in ("web-0", "train-0", "train-1"):
        sessions.annotate(name, warning(900))
    sessions.until("train-2", ["PeerWarned"])
    sessions.until("train-0", ["TerminationWarning"])
    assert sessions.reasons("web-1") == []
    assert sessions.reasons("train-2") == ["PeerWarned"]


def test_the_controllers_own_word_is_the_cause(sessions: Sessions, mirror: MirrorProcess) -> None:
    uid = sessions.create(pod_body("train"))
    sessions.delete("train")
    event = {
        "metadata": {"name": "train.preempted"},
        "eventTime": at(0).replace("Z", ".000000Z"),
        "reportingController": contract.RESERVATION_CONTROLLER,
        "reportingInstance": "one",
        "action": "Preempt",
        "reason": "Preempted",
        "type": "Normal",
        "note": "Preempted for res-4813",
        "regarding": {"kind": "Pod", "namespace": sessions.namespace, "name": "train", "uid": uid},
    }
    sessions.ok("POST", f"/apis/events.k8s.io/v1/namespaces/{sessions.namespace}/events", event)
    told = sessions.until("train", ["SessionStopping"])
    assert "the reservation controller says “Preempted”" in told[0]["note"]
    assert "res-4813" not in told[0]["note"]


def test_the_runtime_limit_is_told_before_and_as_the_end(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", activeDeadlineSeconds=600))
    sessions.until("train", ["RuntimeLimitNear"])
    sessions.status("train", {"phase": "Failed", "reason": "DeadlineExceeded"})
    told = sessions.until("train", ["RuntimeLimitNear", "SessionEnded"])
    assert "its runtime limit ran out" in told[1]["note"]


def test_a_message_of_any_content_and_length_is_stored(sessions: Sessions, mirror: MirrorProcess) -> None:
    long = "\x1b[31m" + "über 🎓 " * 400 + "\u202e" + "\n"
    sessions.create(pod_body("train", warning(900) | {"galends/termination-warning-message": long}))
    note = sessions.until("train", ["TerminationWarning"])[0]["note"]
    assert len(note.encode()) <= 1024
    assert note.isprintable()


def test_an_open_episode_is_restated_on_the_same_event(
    api_server: ApiServer, namespace: str, sessions: Sessions, tmp_path: Path
) -> None:
    sessions.create(pod_body("train", warning(900)))
    flags = ("-n", namespace, "--restate-every=1")
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", *flags):
        sessions.until("train", ["TerminationWarning"])
        until(lambda: (sessions.events("train")[0].get("series") or {}).get("count", 0) >= 3, "a series")
    with MirrorProcess(api_server.kubeconfig, tmp_path / "again.log", *flags):
        count = sessions.events("train")[0]["series"]["count"]
        until(lambda: sessions.events("train")[0]["series"]["count"] > count, "the series goes on")
        assert sessions.reasons("train") == ["TerminationWarning"]
