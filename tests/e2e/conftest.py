"""The cluster, the operator on it, session namespaces, and what is kept when a test fails."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.kind import deploy
from tests.kind.cluster import IMAGE_VARIABLE
from tests.kind.places import BUILD, LOGS, digest, locked
from tests.kind.progress import Steps
from tests.support.cluster import SESSIONS, Cluster, collect


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster that ``make e2e`` prepared."""
    found = Cluster.load()
    if found is None:
        pytest.fail("there is no cluster; make e2e makes one", pytrace=False)
    return found


@pytest.fixture(scope="session")
def operator(cluster: Cluster, testrun_uid: str) -> Cluster:
    """The cluster with the operator deployed from this checkout's image and chart, once for all workers of a run."""
    if not cluster.image:
        pytest.skip(f"{IMAGE_VARIABLE} names no image of the operator for this foreign cluster")
    done = BUILD / "deployed"
    with locked(f"deploy-{digest(str(BUILD))}", "the deployment"):
        if not done.exists() or done.read_text() != testrun_uid:
            steps = Steps(LOGS / "deploy.log")
            steps.plan(deploy.STEPS)
            deploy.install(steps, cluster)
            done.write_text(testrun_uid)
    return cluster


@pytest.fixture
def session_namespace(operator: Cluster) -> Iterator[str]:
    """A fresh session namespace."""
    with operator.namespace(SESSIONS) as name:
        yield name


@pytest.fixture
def plain_namespace(operator: Cluster) -> Iterator[str]:
    """A fresh namespace that is no session namespace."""
    with operator.namespace() as name:
        yield name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what the cluster shows while it is still there, and print where."""
    report = yield
    found = Cluster.load() if report.failed and "cluster" in getattr(item, "fixturenames", ()) else None
    if found is not None and Path(found.kubeconfig).exists():
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", item.name).strip("-")[:100]
        report.sections.append(("kept of the cluster", str(collect(found, f"{name}.{report.when}"))))
    return report
