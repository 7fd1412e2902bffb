"""Where things are: this checkout, the cache that all checkouts share, and the locks on it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from forewarn.errors import UserError
from forewarn.wording import span
from tests.support.programs import cache

CHECKOUT = Path(__file__).resolve().parents[2]
BUILD = CHECKOUT / "build"
LOGS = BUILD / "logs"
KUBECONFIG = BUILD / "kubeconfig"
STATE = BUILD / "cluster.json"
CHART = CHECKOUT / "charts" / "forewarn"

RELEASE = NAMESPACE = "forewarn"
"""Of the operator on the cluster."""

CHECKOUT_ID = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
"""Tells this checkout's cluster and images from another's."""

CLUSTER_NAME = f"forewarn-{CHECKOUT_ID}"

MADE_HERE = {"forewarn-checkout": CHECKOUT_ID}
"""The label of what this checkout made on a cluster, so that it takes away nothing else."""
MADE_SELECTOR = f"forewarn-checkout={CHECKOUT_ID}"


def bin_directory() -> Path:
    """Return the folder of the programs."""
    return cache() / "bin"


def need_root(what: str) -> None:
    """Raise ``UserError`` unless this process runs as root."""
    if os.geteuid() != 0:
        raise UserError(what, "this needs root", "run it as root, or let FOREWARN_KUBECONFIG name a cluster")


def digest(*parts: str | bytes | Path) -> str:
    """Return a short digest of texts and of files' contents (a folder: every file in it, by name)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = sorted(path for path in part.rglob("*") if path.is_file()) if part.is_dir() else [part]
            for path in files:
                if "__pycache__" not in path.parts:
                    total.update(f"{path.relative_to(CHECKOUT)}\0{path.stat().st_mode & 0o111}\0".encode())
                    total.update(path.read_bytes() + b"\0")
        else:
            total.update((part.encode() if isinstance(part, str) else part) + b"\0")
    return total.hexdigest()[:12]


@contextlib.contextmanager
def locked(name: str, what: str) -> Iterator[None]:
    """Hold a lock of the cache; says so, again and again, while another checkout holds it.

    The kernel lets go of the lock with the process, so nothing is left behind by one that was killed.
    """
    path = cache() / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as handle:
        started = time.monotonic()
        said = -20.0
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - started
                if waited - said >= 20:
                    said = waited
                    handle.seek(0)
                    print(
                        f"{what}: {handle.read().strip() or 'another'} is at it; waiting … {span(waited)}", flush=True
                    )
                time.sleep(0.25)
        handle.truncate(0)
        handle.write(f"{CHECKOUT} (process {os.getpid()})")
        handle.flush()
        yield
