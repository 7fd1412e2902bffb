"""launch.sh where no cluster is needed: programs that are not there, and a port's forward that breaks.

The forward needs a node; a stand-in for kubectl plays one that refuses the first connection. All else that a wrapper
does with a cluster is tested on a real one, in tests/integration/manifests and tests/e2e/test_wrappers.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = Path(__file__).parents[3] / "wrappers/launch.sh"
FOREWARN = Path(sys.executable).parent / "forewarn"
KUBECTL = """\
#!/bin/bash
# create, a watch that says Running, a forward whose first connection is refused, a shell or output that lasts until the
# second, and then the end.
cd "$(dirname "$0")" || exit
case $1 in
create) echo pod/session ;;
get)
    if [[ $* != *--watch* ]]; then
        echo pod/session
    else
        echo 'ADDED|Running||'
        until [[ -e over ]]; do sleep 0.1; done
        echo 'MODIFIED|Succeeded|0|'
        exec sleep 60
    fi
    ;;
port-forward)
    echo "$3" >>asked
    if [[ -e broken ]]; then
        echo 'error: unable to listen on any of the requested ports' >&2
        exit 1
    fi
    echo "Forwarding from 127.0.0.1:40123 -> 8888"
    if (($(wc -l <asked) == 1)); then exit 1; fi
    exec sleep 60
    ;;
exec | logs)
    until [[ -e broken ]] || (($(wc -l <asked) == 2)); do sleep 0.1; done
    touch over
    ;;
delete) echo "$3" >>deleted ;;
esac
"""


def launch_sh(*flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "FOREWARN": str(FOREWARN), **environ}
    call = [str(LAUNCH), "--user", "alice", "-N", "session", *flags]
    return subprocess.run(
        call, env=own, capture_output=True, text=True, check=False, timeout=50, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("variable", ["FOREWARN", "KUBECTL"])
@pytest.mark.parametrize("value", ["/nope", "nope", "/tmp", "/etc/passwd", "say", "cd", "-p", "a b"])
@pytest.mark.parametrize("wrapper", ["-b", "-B", "-f"])
def test_a_variable_whose_program_cannot_run_is_named_in_one_line(variable: str, value: str, wrapper: str) -> None:
    more = ["-Q", wrapper, *(["--", "true"] if wrapper == "-B" else [str(LAUNCH)] if wrapper == "-f" else [])]
    done = launch_sh(*more, **{variable: value})
    allowed = f"allowed: name or path of {variable.lower()}"
    assert done.stderr == f"error: {variable}: '{value}' is no program that can be run; {allowed}\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_dump_needs_no_kubectl() -> None:
    assert launch_sh("-Qd", KUBECTL="/nope").returncode == 0


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("flags", [[], ["-S"], ["--profile", "jupyter"]], ids=" ".join)
def test_a_forward_that_breaks_is_begun_again_on_the_same_port(kubectl: Path, flags: list[str]) -> None:
    done = launch_sh(*flags, KUBECTL=str(kubectl))
    assert (kubectl.parent / "asked").read_text() == ":8888\n40123:8888\n"
    assert "port 8888 of the session is forwarded: 127.0.0.1:40123\n" in done.stderr
    assert done.returncode == 0
    assert (kubectl.parent / "deleted").read_text() == "session\n"


def test_a_forward_that_cannot_be_begun_is_told_and_the_shell_opened(kubectl: Path) -> None:
    (kubectl.parent / "broken").touch()
    done = launch_sh(KUBECTL=str(kubectl))
    told = "warning: port 8888 of the session is not forwarded: error: unable to listen on any of the requested ports\n"
    assert told in done.stderr
    assert done.returncode == 0
    assert (kubectl.parent / "asked").read_text() == ":8888\n"
