"""What is exported works alone: on each Python, without anything installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from forewarn import __version__
from forewarn.inpod import export_command
from tests.integration.inpod.pythons import PYTHONS, interpreter
from tests.integration.inpod.support import ROOT


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("home") / "new"
    assert export_command.main([str(directory)]) == 0
    return directory


EVERYTHING = """
import datetime, os, sys, tempfile, threading
archive = sys.argv[1]
sys.path.insert(0, archive)
import forewarn, forewarn.inpod as f, pkgutil, importlib
assert forewarn.__file__.startswith(archive), forewarn.__file__
for found in pkgutil.iter_modules(f.__path__):
    importlib.import_module("forewarn.inpod." + found.name)
from forewarn.inpod.volume import Volume
home = tempfile.mkdtemp()
volume = Volume(home + "/podinfo")
volume.write_podinfo({})
seen = threading.Event()
with f.watch(f.PodInfo(volume.path), warned=lambda facts: seen.set(), poll_seconds=0.05):
    volume.write_podinfo({"termination-warning-at": "2020-01-01T00:00:00Z", "termination-warning-risk": "0.50"})
    assert seen.wait(20)
facts = f.PodInfo(volume.path).read()
assert facts.warned and facts.band.value == "likely", facts
with f.Loop(f.CheckpointStore(home + "/c", config={"a": 1}), podinfo=f.PodInfo(volume.path), background=True) as loop:
    assert loop.resume() is None
    assert loop.step(1, lambda: {"step": 1, "t": (1, 2), "b": b"x"})
    assert loop.exit_code == 75
restored = f.CheckpointStore(home + "/c", config={"a": 1}).restore()
assert restored.state == {"step": 1, "t": (1, 2), "b": b"x"}, restored
now = datetime.datetime.now(datetime.timezone.utc)
f.InterruptionLog(home + "/log").write(now, step=1, checkpoint=None, warned=True)
assert f.agree(True) and not f.agree(False)
print("fine", sys.version_info[:2])
"""


@pytest.mark.parametrize("version", PYTHONS)
def test_everything_works_from_the_one_file_on_each_python(exported, version):
    command = [interpreter(version), "-I", "-W", "error", "-c", EVERYTHING, str(exported / "forewarn.pyz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fine")


@pytest.mark.parametrize("version", PYTHONS)
def test_the_file_is_a_command_on_each_python(exported, version):
    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [interpreter(version), "-I", str(exported / "forewarn.pyz"), *arguments]
        return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)

    (exported / "podinfo").mkdir(exist_ok=True)
    (exported / "podinfo" / "termination-warning-at").write_text("2020-01-01T00:00:00Z")
    assert run("warned").returncode == 1
    assert run("warned", PODINFO=str(exported / "podinfo")).returncode == 0
    assert run("--version").stdout == f"forewarn {__version__}\n"
    assert run("shell").stdout == (exported / "forewarn.sh").read_text()
    missing = run("run", "mirror")
    assert missing.returncode == 2
    assert re.fullmatch(r"error: forewarn: no command 'run'; one of: warned, shell, export, rehearse\n", missing.stderr)


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_a_python_that_is_too_old_is_an_error_and_not_the_answer_no(exported, version):
    command = [interpreter(version), str(exported / "forewarn.pyz"), "warned"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: forewarn: this is Python {version}; needed: 3.9 or newer\n")


def test_the_archive_can_export_itself(exported, tmp_path):
    command = [sys.executable, "-I", str(exported / "forewarn.pyz"), "export", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("forewarn.pyz", "forewarn.sh"):
        assert (tmp_path / name).read_bytes() == (exported / name).read_bytes()


def test_exporting_again_changes_nothing(exported, capsys):
    before = {path.name: path.stat().st_ino for path in exported.iterdir()}
    export_command.main([str(exported)])
    assert capsys.readouterr().out.count("unchanged") == 2
    assert {path.name: path.stat().st_ino for path in exported.iterdir()} == before


def test_the_shell_part_works_from_there(exported):
    code = f"source {exported}/forewarn.sh; warned || echo not"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("not\n", "")


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "forewarn.cli", "export", str(tmp_path / "file" / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_wheel_needs_no_dependency_for_this_part(tmp_path):
    """The wheel as it is built, every module of the in-pod part imported with the standard library alone."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
        metadata = archive.read(f"forewarn-{__version__}.dist-info/METADATA").decode()
    assert [
        line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line
    ] == []
    code = (
        "import sys, pkgutil, importlib, forewarn.inpod as f\n"
        "for m in pkgutil.iter_modules(f.__path__): importlib.import_module('forewarn.inpod.' + m.name)\n"
        "from forewarn.inpod import shell_command; shell_command.main([])\n"
        "print(f.__file__, *{n.partition('.')[0] for n in sys.modules} - set(sys.stdlib_module_names) - {'__main__'})"
    )
    environ = {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    where, *loaded = done.stdout.splitlines()[-1].split()
    assert where.startswith(environ["PYTHONPATH"])
    assert loaded == ["forewarn"]
    assert "stop_between_units()" in done.stdout
