"""A long-lived helper that reads manifests with kubectl's YAML reader and expands arguments with the kubelet's code."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kind.versions import KUBERNETES
from tests.support.programs import cache

SOURCE = Path(__file__).parent / "arguments/main.go"


def _build() -> Path:
    """Compile the helper into the cache, once for each version of it and of Kubernetes (about half a minute)."""
    digest = hashlib.sha256(SOURCE.read_bytes() + KUBERNETES.encode()).hexdigest()[:12]
    directory = cache() / "work" / f"manifests-arguments-{digest}"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / "arguments"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        print(f"compiling {SOURCE.name} against Kubernetes {KUBERNETES}", flush=True)
        environ = {**os.environ, "CGO_ENABLED": "0"}

        def go(*words: str) -> str:
            done = subprocess.run(
                ["go", *words], cwd=directory, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"go {' '.join(words)}: {done.stdout}{done.stderr}"
            return done.stdout

        text = Path(json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"))["GoMod"]).read_text()
        staging = re.findall(r"^\s*(\S+) => \./staging/", text, re.MULTILINE)
        own = "v0." + KUBERNETES.removeprefix("v1.")
        lines = ["module arguments", "go 1.24.0", f"require k8s.io/kubernetes {KUBERNETES}"]
        lines += [f"replace {name} => {name} {own}" for name in staging]
        (directory / "go.mod").write_text("\n".join(lines) + "\n")
        (directory / "main.go").write_bytes(SOURCE.read_bytes())
        go("mod", "tidy")
        go("build", "-trimpath", "-o", "new", ".")
        (directory / "new").rename(target)
    return target


@pytest.fixture(scope="session")
def arrives() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Return what a container is given by a manifest: ``command``, ``args``, ``env``, or ``error``."""
    helper = subprocess.Popen([_build()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert helper.stdin is not None
    assert helper.stdout is not None

    def ask(text: str) -> dict[str, Any]:
        assert helper.stdin is not None
        assert helper.stdout is not None
        helper.stdin.write(json.dumps(text) + "\n")
        helper.stdin.flush()
        answer: dict[str, Any] = json.loads(helper.stdout.readline())
        return answer

    yield ask
    helper.stdin.close()
    assert helper.wait(timeout=10) == 0
