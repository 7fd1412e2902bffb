"""The API server that integration tests share, and namespaces of their own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from forewarn import contract
from tests.support.apiserver import ApiServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real etcd and kube-apiserver, one for all tests of a worker."""
    with ApiServer.start(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


def _fresh_name(request: pytest.FixtureRequest) -> str:
    word = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    return f"{word}-{next(_numbers)}"


@pytest.fixture
def namespace(api_server: ApiServer, request: pytest.FixtureRequest) -> str:
    """A fresh namespace with its default ServiceAccount (so that pods are admitted) and no labels."""
    return api_server.create_namespace(_fresh_name(request))


@pytest.fixture
def session_namespace(api_server: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh session namespace; it loses its label afterwards, so that a later test's mirror does not follow it."""
    labels = {contract.SESSIONS_LABEL: contract.SESSIONS_ENABLED}
    name = api_server.create_namespace(_fresh_name(request), labels)
    yield name
    if api_server.ready():
        body = {"metadata": {"labels": {contract.SESSIONS_LABEL: None}}}
        api_server.request("PATCH", f"/api/v1/namespaces/{name}", body, "application/merge-patch+json")
