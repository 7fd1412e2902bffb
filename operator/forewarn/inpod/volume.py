"""A podinfo directory that swaps its files as the kubelet does, for rehearsals and tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.inpod.reader import DATA_LINK

if TYPE_CHECKING:
    from collections.abc import Mapping


class Volume:
    """The files of a downward-API volume; each ``write`` replaces all of them at once.

    As the kubelet's atomic writer: a new data directory, the link ``..data`` renamed onto the old one, a lasting link
    per file through it, and the old directory removed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        os.makedirs(self.path, exist_ok=True)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Replace the whole content; raises ``OSError``."""
        data = tempfile.mkdtemp(prefix="..forewarn.", dir=self.path)
        for name, content in files.items():
            with open(os.path.join(data, name), "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        link, temporary = os.path.join(self.path, DATA_LINK), os.path.join(self.path, DATA_LINK + "_tmp")
        old = os.readlink(link) if os.path.islink(link) else None
        os.symlink(os.path.basename(data), temporary)
        os.replace(temporary, link)
        for name in files:
            lasting = os.path.join(self.path, name)
            if not os.path.islink(lasting):
                os.symlink(f"{DATA_LINK}/{name}", lasting)
        if old is not None:
            shutil.rmtree(os.path.join(self.path, old))

    def write_podinfo(self, values: Mapping[str, str]) -> None:
        """Replace the content with the six files of a session; what ``values`` lacks is an empty file."""
        self.write({name: values.get(name, "") for name in contract.PODINFO_NAMES})
