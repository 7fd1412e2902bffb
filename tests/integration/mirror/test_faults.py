"""An API server that goes away, stalls, refuses or has another clock: what is owed is told, and nothing false."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from forewarn import contract
from tests.integration.mirror.faulty import Faults, status
from tests.integration.mirror.support import KEYS, NO_WARNING, MirrorProcess, Sessions, at, pod_body, warning
from tests.integration.mirror.test_start import RULES
from tests.support.apiserver import ApiServer


@pytest.fixture
def faults(api_server: ApiServer, tmp_path: Path) -> Iterator[Faults]:
    with Faults(api_server, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def mirror(faults: Faults, namespace: str, tmp_path: Path) -> Iterator[MirrorProcess]:
    with MirrorProcess(faults.kubeconfig, tmp_path / "mirror.log", "-n", namespace) as process:
        yield process.ready()


def is_pod_watch(request: web.Request) -> bool:
    return request.path.endswith("/pods") and request.query.get("watch") == "true"


def writes_event(request: web.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/events")


def test_a_cut_watch_is_taken_up_again(sessions: Sessions, faults: Faults, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train"))
    for number in range(3):
        faults.cut()
        sessions.annotate("train", NO_WARNING if number % 2 else warning(900))
        sessions.until(
            "train", ["TerminationWarning", "TerminationWarningWithdrawn", "TerminationWarning"][: number + 1]
        )


def test_a_watch_that_stalls_silently_is_noticed(sessions: Sessions, faults: Faults, mirror: MirrorProcess) -> None:
    sessions.create(pod_body("train"))
    assert faults.stall() > 0
    sessions.annotate("train", warning(900))
    stalled = time.monotonic()
    sessions.until("train", ["TerminationWarning"], 45)
    print(f"a silent stall cost {time.monotonic() - stalled:.0f} s")
    assert mirror.get("/healthz")[0] == 200


@pytest.mark.parametrize("how", ["in the stream", "as the answer"])
def test_a_watch_that_is_too_old_is_listed_anew(
    how: str, sessions: Sessions, faults: Faults, mirror: MirrorProcess
) -> None:
    for name in ("kept", "withdrawn", "gone"):
        sessions.create(pod_body(name, warning(900)))
        sessions.until(name, ["TerminationWarning"])
    gone = json.loads(status(410, "Expired", "too old resource version").text or "")

    def refuse(request: web.Request) -> web.Response | None:
        if not is_pod_watch(request):
            return None
        if how == "as the answer":
            return status(410, "Expired", "too old resource version")
        return web.Response(text=json.dumps({"type": "ERROR", "object": gone}) + "\n", content_type="application/json")

    faults.refuse = refuse
    faults.cut()
    sessions.annotate("withdrawn", NO_WARNING)
    sessions.delete("gone", 0)
    time.sleep(2)
    faults.refuse = None
    sessions.until("withdrawn", ["TerminationWarning", "TerminationWarningWithdrawn"])
    sessions.until("gone", ["TerminationWarning", "SessionEnded"])
    sessions.annotate("kept", NO_WARNING)
    sessions.until("kept", ["TerminationWarning", "TerminationWarningWithdrawn"])


def test_too_many_requests_are_sent_again_when_the_server_says(
    sessions: Sessions, faults: Faults, mirror: MirrorProcess
) -> None:
    refused: list[float] = []

    def refuse(request: web.Request) -> web.Response | None:
        if writes_event(request) and len(refused) < 2:
            refused.append(time.monotonic())
            return status(429, "TooManyRequests", "later", retry_after=2)
        return None

    faults.refuse = refuse
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    assert time.monotonic() - refused[0] >= 4
    assert refused[1] - refused[0] >= 2
    assert mirror.metric("forewarn_mirror_event_refusals_total") == 2


def test_a_refusal_in_one_namespace_stops_nobody_else(
    api_server: ApiServer, session_namespace: str, sessions: Sessions, tmp_path: Path
) -> None:
    strict, free = sessions, Sessions(api_server, session_namespace)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": f"mirror-{strict.namespace}"}, "rules": RULES}
    strict.ok("POST", f"{rbac}/clusterroles", role)
    subjects = [{"kind": "ServiceAccount", "name": "mirror", "namespace": strict.namespace}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"mirror-{strict.namespace}"}
    binding = {"metadata": {"name": "mirror"}, "roleRef": reference, "subjects": subjects}
    for each in (strict, free):
        each.ok("POST", f"{rbac}/namespaces/{each.namespace}/rolebindings", binding)
    kubeconfig = api_server.kubeconfig_of_account(strict.namespace, "mirror")
    flags = ("-n", strict.namespace, "-n", free.namespace)
    with MirrorProcess(kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.ready()
        rules = [RULES[0], RULES[1] | {"verbs": ["get", "list"]}]
        lesser = {"metadata": {"name": f"reader-{strict.namespace}"}, "rules": rules}
        strict.ok("POST", f"{rbac}/clusterroles", lesser)
        path = f"{rbac}/namespaces/{strict.namespace}/rolebindings"
        reader = {
            **binding,
            "metadata": {"name": "reader"},
            "roleRef": reference | {"name": f"reader-{strict.namespace}"},
        }
        strict.ok("POST", path, reader)
        strict.ok("DELETE", f"{path}/mirror")
        strict.create(pod_body("train", warning(900)))
        mirror.until(lambda: mirror.metric("forewarn_mirror_event_refusals_total"), "the refusal")
        assert f'namespace="{strict.namespace}"' in mirror.get("/metrics")[1]
        # What happens meanwhile is owed in order.
        strict.annotate("train", NO_WARNING)
        free.create(pod_body("train", warning(900)))
        free.until("train", ["TerminationWarning"], 5)
        assert mirror.get("/readyz")[0] == 200
        assert strict.events("train") == []
        strict.ok("POST", path, binding)
        strict.until("train", ["TerminationWarning", "TerminationWarningWithdrawn"], 60)


def test_a_namespace_that_is_being_deleted_is_dropped_quietly(
    api_server: ApiServer, session_namespace: str, sessions: Sessions, tmp_path: Path
) -> None:
    ending, free = sessions, Sessions(api_server, session_namespace)
    ending.create(pod_body("train"))
    flags = ("-n", ending.namespace, "-n", free.namespace)
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.ready()
        ending.ok("DELETE", f"/api/v1/namespaces/{ending.namespace}")
        ending.annotate("train", warning(900))
        mirror.until(lambda: "TerminationWarning" in mirror.output(), "it is decided")
        free.create(pod_body("train", warning(900)))
        free.until("train", ["TerminationWarning"], 5)
        mirror.until(lambda: mirror.metric("forewarn_mirror_events_owed") == 0, "nothing is owed")
        assert "level=warning" not in mirror.output()
        assert "level=error" not in mirror.output()


def test_a_mirror_that_cannot_write_at_all_is_unready_and_recovers(
    sessions: Sessions, faults: Faults, mirror: MirrorProcess
) -> None:
    faults.refuse = lambda request: status(500, "InternalError") if writes_event(request) else None
    sessions.create(pod_body("train", warning(900)))
    mirror.until(lambda: mirror.get("/readyz")[0] == 503, "unready", 30)
    assert mirror.get("/readyz")[1] == "no Event can be written\n"
    assert mirror.get("/healthz")[0] == 200
    faults.refuse = None
    sessions.until("train", ["TerminationWarning"])
    mirror.until(lambda: mirror.get("/readyz")[0] == 200, "ready again")


@pytest.mark.parametrize("answer", ["an error", "a page for people"])
def test_a_mirror_that_cannot_read_what_it_told_is_unready_and_recovers(
    answer: str, sessions: Sessions, faults: Faults, namespace: str, tmp_path: Path
) -> None:
    def refuse(request: web.Request) -> web.Response | None:
        if request.method != "GET" or not request.path.endswith("/events"):
            return None
        return status(500, "InternalError") if answer == "an error" else web.Response(text="<html>Sign in</html>")

    faults.refuse = refuse
    sessions.create(pod_body("train", warning(900)))
    flags = ("-n", namespace, f"--lease={namespace}/mirror")
    with MirrorProcess(faults.kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        mirror.until(lambda: "the lease is ours" in mirror.output(), "the lease")
        assert mirror.get("/readyz") == (503, "the stored Events are being read\n")
        faults.refuse = None
        sessions.until("train", ["TerminationWarning"])
        mirror.ready()


@pytest.mark.parametrize("answer", ["an error", "a page for people"])
def test_an_event_whose_answer_is_no_use_is_told_once(
    answer: str, sessions: Sessions, faults: Faults, mirror: MirrorProcess
) -> None:
    refused: list[web.Request] = []

    def refuse(request: web.Request) -> web.Response | None:
        if not writes_event(request) or len(refused) == 3:
            return None
        refused.append(request)
        return status(500, "InternalError") if answer == "an error" else web.Response(text="<html>Sign in</html>")

    faults.refuse = refuse
    sessions.create(pod_body("train", warning(900)))
    sessions.until("train", ["TerminationWarning"])
    assert len(refused) == 3


def test_an_api_server_below_a_path_of_another_is_followed(
    api_server: ApiServer, sessions: Sessions, namespace: str, tmp_path: Path
) -> None:
    sessions.create(pod_body("train", warning(900)))
    with (
        Faults(api_server, tmp_path, base="/k8s/clusters/c1") as proxy,
        MirrorProcess(proxy.kubeconfig, tmp_path / "mirror.log", "-n", namespace) as mirror,
    ):
        mirror.ready()
        sessions.until("train", ["TerminationWarning"])


@pytest.mark.parametrize("minutes", [-5, 5])
def test_a_clock_that_is_off_makes_nothing_false(
    minutes: int, sessions: Sessions, faults: Faults, namespace: str, tmp_path: Path
) -> None:
    faults.ahead = timedelta(minutes=minutes)
    skew = minutes * 60
    sessions.create(pod_body("train", warning(skew + 120)))
    flags = ("-n", namespace, "--stale-after=3")
    with MirrorProcess(faults.kubeconfig, tmp_path / "mirror.log", *flags) as mirror:
        events = sessions.until("train", ["TerminationWarning"])
        assert "(in 2 min)" in events[0]["note"]
        mirror.ready()
        assert mirror.metric("forewarn_mirror_clock_offset_seconds") == pytest.approx(-skew, abs=2)
        until_at = at(skew + 3)
        sessions.create(pod_body("soon", warning(skew + 3) | {KEYS.key(contract.WARNING_AT): until_at}))
        stale = sessions.until("soon", ["TerminationWarning", "TerminationWarningStale"])[1]
        since = datetime.fromisoformat(stale["eventTime"]) - datetime.fromisoformat(until_at)
        assert timedelta(seconds=3) <= since < timedelta(seconds=5)
        assert sessions.reasons("train") == ["TerminationWarning"]


@pytest.mark.timeout(300)
def test_an_api_server_that_is_away_for_30_seconds_costs_nothing(tmp_path: Path) -> None:
    with ApiServer.start(tmp_path / "server") as server:
        sessions = Sessions(server, server.create_namespace("team"))
        for name in ("kept", "withdrawn", "gone"):
            sessions.create(pod_body(name, warning(900)))
        with MirrorProcess(server.kubeconfig, tmp_path / "mirror.log", "-n", "team") as mirror:
            for name in ("kept", "withdrawn", "gone"):
                sessions.until(name, ["TerminationWarning"])
            server.stop()
            time.sleep(30)
            assert mirror.get("/healthz")[0] == 200
            server.start_again()
            sessions.annotate("withdrawn", NO_WARNING)
            sessions.delete("gone", 0)
            sessions.until("withdrawn", ["TerminationWarning", "TerminationWarningWithdrawn"])
            # The watch is taken up where it stopped, so that the delete itself is seen.
            sessions.until("gone", ["TerminationWarning", "SessionStopping"])
            assert sessions.reasons("kept") == ["TerminationWarning"]
            mirror.ready()
