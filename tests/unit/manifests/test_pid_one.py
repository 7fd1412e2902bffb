"""A shell as PID 1: which ones swallow SIGTERM, and the mend that is shown."""

import shlex
import time

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
    ["bash", "-c", "# nothing yet"],
    [],
    ["bash", "-c", "cd /work || exit 1; exec python train.py"],
    ["bash", "-c", "set -e\nif [ -f r.txt ]; then pip install -r r.txt; fi\nexec python train.py"],
    ["bash", "-c", "N=$(nproc | head -1); M=`nproc;`; exec python train.py $N $M"],
    ["bash", "-c", "a | tee log; b & for i in 1 2; do c; done; exec python train.py  # the long part"],
    ["bash", "-c", "exec > >(tee log) 2>&1; exec python train.py > >(tee log)"],
    ["bash", "-c", "if a; then exec b; else exec c; fi"],
    ["bash", "-c", "cat > x <<END\nit's\nEND\nexec python train.py"],
    ["bash", "-c", "trap 'stop=1' TERM; until [ $stop ]; do python step.py; done"],
    ["bash", "-c", 'for name in TERM INT; do trap "told=$name" "$name"; done; python train.py & wait'],
    ["bash", "-c", "stop() { kill $child; }\ntrap stop SIGTERM\npython train.py & child=$!\nwait $child"],
    ["bash", "-c", "trap cleanup 15; source ./run.sh"],
    ["bash", "-c", "trap 'kill $(jobs -p); wait' EXIT; python train.py & wait"],
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
    # A comment, a reset, a trap that does nothing.
    (["bash", "-c", "# trap TERM here some day\na; b"], "put exec before its last command: exec b"),
    (["bash", "-c", "trap '' TERM; a; b"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "trap - TERM; a; b"], "let the script trap TERM and pass it on"),
    # The shell comes to its trap once the program has ended.
    (["bash", "-c", "trap 'exit 0' TERM; python a; python b"], "its trap runs only once the running command ends"),
    # At SIGTERM bash runs the trap at once, and ends with it before the program can save.
    (["bash", "-c", "trap 'rm -rf /tmp/x' EXIT; python a"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "trap 'rm -rf /tmp/x' EXIT; python a & wait"], "let the script trap TERM and pass it on"),
    # No loop, so the trap waits for the program.
    (["bash", "-c", "trap 'x=1' TERM; if a; then b; fi; python t.py"], "its trap runs only once the running command"),
    # What exec cannot start, or what is not the long part.
    *(
        (["bash", "-c", f"python train.py; {last}"], "let the script trap TERM and pass it on")
        for last in (
            "exit 0",
            "exit $?",
            "wait",
            "cd /x",
            "X=1",
            "X+=1",
            "source f",
            ". f",
            "echo done",
            "A=b python b.py",
        )
    ),
    (["bash", "-c", "python train.py; sleep 5"], "let the script trap TERM and pass it on"),
    # A program that ignores SIGTERM itself.
    (["bash", "-c", "cd x; sleep infinity"], """write: bash -c 'trap "exit 0" TERM; cd x; sleep infinity & wait'"""),
    (["bash", "-c", "pip a && exec sleep 1d # z"], """write: bash -c 'trap "exit 0" TERM; pip a && sleep 1d & wait'"""),
    (["bash", "-c", "trap 'echo bye' EXIT; sleep infinity"], """write: bash -c 'trap "exit 0" TERM; trap """),
    (["sh", "-c", "exec tail -f /dev/null;"], """write: sh -c 'trap "exit 0" TERM; tail -f /dev/null & wait'"""),
    (["bash", "-c", "cd a\nsleep inf\n"], 'let it begin with: trap "exit 0" TERM, and end with: sleep inf & wait'),
    # A program before it that has something to save.
    (["bash", "-c", "python train.py && sleep infinity"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "jupyter lab; sleep infinity"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "python a.py; exec tail -f /dev/null"], "let the script trap TERM and pass it on"),
    # An exec that does not replace the shell itself.
    (["bash", "-c", "cd /w && python train.py |& tee log.txt"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "{ cd /w; exec python train.py; } 2>&1 | tee log"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "cat l | while read x; do exec python t.py $x; done"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "{ exec python t.py; } & wait"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "exec python train.py | tee log"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "a | exec b"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "(exec a); b & wait"], "let the script trap TERM and pass it on"),
    (["bash", "-c", "exec 3> log; a > log 2>&1; b"], "write: bash -c 'exec 3> log; a > log 2>&1; exec b'"),
    (["bash", "-c", "a; b # don't"], "write: bash -c 'a; exec b # don"),
    (["bash", "-c", 'a "$(b "c; d")"; e'], "let the script trap TERM and pass it on"),
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


@pytest.mark.parametrize("line", [line for line, mend in SWALLOWED if mend.startswith("write: ")], ids=" ".join)
def test_what_is_to_be_written_needs_no_mend(line: list[str]) -> None:
    found = swallows_sigterm(line, [])
    assert found is not None
    assert swallows_sigterm(shlex.split(found.removeprefix("write: ")), []) is None


@pytest.mark.parametrize(
    "line",
    [
        *(
            ["bash", "-c", piece * 50_000]
            for piece in ("trap ", "trap 0 ", "a;", "''", "a\n", "'", '"', '"\\', "(", "`")
        ),
        ["nice"] * 50_000,
        ["bash", *["-c"] * 50_000],
    ],
    ids=lambda line: f"{line[0]} {line[-1][:6]!r}",
)
def test_a_long_line_takes_no_more_than_its_length_costs(line: list[str]) -> None:
    started = time.process_time()
    swallows_sigterm(line, [])
    assert time.process_time() - started < 5


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
        ("#!/bin/bash\n# trap TERM some day\npython a.py\n", True),
        ("#!/bin/bash\ntrap '' TERM\npython a.py\n", True),
        ("#!/bin/bash\ntrap 'touch stop' TERM\npython a.py\n", True),
        ("#!/bin/bash\ncd /work || exit\nexec python b.py | tee log\n", True),
        ("#!/bin/bash\ncat <<END\nit's\nEND\nexec python b.py\n", False),
    ],
)
def test_a_script_file_is_judged_by_its_interpreter_and_its_traps(text: str, swallows: bool) -> None:
    assert script_swallows_sigterm(text) is swallows
