"""Warnings on the real API server: each becomes one Event, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn import contract
from tests.integration.mirror.support import KEYS, NO_WARNING, MirrorProcess, Sessions, at, pod_body, warning
from tests.support.apiserver import ApiServer
from tests.support.waiting import until


@pytest.fixture
def sessions(api_server: ApiServer, session_namespace: str) -> Sessions:
    return Sessions(api_server, session_namespace)


@pytest.fixture
def mirror(api_server: ApiServer, session_namespace: str, tmp_path: Path) -> Iterator[MirrorProcess]:
    flags = ("--stale-after=1",)
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", *flags) as process:
        yield process.ready()


def test_a_warning_is_set_changed_withdrawn_and_set_again(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train"))
    sessions.annotate("train", warning(900))
    sessions.until("train", ["TerminationWarning"])
    sessions.annotate("train", warning(1000))
    sessions.until("train", ["TerminationWarning", "TerminationWarningChanged"])
    sessions.annotate("train", NO_WARNING)
    sessions.annotate("train", warning(1000))
    events = sessions.until(
        "train",
        [
            "TerminationWarning",
            "TerminationWarningChanged",
            "TerminationWarningWithdrawn",
            "TerminationWarning",
        ],
    )
    assert [event["metadata"]["annotations"]["forewarn/episode"] for event in events] == ["1", "1", "1", "2"]
    assert events[0]["type"] == "Warning"
    assert events[0]["action"] == "WarnedOfStop"
    described = sessions.server.kubectl("describe", "pod", "-n", sessions.namespace, "train")
    assert "TerminationWarningWithdrawn" in described


def test_the_pod_itself_is_never_written(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    pod = sessions.ok("GET", f"/api/v1/namespaces/{sessions.namespace}/pods/train")
    assert set(pod["metadata"]["annotations"]) == set(warning())
    assert "finalizers" not in pod["metadata"]


def test_a_warning_inside_the_guarantee_is_queued_until_its_end(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", {KEYS.key(contract.GUARANTEED_UNTIL): at(3), **warning(3)}))
    sessions.until("train", ["TerminationWarningQueued"], 3)
    sessions.until(
        "train",
        ["TerminationWarningQueued", "GuaranteeEnded", "TerminationWarning", "TerminationWarningStale"],
    )


def test_a_restart_tells_nothing_twice_and_what_it_missed(
    sessions: Sessions, mirror: MirrorProcess, api_server: ApiServer, tmp_path: Path
) -> None:
    for name in ("kept", "withdrawn", "gone"):
        sessions.create(pod_body(name, warning(900)))
        sessions.until(name, ["TerminationWarning"])
    mirror.kill()
    sessions.annotate("withdrawn", NO_WARNING)
    sessions.delete("gone", 0)
    with MirrorProcess(api_server.kubeconfig, tmp_path / "again.log") as again:
        again.ready()
        sessions.until("withdrawn", ["TerminationWarning", "TerminationWarningWithdrawn"])
        events = sessions.until("gone", ["TerminationWarning", "SessionEnded"])
        assert "unobserved" in events[1]["note"]
        sessions.until("kept", ["TerminationWarning"])


def test_a_delete_is_the_last_word_with_its_true_instant_and_grace(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    sessions.delete("train")
    events = sessions.until("train", ["TerminationWarning", "SessionStopping"])
    assert "it was warned" in events[1]["note"]
    assert "10 min of grace" in events[1]["note"]
    sessions.annotate("train", NO_WARNING)
    sessions.delete("train", 0)
    pods = f"/api/v1/namespaces/{sessions.namespace}/pods"
    until(lambda: not sessions.ok("GET", pods)["items"], "the pod is gone")
    mirror.until(lambda: mirror.metric("forewarn_mirror_sessions") == 0, "the mirror knows that it is gone")
    assert len(sessions.events("train")) == 2


def test_an_unreadable_value_is_ignored_and_told_once(sessions: Sessions, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    for value in ("tomorrow\x1b[2J", "soon"):
        sessions.annotate("train", {KEYS.key(contract.WARNING_AT): value})
    events = sessions.until("train", ["TerminationWarning", "AnnotationUnreadable"])
    assert events[1]["note"].isprintable()
    sessions.annotate("train", NO_WARNING)
    sessions.until("train", ["TerminationWarning", "AnnotationUnreadable", "TerminationWarningWithdrawn"])


def test_sigterm_ends_it_quickly_and_cleanly(mirror: MirrorProcess) -> None:
    assert mirror.get("/healthz")[0] == 200
    assert "# HELP forewarn_mirror_sessions" in mirror.get("/metrics")[1]
    assert mirror.stop() == 0
