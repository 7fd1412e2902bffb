"""forewarn.sh says what Python says, for whatever the files hold."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forewarn import contract
from forewarn.contract import UTC
from forewarn.inpod import shell_command
from forewarn.inpod.reader import PodInfo

SCRIPT = Path(shell_command.__file__).with_name("forewarn.sh")
BASH = shutil.which("bash") or "bash"


def bash(script: str, podinfo: Path | None, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], **environ, **({"PODINFO": str(podinfo)} if podinfo else {})}
    text = f"set -euo pipefail; source {SCRIPT}; {script}"
    return subprocess.run([BASH, "-c", text], env=env, capture_output=True, text=True, timeout=60, check=False)


def test_names_are_the_contracts():
    text = SCRIPT.read_text()
    names = dict(re.findall(r"^__forewarn_(\w+)=(\S+)$", text, re.MULTILINE))
    assert names == {
        "mount": contract.MOUNT_PATH,
        "prefix": contract.DEFAULT_PREFIX,
        "at": contract.WARNING_AT,
        "risk": contract.WARNING_RISK,
        "message": contract.WARNING_MESSAGE,
        "map": contract.WHOLE_MAP_FILE,
        "stopped": str(contract.EXIT_STOPPED),
    }
    assert f"${{{contract.PODINFO_VARIABLE}:-" in text
    assert f"${{{contract.PREFIX_VARIABLE}:-" in text


def test_shell_prints_the_file():
    printed = subprocess.run(
        [sys.executable, "-m", "forewarn.cli", "shell"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == SCRIPT.read_text()


def test_is_clean_for_shellcheck():
    shellcheck = Path(sys.executable).with_name("shellcheck")
    if not shellcheck.exists():
        pytest.skip("shellcheck is not in this environment")
    checked = subprocess.run([shellcheck, SCRIPT], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


INSTANTS = [
    "2026-11-29T19:30:00Z",
    "2026-11-29 19:30:00 UTC",
    "2026-11-29T19:30",
    "20261129T193000Z",
    "2026-11-29T19:30:00.123456789+05:30",
    "2026-11-29T08:09:08-0800",
    "2026-11-29T08:09:08-09",
    "2024-02-29T00:00:00Z",
    "2000-02-29T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "1969-12-31T23:59:59Z",
    " \t2026-11-29T19:30:00Z\r\n",
    # What is none.
    "",
    "\n",
    "soon",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-11-31T00:00:00Z",
    "2026-11-29T24:00:00Z",
    "2026-11-29T19:60:00Z",
    "2026-11-29T19:30:60Z",
    "2026-11-29T19:30:00+24:00",
    "2026-11-29T19:30:00+05:60",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "2026-11-29T19:30:00ZZ",
    "2026-11-29",
    "1764444600",
    "2026-11-29T19:30:00Z\x00",
    "\x1c2026-11-29T19:30:00Z",
    "\u00a02026-11-29T19:30:00Z",
    "٢٠٢٦-11-29T19:30:00Z",
    '"2026-11-29T19:30:00Z"',
    "-2026-11-29T19:30:00Z",
]


@pytest.mark.parametrize("whole_map", [False, True], ids=["file", "map"])
def test_warned_and_seconds_left_agree_with_python(tmp_path, whole_map):
    script = []
    for number, text in enumerate(INSTANTS):
        directory = tmp_path / str(number)
        directory.mkdir()
        if whole_map:
            quoted = "".join(go_quoted(character) for character in text)
            lines = f'a="x"\n{contract.DEFAULT_PREFIX}{contract.WARNING_AT}="{quoted}"\nz="=\\""\n'
            (directory / contract.WHOLE_MAP_FILE).write_bytes(lines.encode())
        else:
            (directory / contract.WARNING_AT).write_bytes(text.encode())
        script.append(
            f"export PODINFO={directory}; if warned; then echo $(($(seconds_left) + $EPOCHSECONDS)); else echo no; fi"
        )
    answers = bash("\n".join(script), None).stdout.split()
    assert len(answers) == len(INSTANTS)
    for number, (text, answer) in enumerate(zip(INSTANTS, answers)):
        warning = PodInfo(tmp_path / str(number)).read().warning_at
        assert warning == contract.parse_instant(text)
        if warning is None:
            assert answer == "no", text
        else:
            assert abs(int(answer) - int(warning.timestamp() // 1)) <= 1, text


def go_quoted(character: str) -> str:
    simple = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\v": "\\v", "\f": "\\f", '"': '\\"', "\\": "\\\\"}
    if character in simple:
        return simple[character]
    if ord(character) < 32 or character == "\x7f":
        return f"\\x{ord(character):02x}"
    return f"\\u{ord(character):04x}" if character == "\u00a0" else character


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("0.08", "8"),
        ("0.09", "9"),
        ("0.33", "33"),
        ("1.00", "100"),
        ("1", "100"),
        ("001.0", "100"),
        (".5", "50"),
        ("0.295", "30"),
        ("0.001", "1"),
        ("0.10\n", "10"),
        ("0", None),
        ("0.00", None),
        ("1.01", None),
        ("2", None),
        ("-0.5", None),
        ("0,5", None),
        ("5e-1", None),
        ("0.", None),
        ("", None),
        ("nan", None),
    ],
)
def test_risk_pct(tmp_path, text, percent):
    (tmp_path / contract.WARNING_RISK).write_text(text)
    done = bash("risk_pct || echo none", tmp_path)
    assert done.stdout.strip() == (percent or "none")
    assert done.stderr == ""
    assert (contract.parse_risk(text) is None) == (percent is None)


def test_nothing_is_there(tmp_path):
    done = bash("warned || risk_pct || seconds_left || stop_between_units && echo went on", tmp_path / "missing")
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_stop_between_units_stops_with_the_message(tmp_path):
    at = contract.format_instant(datetime.now(UTC) + timedelta(minutes=10))
    (tmp_path / contract.WARNING_AT).write_text(at)
    (tmp_path / contract.WARNING_MESSAGE).write_text("Stops \x1b[31mat five\x07.")
    done = bash("for unit in a b; do stop_between_units $unit; echo did $unit; done; echo end", tmp_path)
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr == "Stops  [31mat five .\nstopped before a; run again to go on from there\n"


@pytest.mark.parametrize("log", ["2>/dev/full", "2>&-"])
def test_a_log_that_cannot_be_written_does_not_change_the_code(tmp_path, log):
    (tmp_path / contract.WARNING_AT).write_text("2026-11-29T19:30:00Z")
    done = bash(f"set -euo pipefail; exec {log}; stop_between_units a; echo went on", tmp_path)
    assert (done.returncode, done.stdout) == (75, "")


def test_stop_between_units_goes_on_after_a_withdrawal(tmp_path):
    at = tmp_path / contract.WARNING_AT
    at.write_text("2026-11-29T19:30:00Z")
    done = bash(f"warned && : >{at}; stop_between_units; echo went on", tmp_path)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_another_prefix_in_the_whole_map(tmp_path):
    (tmp_path / contract.WHOLE_MAP_FILE).write_text('horae/termination-warning-at="2026-11-29T19:30:00Z"')
    assert bash("warned", tmp_path).returncode == 1
    assert bash("warned", tmp_path, FOREWARN_ANNOTATION_PREFIX="horae").returncode == 0
    assert PodInfo(tmp_path, "horae").read().warned
    assert not PodInfo(tmp_path).read().warned


@pytest.mark.parametrize(("at", "code"), [("2026-11-29T19:30:00Z", 0), ("", 1), ("soon", 1), (None, 1)])
def test_the_command_agrees(tmp_path, at, code):
    if at is not None:
        (tmp_path / contract.WARNING_AT).write_text(at)
    command = [sys.executable, "-m", "forewarn.cli", "warned"]
    env = {**os.environ, "PODINFO": str(tmp_path)}
    assert subprocess.run(command, env=env, check=False).returncode == code
    assert bash("warned", tmp_path).returncode == code


def test_the_command_says_what_is_allowed(tmp_path):
    command = [sys.executable, "-m", "forewarn.cli", "warned", "now"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_file_that_cannot_be_read_gives_way_to_the_map(tmp_path):
    # A directory is what even root cannot read as a file.
    (tmp_path / contract.WARNING_AT).mkdir()
    (tmp_path / contract.WHOLE_MAP_FILE).write_text(
        f'{contract.DEFAULT_PREFIX}{contract.WARNING_AT}="2026-11-29T19:30:00Z"\n'
    )
    assert PodInfo(tmp_path).read().warned
    done = subprocess.run(
        ["bash", "-c", f'set -euo pipefail; source "{SCRIPT}"; warned'], env={**os.environ, "PODINFO": str(tmp_path)}
    )
    assert done.returncode == 0


def test_the_message_of_the_map_is_printed_as_it_was_written(tmp_path):
    message = 'Say "now" or \\"later\\" at C:\\n & 100 %s $HOME'
    at = f'{contract.DEFAULT_PREFIX}{contract.WARNING_AT}="2026-11-29T19:30:00Z"\n'
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    (tmp_path / contract.WHOLE_MAP_FILE).write_text(
        f'{at}{contract.DEFAULT_PREFIX}{contract.WARNING_MESSAGE}="{quoted}"\n'
    )
    assert PodInfo(tmp_path).read().warning_message == message
    done = subprocess.run(
        ["bash", "-c", f'source "{SCRIPT}"; stop_between_units'],
        env={**os.environ, "PODINFO": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (75, message)


LOCALS = sorted(set(re.findall(r"__forewarn_(\w+)", SCRIPT.read_text())))
READONLY = [*LOCALS, "date", "time", "prefix", "directory", "now", "line", "key", "value", "month", "LC_ALL", "REPLY"]


@pytest.mark.parametrize("name", READONLY)
@pytest.mark.parametrize("whole_map", [False, True], ids=["file", "map"])
def test_a_readonly_variable_of_the_script_is_not_in_the_way(tmp_path, name, whole_map):
    values = {contract.WARNING_AT: "2026-11-29T19:30:00-00:30", contract.WARNING_RISK: "0.5"}
    if whole_map:
        lines = [f'{contract.DEFAULT_PREFIX}{key}="{value}"' for key, value in values.items()]
        (tmp_path / contract.WHOLE_MAP_FILE).write_text("\n".join(lines))
    else:
        for key, value in values.items():
            (tmp_path / key).write_text(value)
    script = f"readonly {name}=C; warned; risk_pct; echo $(($(seconds_left) + $EPOCHSECONDS)); stop_between_units"
    done = bash(script, tmp_path)
    at = contract.parse_instant(values[contract.WARNING_AT])
    assert at is not None
    assert done.stdout.split()[:1] == ["50"]
    assert abs(int(done.stdout.split()[1]) - at.timestamp()) <= 1
    assert done.returncode == 75
    assert "readonly" not in done.stderr


def test_every_local_has_the_prefix():
    for declared in re.findall(r"^\s*local (.*)$", SCRIPT.read_text(), re.MULTILINE):
        assert re.match(r"__forewarn_\w+($|=)|(__forewarn_\w+ ?)+$", declared), declared


@pytest.mark.parametrize(
    ("script", "noted"),
    [
        ("seq 3 | while read -r u; do stop_between_units $u; done", True),
        ("answer=$(stop_between_units 1)", True),
        ("(stop_between_units 1)", True),
        ("while read -r u; do stop_between_units $u; done < <(seq 3)", False),
        ("set -e -o pipefail; seq 3 | while read -r u; do stop_between_units $u; done", False),
        ("shopt -s lastpipe; seq 3 | while read -r u; do stop_between_units $u; done", False),
    ],
)
def test_a_stop_that_ends_a_subshell_only_says_so(tmp_path, script, noted):
    (tmp_path / contract.WARNING_AT).write_text("2026-11-29T19:30:00Z")
    done = bash(f"set +e +o pipefail; {script}; echo all done", tmp_path)
    assert ("ends a subshell only" in done.stderr) == noted
    assert "stopped before 1" in done.stderr
    # The note is there exactly where the script went on.
    assert (done.returncode, done.stdout) == ((0, "all done\n") if noted else (75, ""))
