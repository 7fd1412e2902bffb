"""Sessions in a namespace of the test's own, and a mirror that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mirror.support import MirrorProcess, Sessions
from tests.support.apiserver import ApiServer


@pytest.fixture
def sessions(api_server: ApiServer, namespace: str) -> Sessions:
    return Sessions(api_server, namespace)


@pytest.fixture
def mirror(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[MirrorProcess]:
    with MirrorProcess(api_server.kubeconfig, tmp_path / "mirror.log", "-n", namespace) as process:
        yield process.ready()
