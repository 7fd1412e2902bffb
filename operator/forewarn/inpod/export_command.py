"""``forewarn export DIR``: writes forewarn.pyz (one file to import or run) and forewarn.sh into a directory."""

from __future__ import annotations

import io
import os
import pkgutil
import zipfile
from importlib import import_module

from forewarn.arguments import Parser
from forewarn.errors import UserError
from forewarn.inpod.shell_command import SCRIPT, script

ARCHIVE = "forewarn.pyz"
PACKAGE = "forewarn.inpod"
SHARED = ("arguments", "cli", "contract", "errors", "session", "wording")
"""The modules of forewarn, beside its in-pod part, that this part uses."""

MAIN = f"""\
import sys

if sys.version_info < (3, 9):
    # Python's own exit code for what it cannot read is 1, which the command "warned" gives for "not warned".
    sys.stderr.write("error: forewarn: this is Python %d.%d; needed: 3.9 or newer\\n" % sys.version_info[:2])
    sys.exit(2)

from forewarn import cli

# The commands of the operator are not in this file, and not offered.
cli.COMMANDS = tuple(command for command in cli.COMMANDS if command.module.startswith("{PACKAGE}."))
sys.exit(cli.main())
"""

EPILOG = f"""\
In Python:  PYTHONPATH=DIR/{ARCHIVE} python train.py, with "from forewarn.inpod import PodInfo" in it
As command: python3 DIR/{ARCHIVE} warned
In bash:    source DIR/{SCRIPT}
"""


def archive() -> bytes:
    """Return the zip, the same bytes for the same sources, so that exporting again changes nothing."""
    modules = ["forewarn", *(f"forewarn.{name}" for name in SHARED), PACKAGE]
    modules += sorted(f"{PACKAGE}.{found.name}" for found in pkgutil.iter_modules(import_module(PACKAGE).__path__))
    files = {"__main__.py": MAIN.encode(), f"forewarn/inpod/{SCRIPT}": script().encode()}
    for module in modules:
        is_package = module in ("forewarn", PACKAGE)
        package, name = (module, "__init__") if is_package else tuple(module.rsplit(".", 1))
        data = pkgutil.get_data(package, f"{name}.py")
        if data is None:
            raise FileNotFoundError(module)
        files[f"{package.replace('.', '/')}/{name}.py"] = data
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in sorted(files.items()):
            zipped.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return b"#!/usr/bin/env python3\n" + target.getvalue()


def write(directory: str) -> list[tuple[str, bool]]:
    """Write both files; returns each path with whether it changed. Raises ``OSError``.

    Each appears by a rename, and only where it differs: pods that share the home may have it open.
    """
    os.makedirs(directory, exist_ok=True)
    return [
        (path, _put(path, data, mode))
        for path, data, mode in (
            (os.path.join(directory, ARCHIVE), archive(), 0o755),
            (os.path.join(directory, SCRIPT), script().encode(), 0o644),
        )
    ]


def _put(path: str, data: bytes, mode: int) -> bool:
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return False
    except FileNotFoundError:
        pass
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    return True


def main(argv: list[str]) -> int:
    """Write the two files and say where."""
    parser = Parser("forewarn export", "Writes the in-pod library into a directory, such as your home.", EPILOG)
    parser.add_argument("directory", metavar="DIR", help="where to; made if it is missing")
    directory = parser.parse_args(argv).directory
    try:
        for path, changed in write(directory):
            print(f"{'wrote' if changed else 'unchanged:'} {path}")
    except OSError as error:
        where = error.filename if isinstance(error, IsADirectoryError) else directory or "''"
        raise UserError(where, error.strerror or str(error), "allowed: a directory that you can write") from None
    return 0
