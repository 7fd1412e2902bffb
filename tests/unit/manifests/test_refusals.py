"""Every mistake of a launch is one line that names the place and what is allowed, before anything is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from forewarn.cli import main
from forewarn_manifests import many as many_module
from tests.unit.manifests.golden import DIRECTORY

SCRIPT = str(DIRECTORY / "script.sh")
CAMPUS = ["--profile", "campus"]
REFUSALS = [
    # flags
    (["-z"], "-z: is no flag of the launcher; flags: -cmgl"),
    (["-bz"], "-z (in -bz): is no flag"),
    (["-gpus", "1"], "-gpus: is a long option with one dash; write --gpus"),
    (["--epochs", "3"], "--epochs: is no option of the launcher; options of your own program go behind --"),
    (["--epochs=3"], "as in: -- python train.py --epochs=3"),
    (["--gpu", "1"], "--gpu: is no option of the launcher (did you mean --gpus?)"),
    (["-g"], "-g: its value is missing; write -g N"),
    (["--gpus"], "--gpus: its value is missing; write --gpus N"),
    (["--batch=yes"], "--batch: takes no value, but 'yes' was given"),
    # numbers
    (["-m", "64"], "-m: 64 is out of range; allowed: a whole number from 1 to 32 (GB of RAM of one pod)"),
    (["-m", "0"], "-m: 0 is out of range"),
    (["-m", "1.5"], "-m: '1.5' is no whole number; allowed: a whole number from 1 to 32"),
    (["-m", "16Gi"], "-m: '16Gi' is no whole number (write 16: the unit is GB)"),
    (["-m", "٣"], "-m: '٣' is no whole number"),
    (["-m", "9" * 30], "is no whole number"),
    (["-c", "9"], "-c: 9 is out of range; allowed: a whole number from 1 to 8 (CPUs of one pod)"),
    (["-c", ""], "-c: '' is no whole number"),
    (["-c=2"], "-c: '=2' is no whole number"),
    (["-g", "-1"], "-g: '-1' is no whole number; allowed: a whole number from 0 to 1 (GPUs of one pod)"),
    (["-g", "2"], "-g: 2 is out of range"),
    (["-g", "70001"], "-g: '70001' is no number of GPUs; a team is named with -G: write -G 70001"),
    (["-g", "list"], "-g: 'list' is no number of GPUs; a team is named with -G"),
    ([*CAMPUS, "-g", "vision"], "-g: 'vision' is no number of GPUs; a team is named with -G: write -G vision"),
    (["-G", "1"], "-G: 1 is no team; GPUs are asked for with -g: write -g 1"),
    ([*CAMPUS, "-G", "visoin"], "-G: no team 'visoin' (did you mean vision?); allowed: vision, speech"),
    (["-G", "2147483648"], "-G: 2147483648 is out of range; allowed: a whole number from 1 to 2147483647"),
    (["--timeout", "43201"], "--timeout: 43201 is out of range; allowed: a whole number from 1 to 43200"),
    (["--port", "70000"], "--port: 70000 is out of range"),
    # names, labels, annotations
    (["-N", "Foo"], "-N: 'Foo' is no name that Kubernetes takes; allowed: at most 63 lower-case letters"),
    (["-N", "a" * 64], "is no name that Kubernetes takes"),
    (["-N", ""], "-N: '' is no name"),
    (["--number", "A"], "--number: 'A' is no name"),
    (["-l", "gpu-class"], "-l: 'gpu-class' has no =; allowed: KEY=VALUE"),
    (["-l", "-x=1"], "-l: '-x' is no key"),
    (["-l", "a/b/c=1"], "-l: 'a/b/c' is no key"),
    (["-l", "k=a b"], "-l: 'a b' is no label value"),
    (["-l", "k=" + "a" * 64], "is no label value"),
    (["-l", "dsmlp/user=bob"], "-l: dsmlp/user is the launcher's to set"),
    (["-W", "CSE151", "-l", "dsmlp/course=CSE1"], "-l: dsmlp/course=CSE1 contradicts -W CSE151"),
    (["-A", "note"], "-A: 'note' has no ="),
    (["-A", "a b=1"], "-A: 'a b' is no key"),
    (["-A", "galends/guaranteed-until=x"], "-A: galends/guaranteed-until is the reservation controller's alone"),
    (["-A", "dsmlp/idle-gpu-status=ok"], "is the reservation controller's alone"),
    (["--user", "a b"], "--user: 'a b' is no label value"),
    (["--user", ""], "--user: the name is empty"),
    (["-A", "big=" + "x" * 262_144], "-A: all annotations together have"),
    # GPU class, node, image, policy
    (
        ["-g1", "-l", "gpu-class=Medium"],
        "-l: no gpu-class 'Medium' (did you mean medium?); allowed: extra-small, small",
    ),
    (["-l", "gpu-class=huge"], "-l: no gpu-class 'huge'"),
    (["--profile", "strict", "-g", "1"], "-g: a GPU needs a class; add -l gpu-class=CLASS, one of: extra-small"),
    ([*CAMPUS, "-v", "A100"], "-v: no GPU model 'A100' (did you mean a100?); allowed: a5000, a100"),
    (["-v", "a b"], "-v: 'a b' is no label value"),
    (["-v", ""], "-v: the GPU model is empty"),
    (["-n", "n30"], "-n: 'n30' is neither a number nor a full host name (did you mean -n 30?)"),
    (["-n", "host"], "-n: 'host' is neither a number nor a full host name; allowed: a bare number"),
    (["-n", "a..b"], "-n: 'a..b' is no host name"),
    (["-i", "My/Image"], "-i: 'My/Image' is no image (did you mean my/image?)"),
    (["-i", ""], "-i: '' is no image"),
    (["-i", "a b"], "-i: 'a b' is no image"),
    (["-i", "-b"], "-i: '-b' is no image"),
    (["-P", "sometimes"], "-P: no pull policy 'sometimes'; allowed: Always, IfNotPresent, Never"),
    (["-P", "IfNotPresnt"], "(did you mean IfNotPresent?)"),
    (["-E", "A_B"], "-E: 'A_B' is no name"),
    (["-t", "a:b"], "-t: no effect 'b'; allowed: NoSchedule"),
    (["-t", "a:noschedule"], "(did you mean NoSchedule?)"),
    (["-t", "a="], "-t: 'a=' names no value behind ="),
    (["-t", "a:"], "-t: 'a:' names no effect behind :"),
    (["-t", "=x"], "-t: '' is no key"),
    # storage
    (["-W", ""], "-W: the name of the workspace is empty"),
    ([*CAMPUS, "-W", "CSE152"], "-W: no workspace 'CSE152' (did you mean CSE151?); allowed: CSE151, CSE251"),
    (["-T"], "-T: the profile launch has no storage of teams"),
    (["-M", "data"], "-M: 'data' has no :; allowed: /PATH:SUBPATH"),
    (["-M", "data:x"], "-M: 'data' is no path to mount at"),
    (["-M", "/data:/x"], "-M: '/x' is no path below the home"),
    (["-M", "/data:../x"], "-M: '../x' is no path below the home"),
    (["-M", "/a:x", "-M", "/a:y"], "-M: /a is taken by -M"),
    (["-M", "/etc/podinfo:x"], "-M: /etc/podinfo is taken by podinfo"),
    (["-M", "/etc//podinfo:x"], "-M: '/etc//podinfo' is no path to mount at; allowed: an absolute path other than /"),
    (["-M", "/dev/./shm:x"], "-M: '/dev/./shm' is no path to mount at"),
    (["-M", "//:x"], "-M: '//' is no path to mount at"),
    (
        ["-M", "/etc/podinfo/x:y"],
        "-M: /etc/podinfo/x is below /etc/podinfo, a read-only volume of podinfo; mount it at",
    ),
    (["-f", SCRIPT, "-M", "/etc/forewarn:y"], "-M: /etc/forewarn is taken by -f"),
    (
        ["-f", SCRIPT, "-F", "/etc/forewarn/x:b:/d"],
        "-F: /etc/forewarn/x is below /etc/forewarn, a read-only volume of -f",
    ),
    (["-F", "/a:b"], "-F: '/a:b' cannot be read; allowed: /PATH:SERVER:/EXPORT"),
    (["-F", "/a:b c:/d"], "-F: 'b c' is no host name"),
    (["-F", "/:b:/d"], "-F: '/' is no path to mount at"),
    # what runs
    (["-B"], "-B: there is no command to run; write it behind --, as in: -B -- python train.py"),
    (["-B", "--"], "-B: there is no command to run"),
    (["-f", "/nowhere"], "-f: /nowhere cannot be read: No such file or directory"),
    (["-f", "/"], "-f: / cannot be read: Is a directory"),
    (["--export-prefix", ""], "--export-prefix: the prefix is empty: every variable begins with it"),
    (["--log", "../x", "--", "y"], "--log: '../x' is no file under the home; allowed: a file below /home/alice"),
    (["--log", "/tmp/x", "--", "y"], "is no file under the home"),
    (["-u", "me"], "-u: 'me' is no address; allowed: NAME@HOST"),
    (["-u", "-b"], "-u: '-b' is no address"),
    (["-B", "--", "a\udcff"], "the command: 'a\\udcff' is not UTF-8"),
    (["-B", "--", "a\0b"], "the command: 'a\\x00b' holds a NUL"),
    (["-A", "k=\udcff"], "is not UTF-8"),
    # Jobs
    (["--kind", "job"], "--kind: no kind 'job' (did you mean Job?); allowed: Pod, Job"),
    (["--kind", "Job"], "a Job: there is no command to run"),
    (["--kind", "Pod", "--requeue", "--", "x"], "--requeue: is for a Job; leave out --kind Pod"),
    (
        ["--requeue", "always", "--", "x"],
        "--requeue: 'always' behind it would be the command; write --requeue=always, or",
    ),
    (["--kind", "Job", "-l", "job-name=x", "--", "x"], "-l: job-name is Kubernetes' own on a Job's pods; leave it out"),
    (["--requeue", "-l", "batch.kubernetes.io/controller-uid=x", "--", "x"], "is Kubernetes' own on a Job's pods"),
    (["--requeue=never", "--", "x"], "--requeue: 'never' is not a way to requeue; allowed: --requeue or"),
    (["--backoff-limit", "3", "--", "x"], "--backoff-limit: is for a Job; add --kind Job or --requeue"),
    (["--completions", "3", "--", "x"], "--completions: several pods find each other by the Job's name; give it one"),
    (["--parallelism", "3", "--", "x"], "--parallelism: several pods find each other by the Job's name"),
    (["--completions", "0", "-N", "a", "--", "x"], "--completions: 0 is out of range"),
    (["--kind", "Job", "--completions", "-1", "-N", "a", "--", "x"], "--completions: '-1' is no whole number"),
    (["--kind", "Job", "--completions", "", "-N", "a", "--", "x"], "--completions: '' is no whole number"),
    (["--kind", "Job", "--completions", "1.5", "-N", "a", "--", "x"], "--completions: '1.5' is no whole number"),
    (
        ["--kind", "Job", "--completions", "1", "--", "x"],
        "--completions: several pods find each other by the Job's name",
    ),
    (["--kind", "Job", "--completions", "1", "-N", "a" * 62, "--", "x"], "allowed: at most 61 lower-case letters"),
    (["--kind", "Job", "--completions", "2", "-N", "a"], "a Job: there is no command to run"),
    (
        ["--kind", "Pod", "--completions", "2", "-N", "a", "--", "x"],
        "--completions: is for a Job; leave out --kind Pod",
    ),
    (["--parallelism", "0", "-N", "a", "--", "x"], "--parallelism: 0 is out of range"),
    (["--kind", "Job", "--backoff-limit", "1001", "--", "x"], "--backoff-limit: 1001 is out of range"),
    (["--completions", "65", "-N", "a", "--", "x"], "allowed: a whole number from 1 to 64 (pods)"),
    (["--completions", "2", "--parallelism", "3", "-N", "a", "--", "x"], "3 at once are more than 2 pods"),
    (["--completions", "11", "-N", "a" * 61, "--", "x"], "allowed: at most 60 lower-case letters"),
    (["--completions", "2", "-N", "2a", "--", "x"], "-N: '2a' is no name of a Service"),
    (["--kind", "Job", "-N", "a.b", "--", "x"], "-N: 'a.b' is no name"),
    # profiles, output
    (["--profile", "lunch"], "--profile: no profile 'lunch' (did you mean launch?); allowed: "),
    (["--profile", "../launch"], "--profile: no profile '../launch'"),
    (["--annotation-prefix", "A B"], "--annotation-prefix: 'A B' cannot be read; allowed: a DNS name"),
    (["--explain", "-d"], "--explain: JSON has no comments"),
    (["--many", "list.txt"], "--many: list.txt is neither .csv nor .yaml"),
    (["--many", "/nowhere.csv"], "--many: /nowhere.csv cannot be read: No such file"),
]
ENVIRONMENT = [
    ({"K8S_NUM_CPU": "many"}, "K8S_NUM_CPU: 'many' is no whole number; allowed: a whole number from 1 to 8"),
    ({"K8S_GB_MEM": "64"}, "K8S_GB_MEM: 64 is out of range"),
    ({"K8S_NUM_GPU": "-1"}, "K8S_NUM_GPU: '-1' is no whole number"),
    ({"K8S_IMAGE_PULL_POLICY": "x"}, "K8S_IMAGE_PULL_POLICY: no pull policy 'x'"),
    ({"K8S_DOCKER_IMAGE": "A:b"}, "K8S_DOCKER_IMAGE: 'A:b' is no image"),
    ({"K8S_TIMEOUT_SECONDS": "6h"}, "K8S_TIMEOUT_SECONDS: '6h' is no whole number"),
    (
        {"SPAWN_INTERACTIVE_SHELL": "maybe"},
        "SPAWN_INTERACTIVE_SHELL: 'maybe' is neither yes nor no; allowed: YES or NO",
    ),
    ({"PROXY_ENABLED": "x"}, "PROXY_ENABLED: 'x' is neither yes nor no"),
    ({"PROXY_PORT": "7474:7687"}, "PROXY_PORT: '7474:7687' is no whole number"),
    ({"K8S_EXPORT_ENV_PREFIX": "P_", "P_1X": "a"}, "K8S_EXPORT_ENV_PREFIX=P_: P_1X: '1X' is no name of a variable"),
    ({"FOREWARN_PROFILE": "x"}, "FOREWARN_PROFILE: no profile 'x'"),
    ({"FOREWARN_PROFILES": "/nowhere"}, "FOREWARN_PROFILES: '/nowhere' is no directory"),
]


@pytest.fixture(autouse=True)
def only_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("K8S_NUM_CPU", "FOREWARN_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOREWARN_PROFILES", str(DIRECTORY / "profiles"))


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["render", *(["--user", "alice"] if "--user" not in argv else []), *argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, "one line"
    return printed.err


@pytest.mark.parametrize(("argv", "line"), REFUSALS, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_line_that_says_what_is_allowed(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in refused(argv, capsys)


@pytest.mark.parametrize(("environ", "line"), ENVIRONMENT, ids=lambda value: str(value)[:40])
def test_a_mistake_in_a_variable_names_the_variable(
    environ: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert line in refused([], capsys)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"#!/bin/bash\r\necho\r\n", "has Windows line ends"),
        (b"cd work\r\npython train.py\r\n", "has Windows line ends"),
        (b"\xef\xbb\xbf#!/usr/bin/env python3\nprint(1)\n", "begins with a byte order mark"),
        (b"x" * 200_001, "has 200001 bytes; allowed: at most 200000"),
        (b"a\0b", "holds a NUL"),
    ],
)
def test_a_script_that_no_pod_can_carry_is_refused(
    content: bytes, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(content)
    assert line in refused(["-f", str(path)], capsys)


LISTS = [
    ("a.csv", "name,gpu\na,1\n", ":1: no column 'gpu' (did you mean gpus?); allowed: cpus, memory"),
    ("a.csv", "name,gpus\na,7\n", ":2: gpus: 7 is out of range"),
    ("a.csv", "name\na,1\n", ":2: has more fields than columns"),
    ("a.csv", "name\na\na\n", ":3: the name 'a' is taken by"),
    ("a.csv", 'command\n"it\'s"\n', ":2: command: No closing quotation"),
    ("a.csv", "name,name\na,b\n", ":1: the column 'name' is there twice; name each column once"),
    ("a.csv", "label,gpus,label\na=b,1,c=d\n", ":1: the column 'label' is there twice"),
    ("a.csv", "name,gpus\na\n", ":2: has fewer fields than columns (1, not 2); columns: name, gpus"),
    ("a.csv", "name,gpus\na,1\n\n\nb\n", ":5: has fewer fields than columns"),
    ("a.csv", "name,gpus\n,\n", ":2: has only empty fields; leave the row out"),
    ("a.csv", 'name\n"a\n', ":2: a quote is not closed"),
    ("a.csv", 'name,command\na,"x\ny"\nb,"z\n\n\nc,d\n', ":4: a quote is not closed"),
    ("a.csv", 'name,command\na,"x\ny"z\nb,c\n', ":2: ',' expected after"),
    ("a.csv", 'name,command\na,"x\n\ny"\nB,c\n', ":5: name: 'B' is no name"),
    ("a.csv", 'name,command\nA,"x\n\ny"\nb,c\n', ":2: name: 'A' is no name"),
    ("a.csv", 'name,command\r\na,"x\r\ny"\r\nB,c\r\n', ":4: name: 'B' is no name"),
    ("a.csv", "requeue,command\nnever,x\n", ":2: requeue: 'never' is not a way to requeue"),
    ("a.csv", "kubeconfig\nx\n", ":1: no column 'kubeconfig'"),
    ("a.csv", "name\n", "holds no launch"),
    ("a.csv", "many\nx\n", ":1: no column 'many'"),
    ("a.csv", "batch\nperhaps\n", ":2: batch: 'perhaps' is neither yes nor no"),
    ("a.yaml", "a: 1\n", "is no list; allowed: a list of mappings"),
    ("a.yaml", "", "is no list"),
    ("a.yaml", "- x\n", ":1: 'x' is no mapping"),
    ("a.yaml", "- name: a\n\n- nam: b\n", ":3: no key 'nam' (did you mean name?)"),
    ("a.yaml", "- command: python x.py\n", ":1: command: is one text; allowed: a list of words"),
    ("a.yaml", "- command: [python, 1.5]\n", ":1: command: 1.5 is neither a text nor a whole number"),
    ("a.yaml", "- gpus: [1, 2]\n", ":1: gpus: ['1', '2'] is a list; allowed: one value"),
    ("a.yaml", "- gpus: []\n", ":1: gpus: [] is a list"),
    ("a.yaml", "- command: 5\n", ":1: command: is one text"),
    ("a.yaml", "- command: {python: x}\n", ":1: command: {'python': 'x'} is no list"),
    ("a.yaml", "- command: 1.5\n", ":1: command: 1.5 is no list"),
    ("a.yaml", "- label: {gpu-class: small}\n", "is neither a text nor a whole number"),
    ("a.yaml", "- name: a\n  gpus: 1\n  gpus: 0\n", ":3: the key 'gpus' is there twice; it is on line 2 already"),
    ("a.yaml", "- name: a\n- gpus: 7\n", ":2: gpus: 7 is out of range"),
    ("a.yaml", "- timeout: 6:00\n", ":1: timeout: '6:00' is no whole number"),
    ("a.yaml", "- cpus: 0x2\n", ":1: cpus: '0x2' is no whole number"),
    ("a.yaml", "- cpus: null\n", ":1: cpus: None is neither a text nor a whole number"),
    ("a.yaml", "- name: 2024-13-45\n", "a value cannot be read"),
    ("a.yaml", "- name: !!python/name:os.system\n", ":1: cannot be read as YAML: could not determine a constructor"),
    ("a.yaml", "- requeue: never\n  command: [x]\n", ":1: requeue: 'never' is not a way to requeue"),
    ("a.yaml", "[" * 5000, "; allowed: one YAML document"),
    ("a.yaml", "- a: [\n", "cannot be read as YAML: while parsing a flow node, "),
]


@pytest.mark.parametrize(("name", "content", "line"), LISTS, ids=lambda value: str(value)[:30])
def test_a_mistake_in_a_list_names_file_and_line(
    name: str, content: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    told = refused(["--many", str(path)], capsys)
    assert told.startswith(f"error: {path}")
    assert line in told


def many(
    tmp_path: Path, name: str, content: str, capsys: pytest.CaptureFixture[str], *flags: str
) -> list[dict[str, Any]]:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert main(["render", "-Q", "--user", "alice", *flags, "--many", str(tmp_path / name)]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_a_whole_number_of_a_yaml_list_is_taken_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pod,) = many(tmp_path, "a.yaml", "- node: 030\n  command: [echo, 010, 0x10, 1_000, 6:00]\n", capsys)
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n30"}
    assert pod["spec"]["containers"][0]["args"] == ["echo", "010", "0x10", "1_000", "6:00"]


def test_rows_without_a_name_are_numbered_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = many(tmp_path, "a.csv", "name,number,command\n,,x\nmine,,x\n,7,x\n,,x\n", capsys, "--number", "120000-9")
    names = ["alice-120000-9-1", "mine", "alice-7", "alice-120000-9-4"]
    assert [pod["metadata"]["name"] for pod in pods] == names


@pytest.mark.parametrize(
    ("value", "kind"), [("yes", "Job"), ("TRUE", "Job"), ("always", "Job"), ("no", "Pod"), ("", "Pod")]
)
def test_a_row_requeues_by_yes_no_or_always(
    value: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = many(tmp_path, "a.csv", f"requeue,command\n{value},x\n", capsys)
    assert one["kind"] == kind
    if value:
        (one,) = many(tmp_path, "a.yaml", f"- requeue: {value}\n  command: [x]\n", capsys)
        assert one["kind"] == kind


LATE = [
    ["--plan", "/nowhere/plan"],
    ["--plan", ""],
    ["--plan", "/"],
    ["--plan", "a\0b"],
    ["-d", "--plan", "/nowhere/plan"],
    ["--namespace", "x"],
    ["--kubeconfig", "x"],
    ["--server-dry-run", "--namespace", "A B"],
    ["--server-dry-run", "--kubeconfig", "/nowhere"],
    ["--many", "MANY"],
    ["-d", "--many", "MANY"],
]


@pytest.mark.parametrize("argv", LATE, ids=" ".join)
def test_a_mistake_that_is_found_late_prints_no_manifest_and_no_warning(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "many.csv"
    path.write_text("name,gpus\n" + "".join(f"a{row},1\n" for row in range(50)) + "last,2\n", encoding="utf-8")
    refused([str(path) if word == "MANY" else word for word in argv], capsys)


@pytest.mark.parametrize("flag", ["--user", "-W", "-v"])
def test_a_name_that_is_a_labels_value_is_told_without_a_key(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused([flag, "A B"], capsys)
    assert told.startswith(f"error: {flag}: 'A B' is no label value; allowed: at most 63 letters")
    assert "KEY" not in told


scalars = st.none() | st.booleans() | st.integers(-1, 9) | st.floats() | st.sampled_from(["", "a", "yes", "no", "a=b"])
fields = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), scalars, max_size=1)
good = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.integers(1, 8),
        "label": st.lists(st.just("a=b")),
        "batch": st.booleans(),
        "timeout": st.just(9),
    },
).map(lambda row: {**row, "command": ["x"]})
odd = st.dictionaries(st.sampled_from(many_module.COLUMNS), fields, min_size=1, max_size=3) | fields
rows = st.lists(good, max_size=3) | st.lists(good | odd, max_size=3)


def _cell(value: Any) -> str:
    return str(value[0] if isinstance(value, list) and value else "" if isinstance(value, list) else value)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.booleans())
def test_any_list_is_taken_whole_or_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launches: list[Any], comma: bool
) -> None:
    path = tmp_path / ("a.csv" if comma else "a.yaml")
    if comma:
        launches = [row for row in launches if isinstance(row, dict)]
        names = sorted({key for row in launches for key in row})
        lines = [names, *([_cell(row.get(key, "")) for key in names] for row in launches)]
        path.write_text("".join(",".join(f'"{one}"' for one in line) + "\n" for line in lines), encoding="utf-8")
    else:
        path.write_text(json.dumps(launches), encoding="utf-8")
    code = main(["render", "-Q", "--user", "alice", "--many", str(path)])
    printed = capsys.readouterr()
    event(f"exit code {code}")
    if code == 0:
        assert all(line.startswith("warning: ") for line in printed.err.splitlines())
        objects = yaml.safe_load_all(printed.out)
        assert len([one for one in objects if one["kind"] != "Service"]) == len(launches)
    else:
        assert (code, printed.out, printed.err.count("\n")) == (2, "", 1)
        assert printed.err.startswith((f"error: {path}", "error: --many"))
