"""Where the real programs are (kube-apiserver, etcd, kubectl, kind, helm) and what to do when one is missing."""

from __future__ import annotations

import os
from pathlib import Path

from forewarn.errors import UserError


def cache() -> Path:
    """Return the folder that all checkouts share for what is slow to build (``FOREWARN_CACHE``)."""
    named = os.environ.get("FOREWARN_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else home / "forewarn"


def program(name: str) -> str:
    """Return the path of a program that ``make tools`` builds; ``UserError`` where it is not there."""
    path = cache() / "bin" / name
    if not os.access(path, os.X_OK):
        raise UserError(str(path), "this program is missing", "make tools builds it")
    return str(path)
