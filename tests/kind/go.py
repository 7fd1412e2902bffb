"""Compiles programs from Go modules into the cache; what is there and of the right version is left alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from forewarn.errors import UserError
from tests.kind.ask import ask
from tests.kind.places import bin_directory, locked
from tests.kind.progress import Steps
from tests.kind.versions import GO, Program
from tests.support.programs import cache


def _stamp(program: Program) -> Path:
    return bin_directory() / ".stamps" / program.name


def missing(programs: Sequence[Program]) -> list[Program]:
    """Return those that are not in the cache, whole and of the right version."""

    def there(program: Program) -> bool:
        stamp = _stamp(program)
        return (
            os.access(bin_directory() / program.name, os.X_OK)
            and stamp.is_file()
            and stamp.read_text() == program.stamp
        )

    return [program for program in programs if not there(program)]


def check_go() -> None:
    """Raise ``UserError`` where Go is missing or too old."""
    wanted = f"Go {GO[0]}.{GO[1]} or newer is needed on the PATH"
    if shutil.which("go") is None:
        raise UserError("go", "this program is missing", wanted)
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    match = re.match(r"go(\d+)\.(\d+)", said)
    if match is None or (int(match[1]), int(match[2])) < GO:
        raise UserError("go", f"this is {said or 'a broken Go'}", wanted)


def work(module: str, version: str) -> Path:
    """Return the folder of the throw-away module that a program's module is compiled in."""
    return cache() / "work" / re.sub(r"[^a-z0-9.]+", "-", f"{module}-{version}")


def prepare_module(steps: Steps, module: str, version: str, packages: Sequence[str]) -> Path:
    """Make a throw-away Go module that requires ``module``, so that its packages can be compiled; return its folder."""
    directory = work(module, version)
    stamp, content = directory / "stamp", "\n".join([module, version, *packages])
    if stamp.is_file() and stamp.read_text() == content:
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    lines = ["module offline", "", "go 1.24.0", "", f"require {module} {version}"]
    if module == "k8s.io/kubernetes":
        lines += _staging(module, version)
    (directory / "go.mod").write_text("\n".join(lines) + "\n")
    (directory / "go.sum").unlink(missing_ok=True)
    imports = "\n".join(f'\t_ "{package}"' for package in packages)
    (directory / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports}\n)\n")
    steps.run(["go", "mod", "tidy"], directory=directory)
    stamp.write_text(content)
    return directory


def _staging(module: str, version: str) -> list[str]:
    """Return the replacements of Kubernetes' staging modules, which are published on their own as v0.x."""
    told = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise UserError(f"{module}@{version}", "cannot be downloaded", (told.stdout + told.stderr).strip()[-300:])
    text = Path(json.loads(told.stdout)["GoMod"]).read_text()
    own = "v0." + version.removeprefix("v1.")
    return [f"replace {name} => {name} {own}" for name in re.findall(r"^\s*(\S+) => \./staging/", text, re.MULTILINE)]


def build(steps: Steps, programs: Sequence[Program], siblings: Sequence[Program]) -> None:
    """Compile ``programs``, one step each; ``siblings`` are all programs, so that one module serves several."""
    if not programs:
        return
    check_go()
    steps.plan(len(programs))
    with locked("programs", "compiling"):
        bin_directory().mkdir(parents=True, exist_ok=True)
        for left in bin_directory().glob(".new-*"):
            left.unlink()
        for (module, version), group in groupby(programs, key=lambda program: (program.module, program.version)):
            for program in group:
                with steps.step(f"compiling {program.name} {version}"):
                    # Another checkout may have built it while this one waited for the lock.
                    if missing([program]):
                        packages = [other.package for other in siblings if other.module == module]
                        _compile(steps, prepare_module(steps, module, version, packages), program)


def _compile(steps: Steps, directory: Path, program: Program) -> None:
    target = bin_directory() / program.name
    new = target.with_name(f".new-{program.name}")
    flags = f"-s -w {program.linker_flags}".strip()
    steps.run(
        ["go", "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", new, program.package],
        directory=directory,
        env={"CGO_ENABLED": "0"},
    )
    stamp = _stamp(program)
    stamp.parent.mkdir(exist_ok=True)
    stamp.unlink(missing_ok=True)
    new.replace(target)
    stamp.write_text(program.stamp)


def module_directory(steps: Steps, program: Program, siblings: Sequence[Program]) -> Path:
    """Return where Go keeps the source of a program's module."""
    packages = [other.package for other in siblings if other.module == program.module]
    directory = prepare_module(steps, program.module, program.version, packages)
    argv = ["go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", program.module]
    return Path(ask(argv, where=f"go list {program.module}", directory=directory).strip())
