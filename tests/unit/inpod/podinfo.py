"""A podinfo directory that swaps as the kubelet's does: new data directory, new link, rename, old one removed."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path


class Volume:
    """The files under ``path``; each ``write`` replaces the whole content at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = itertools.count()
        path.mkdir(parents=True, exist_ok=True)

    def write(self, files: dict[str, str | bytes]) -> None:
        data = tempfile.mkdtemp(prefix=f"..2026_11_29_12_00_00.{next(self._count)}", dir=self.path)
        for name, content in files.items():
            Path(data, name).write_bytes(content if isinstance(content, bytes) else content.encode())
        link = self.path / "..data"
        old = os.readlink(link) if link.is_symlink() else None
        os.symlink(os.path.basename(data), self.path / "..data_tmp")
        os.replace(self.path / "..data_tmp", link)
        for name in files:
            if not (self.path / name).is_symlink():
                os.symlink(f"..data/{name}", self.path / name)
        if old:
            shutil.rmtree(self.path / old)
