"""Rendered Jobs under the real Job controller: requeueing by exit code, and several pods that find each other."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import manifest
from forewarn_manifests.request import Person
from tests.support.cluster import Cluster

FIND = (
    "import os, socket, time\n"
    "end = time.monotonic() + 60\n"
    "while True:\n"
    "    try:\n"
    "        address = socket.getaddrinfo(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))[0][4][0]\n"
    "        break\n"
    "    except OSError:\n"
    "        assert time.monotonic() < end\n"
    "        time.sleep(0.2)\n"
    "print(os.environ['JOB_COMPLETION_INDEX'], os.environ['WORLD_SIZE'], bool(address))\n"
)


@pytest.fixture
def image(cluster: Cluster) -> str:
    if not cluster.image:
        pytest.skip("FOREWARN_IMAGE names no image for a session")
    return cluster.image


def rendered(*argv: str) -> str:
    request = launch(flags.parse(argv), {}, profile.load("launch", "test"), Person("alice", 1000, 1000))
    return manifest(request)


def job(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    status: dict[str, Any] = cluster.get(namespace, "job", name)["status"]
    return status


def conditions(status: dict[str, Any]) -> set[str]:
    return {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}


@pytest.mark.parametrize("code", [75, 143])
def test_a_stopped_pod_is_made_again_uncounted(code: int, cluster: Cluster, image: str) -> None:
    text = rendered("-i", image, "-N", "again", "--requeue", "--backoff-limit", "0", "--", "sh", "-c", f"exit {code}")
    with cluster.namespace() as namespace:
        cluster.create(namespace, text)
        cluster.until(lambda: len(cluster.get(namespace, "pods")) >= 2, "a second pod")
        status = job(cluster, namespace, "again")
        assert not conditions(status), "with no failure allowed, a counted one would have failed the Job"
        assert status.get("failed", 0) == 0
        cluster.kubectl("delete", "job", "again", f"--namespace={namespace}", "--wait=false")


def test_a_kill_is_counted(cluster: Cluster, image: str) -> None:
    text = rendered("-i", image, "-N", "killed", "--requeue", "--backoff-limit", "0", "--", "sh", "-c", "exit 137")
    with cluster.namespace() as namespace:
        cluster.create(namespace, text)
        cluster.until(lambda: "Failed" in conditions(job(cluster, namespace, "killed")), "the Job to fail")
        (failed,) = [one for one in job(cluster, namespace, "killed")["conditions"] if one["type"] == "Failed"]
        assert failed["reason"] == "BackoffLimitExceeded"


def test_any_other_code_fails_the_job_at_once(cluster: Cluster, image: str) -> None:
    text = rendered("-i", image, "-N", "broken", "--requeue", "--", "sh", "-c", "exit 3")
    with cluster.namespace() as namespace:
        cluster.create(namespace, text)
        cluster.until(lambda: "Failed" in conditions(job(cluster, namespace, "broken")), "the Job to fail")
        (failed,) = [one for one in job(cluster, namespace, "broken")["conditions"] if one["type"] == "Failed"]
        assert failed["reason"] == "PodFailurePolicy"
        assert len(cluster.get(namespace, "pods")) == 1


def test_the_runtime_limit_ends_a_requeued_job(cluster: Cluster, image: str) -> None:
    stop = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(75)); time.sleep(600)"
    text = rendered("-i", image, "-N", "limited", "--requeue", "--timeout", "5", "--", "python3", "-c", stop)
    with cluster.namespace() as namespace:
        cluster.create(namespace, text)
        cluster.until(lambda: "Failed" in conditions(job(cluster, namespace, "limited")), "the Job to fail")
        (failed,) = [one for one in job(cluster, namespace, "limited")["conditions"] if one["type"] == "Failed"]
        assert failed["reason"] == "DeadlineExceeded"


def test_the_pods_of_an_indexed_job_find_the_first_by_name(cluster: Cluster, image: str) -> None:
    text = rendered("-i", image, "-N", "ranks", "--completions", "2", "--", "python3", "-c", FIND)
    with cluster.namespace() as namespace:
        cluster.create(namespace, text)
        cluster.until(lambda: "Complete" in conditions(job(cluster, namespace, "ranks")), "the Job to complete", 120)
        told = cluster.kubectl("logs", "--selector=batch.kubernetes.io/job-name=ranks", f"--namespace={namespace}")
        assert sorted(told.splitlines()) == ["0 2 True", "1 2 True"]
