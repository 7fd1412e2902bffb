"""The one command: its table, its errors, its start."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn import cli
from forewarn.errors import UserError


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: " ".join(command.words))
def test_every_command_in_the_table_can_be_loaded(command: cli.Command) -> None:
    assert callable(cli.load(command))


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: " ".join(command.words))
def test_every_command_prints_its_help(command: cli.Command) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forewarn.cli", *command.words, "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " ".join(command.words) in done.stdout


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["launch"], "error: forewarn: no command 'launch'; one of: render, "),
        (["run"], "error: forewarn run: nothing is not a thing to run; one of: admission, mirror\n"),
        (["run", "away"], "error: forewarn run: 'away' is not a thing to run; one of: admission, mirror\n"),
    ],
)
def test_a_word_that_is_no_command_is_one_line(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["settings"], ["shell"]])
def test_an_output_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "forewarn.cli", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "error: standard input or output: No space left on device\n")


@pytest.mark.parametrize("words", [["--help"], ["settings"], ["policy"]])
def test_a_closed_output_is_one_line(words: list[str]) -> None:
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" >&-', "-", sys.executable, "-m", "forewarn.cli", *words],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "error: standard output: is closed\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"set -o pipefail; {sys.executable} -m forewarn.cli settings --json | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode in (0, 141), done.stderr) == (True, "")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    command = cli.Command(("render",), "jinja2", "", "manifests")
    with pytest.raises(UserError, match=r"'jinja2' is not installed; .*extra 'manifests'"):
        cli.load(command)


def test_a_missing_package_that_is_imported_late_is_said_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "forewarn_manifests.yaml_text", raising=False)
    assert cli.main(["render", "-d", "-B", "--", "true"]) == 2
    assert "the Python package 'yaml' is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [command.words for command in cli.COMMANDS if command.extra], ids=" ".join)
def test_a_python_that_is_too_old_for_a_command_is_said(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    assert cli.main([*words, "--help"]) == 2
    assert "needed: 3.11 or newer" in capsys.readouterr().err


def test_a_fault_of_our_own_is_not_hidden_as_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        cli.load(cli.Command(("render",), "forewarn.nowhere", "", "manifests"))


def test_help_imports_no_more_than_the_table() -> None:
    """The start costs at most 10 × a bare interpreter's; `make bench` measures it, this names the culprits."""
    code = "import sys; from forewarn import cli; cli.usage(); print(sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("argparse", "yaml", "jinja2", "kopf", "lightkube", "asyncio", "json"):
        assert f"'{heavy}'" not in loaded
    assert importlib.util.find_spec("kopf") is not None
