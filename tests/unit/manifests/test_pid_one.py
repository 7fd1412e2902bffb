"""A shell as PID 1: which ones swallow SIGTERM, and the mend that is shown."""

import pytest

from forewarn.pid_one import script_swallows_sigterm, swallows_sigterm

SAFE = [
    ["python", "train.py"],
    ["bash", "-c", "python train.py"],
    ["bash", "-c", "python -u ./train.py > run.log 2>&1"],
    ["bash", "-lc", "cd /work; exec python train.py"],
    ["bash", "-c", 'echo "a; b"'],
    ["sh", "-c", "trap 'kill $child' TERM; python train.py & child=$!; wait $child"],
    ["tini", "-g", "--", "bash", "-c", "a; b"],
    ["env", "A=b", "python", "x.py"],
    ["bash", "-c", ""],
    [],
]

SWALLOWED = [
    (["bash", "-c", "cd /work && python train.py"], "write: bash -c 'cd /work && exec python train.py'"),
    (["/bin/bash", "-c", "a; b"], "write: /bin/bash -c 'a; exec b'"),
    (["bash", "-euo", "pipefail", "-c", "a;b;"], "write: bash -euo pipefail -c 'a;exec b;'"),
    (["env", "A=b", "sh", "-c", "a; b", "zero", "one"], "write: sh -c 'a; exec b' zero one"),
    (["bash", "-c", "cd 'a;b'\npython exec x"], "put exec before its last command: exec python exec x"),
    (["bash", "-c", "python train.py | tee log"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "for i in 1 2; do python $i; done"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "(a; b)"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "a 'unbalanced"], "let the script trap TERM and pass it on"),
    (["bash", "run.sh"], "end run.sh with 'exec PROGRAM'"),
    (["bash", "-l"], "start the program itself"),
]


@pytest.mark.parametrize("line", SAFE, ids=" ".join)
def test_what_gets_the_signal_needs_no_mend(line: list[str]) -> None:
    assert swallows_sigterm(line, []) is None
    assert swallows_sigterm([], line) is None
    assert swallows_sigterm(line[:1], line[1:]) is None


@pytest.mark.parametrize(("line", "mend"), SWALLOWED, ids=lambda value: " ".join(value))
def test_a_shell_that_swallows_is_told_with_its_mend(line: list[str], mend: str) -> None:
    found = swallows_sigterm(line[:1], line[1:])
    assert found is not None
    assert found.startswith(mend)


def test_the_mend_of_a_long_script_stays_short() -> None:
    found = swallows_sigterm(["bash", "-c", "a " * 500 + "; b"], [])
    assert found is not None
    assert len(found) < 200


@pytest.mark.parametrize(
    ("text", "swallows"),
    [
        ("#!/bin/bash\npython a.py\npython b.py\n", True),
        ("#!/bin/bash\ntrap 'touch stop' TERM\npython a.py &\nwait\n", False),
        ("#!/usr/bin/env bash\npython a.py\nexec python b.py\n", False),
        ("#!/bin/bash\nexec 2>&1\npython b.py\n", True),
        ("#!/usr/bin/env python3\nprint(1)\n", False),
        ("python a.py\n", True),
    ],
)
def test_a_script_file_is_judged_by_its_interpreter_and_its_traps(text: str, swallows: bool) -> None:
    assert script_swallows_sigterm(text) is swallows
