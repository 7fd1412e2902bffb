"""The set-up says what is missing, builds what is not whole, waits for another checkout, and survives being killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forewarn.errors import UserError
from tests.integration.harness.support import make_program
from tests.kind import cluster, deploy, docker, go, node_image, places, progress, versions
from tests.kind.__main__ import main
from tests.support.apiserver import ApiServer
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[3]
BUILT = places.bin_directory()
"""Where the real programs are; the tests set FOREWARN_CACHE to folders of their own."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOREWARN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def steps(tmp_path: Path) -> progress.Steps:
    return progress.Steps(tmp_path / "log")


def fake_go(directory: Path, version: str = "go1.26.0", build: str = 'touch "$out" && chmod +x "$out"') -> Path:
    """Make a ``go`` that knows just what the set-up asks of it, and compiles nothing."""
    directory.mkdir(exist_ok=True)
    program = directory / "go"
    program.write_text(
        f"""#!/bin/bash
case "$1" in
  env) echo {version} ;;
  mod) echo '{{"GoMod": "/dev/null"}}' ;;
  build)
    while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
    {build} ;;
esac
"""
    )
    program.chmod(0o755)
    return directory


def command(*arguments: str, cache: Path, path: str) -> list[str]:
    return ["env", f"FOREWARN_CACHE={cache}", f"PATH={path}", f"PYTHONPATH={ROOT}/operator:{ROOT}", *arguments]


def run(word: str, *, cache: Path, path: str) -> subprocess.CompletedProcess[str]:
    argv = command(sys.executable, "-m", "tests.kind", word, cache=cache, path=path)
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)


def test_without_go_one_line_says_so_and_nothing_is_made(cache: Path) -> None:
    ran = run("tools", cache=cache, path="/usr/bin:/bin")
    assert ran.returncode == 2
    assert ran.stderr == "error: go: this program is missing; Go 1.26 or newer is needed on the PATH\n"
    assert not (cache / "bin").exists()


def test_a_go_that_is_too_old_is_named(cache: Path, tmp_path: Path) -> None:
    ran = run("tools", cache=cache, path=f"{fake_go(tmp_path / 'go', 'go1.25.9')}:/usr/bin:/bin")
    assert (ran.returncode, ran.stderr) == (2, "error: go: this is go1.25.9; Go 1.26 or newer is needed on the PATH\n")


def test_the_oldest_go_is_new_enough_for_every_module() -> None:
    # What go.mod asks for is raised by `go mod tidy` to what the newest of its modules asks for.
    asked = {}
    for program in node_image.ALL:
        module = go.work(program.module, program.version) / "go.mod"
        if module.exists():
            line = next(line for line in module.read_text().splitlines() if line.startswith("go "))
            major, minor, *_ = line.removeprefix("go ").split(".")
            asked[program.name] = (int(major), int(minor))
    assert max(asked.values()) == versions.GO, asked


def test_a_compiler_that_fails_is_shown_with_its_words(cache: Path, tmp_path: Path) -> None:
    broken = fake_go(tmp_path / "go", build='echo "no space left on device" >&2; exit 1')
    ran = run("tools", cache=cache, path=f"{broken}:/usr/bin:/bin")
    assert ran.returncode == 2
    assert "no space left on device" in ran.stderr
    assert "[1/5] compiling etcd" in ran.stdout


def test_a_program_without_its_stamp_or_of_another_version_is_built_again(
    cache: Path, steps: progress.Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'go')}:{os.environ['PATH']}")
    programs = [program for program in versions.TOOLS if program.name in ("etcd", "kind", "helm")]
    go.build(steps, programs, node_image.ALL)
    assert go.missing(programs) == []
    (cache / "bin/.stamps/etcd").unlink()
    (cache / "bin/.stamps/kind").write_text("sigs.k8s.io/kind v0.1.0")
    (cache / "bin/helm").unlink()
    assert go.missing(programs) == programs


def test_a_build_that_was_killed_is_done_again_and_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    slow = fake_go(tmp_path / "slow", build='echo half > "$out"; echo started > "$FOREWARN_CACHE/started"; sleep 60')
    argv = command(sys.executable, "-m", "tests.kind", "tools", cache=cache, path=f"{slow}:/usr/bin:/bin")
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as building:
        until((cache / "started").exists, "the start of the build")
        os.killpg(building.pid, signal.SIGKILL)
    assert (cache / "bin/.new-etcd").exists()
    ran = run("tools", cache=cache, path=f"{fake_go(tmp_path / 'go')}:/usr/bin:/bin")
    assert ran.returncode == 0, ran.stderr
    assert {path.name for path in (cache / "bin").iterdir()} == {".stamps", *(tool.name for tool in versions.TOOLS)}
    again = run("tools", cache=cache, path="/usr/bin:/bin")
    assert (again.returncode, again.stdout) == (0, f"tools: ready in {cache}/bin\n")


def test_two_checkouts_that_build_at_once_take_turns(cache: Path, tmp_path: Path) -> None:
    # One compiles at a time, so the second finds the first's products and compiles none.
    counting = fake_go(
        tmp_path / "go", build='echo "$out" >> "$FOREWARN_CACHE/built"; sleep 0.2; touch "$out" && chmod +x "$out"'
    )
    argv = command(sys.executable, "-m", "tests.kind", "tools", cache=cache, path=f"{counting}:/usr/bin:/bin")
    runs = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert len((cache / "built").read_text().splitlines()) == len(versions.TOOLS)
    assert sum("is at it; waiting" in output for output in outputs) == 1


def test_the_lock_of_a_process_that_was_killed_is_free(cache: Path) -> None:
    code = "from tests.kind.places import locked\nwith locked('x', 'x'):\n print('held', flush=True)\n input()"
    argv = command(sys.executable, "-c", code, cache=cache, path=os.environ["PATH"])
    with subprocess.Popen(argv, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    with places.locked("x", "x"):
        pass


def test_a_kubeconfig_that_is_not_there_is_named(cache: Path, steps: progress.Steps, with_tools: None) -> None:
    with pytest.raises(UserError, match="FOREWARN_KUBECONFIG: /nowhere does not exist"):
        cluster.up(steps, {"FOREWARN_KUBECONFIG": "/nowhere"})


def test_a_cluster_that_does_not_answer_is_named(steps: progress.Steps, with_tools: None, tmp_path: Path) -> None:
    # A port that is reserved and never listens.
    server = ApiServer(tmp_path / "server", [])
    kubeconfig = server.kubeconfig
    with pytest.raises(UserError, match=r"kubectl get: .*refused"):
        cluster.up(steps, {"FOREWARN_KUBECONFIG": str(kubeconfig)})


def test_the_named_cluster_comes_first_and_keeps_the_image_it_was_given(
    api_server: ApiServer, cache: Path, steps: progress.Steps, with_tools: None, state: Path
) -> None:
    environ = {"FOREWARN_KUBECONFIG": str(api_server.kubeconfig), "FOREWARN_IMAGE": "registry.example/forewarn:1"}
    found = cluster.load_image(steps, cluster.up(steps, environ))
    assert (found.kind, found.image) == ("foreign", "registry.example/forewarn:1")
    assert cluster.Cluster.load() == found
    assert not cluster.OWN.exists()


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("forewarn:dev", ("forewarn", "dev")),
        ("forewarn", ("forewarn", "latest")),
        ("registry.example:5000/team/forewarn", ("registry.example:5000/team/forewarn", "latest")),
        ("registry.example:5000/team/forewarn:1.0", ("registry.example:5000/team/forewarn", "1.0")),
        ("registry.example/forewarn@sha256:ab12", ("registry.example/forewarn@sha256", "ab12")),
        ("registry.example/forewarn:1.0@sha256:ab12", ("registry.example/forewarn:1.0@sha256", "ab12")),
    ],
)
def test_the_chart_gets_the_image_that_was_named(image: str, parts: tuple[str, str]) -> None:
    assert cluster.image_parts(image) == parts


@pytest.mark.parametrize("image", ["forewarn:", "a b", "registry.example/", ":1.0", "a,b", "forewarn:1.0/"])
def test_what_is_no_image_is_refused_by_the_name_of_its_variable(
    image: str, api_server: ApiServer, steps: progress.Steps, with_tools: None, state: Path
) -> None:
    with pytest.raises(UserError, match=r"^FOREWARN_IMAGE: .* is no image's name; allowed: an image that"):
        cluster.up(steps, {"FOREWARN_KUBECONFIG": str(api_server.kubeconfig), "FOREWARN_IMAGE": image})
    assert not state.exists()


def test_without_an_image_the_chart_is_refused_and_nothing_is_called_skipped(
    api_server: ApiServer, with_tools: None, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("FOREWARN_KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.delenv("FOREWARN_IMAGE", raising=False)
    assert main(["deploy"]) == 2
    said = capsys.readouterr()
    assert "error: FOREWARN_IMAGE: names no image" in said.err
    assert "skipped" not in said.out
    assert main(["image"]) == 0
    assert "so the tests that need one are skipped" in capsys.readouterr().out


@pytest.mark.parametrize("theirs", [False, True], ids=["made here", "there before"])
def test_a_foreign_cluster_loses_what_was_put_there_and_nothing_else(
    theirs: bool, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "until_called", lambda _: None)
    monkeypatch.setattr(docker, "answers", lambda: False)
    steps = progress.Steps(tmp_path / "log")
    with ApiServer.start(tmp_path / "server") as server:
        environ = {"FOREWARN_KUBECONFIG": str(server.kubeconfig), "FOREWARN_IMAGE": "forewarn:1"}
        foreign = cluster.up(steps, environ)
        if theirs:
            cluster.helm(foreign, "install", places.RELEASE, str(places.CHART), "--create-namespace")
            cluster.kubectl(foreign.kubeconfig, "create", "namespace", deploy.DEMO)
        for _ in range(2):
            # Nothing runs here, so that nobody can wait for it.
            deploy.install(steps, foreign, "--wait=false")
            deploy.demo_namespace(foreign)
        # Another cluster, used since, does not make it forgotten.
        cluster.Cluster("offline", str(tmp_path / "kubeconfig")).save()
        cluster.down(steps)
        assert cluster.releases(foreign) == ([places.RELEASE] if theirs else [])
        phase = "--output=jsonpath={range .items[*]}{.metadata.name} {.status.phase} {end}"
        told = cluster.kubectl(foreign.kubeconfig, "get", "namespaces", phase).split()
        phases = dict(zip(told[::2], told[1::2], strict=True))
        wanted = "Active" if theirs else "Terminating"
        assert (phases[places.NAMESPACE], phases[deploy.DEMO], phases["default"]) == (wanted, wanted, "Active")
    assert list(state.parent.glob("*.json")) == []


def test_a_foreign_cluster_that_is_gone_is_told_of_and_stops_no_cleaning(
    tmp_path: Path, steps: progress.Steps, with_tools: None, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(docker, "answers", lambda: False)
    cluster.Cluster("foreign", str(tmp_path / "gone")).save()
    cluster.down(steps)
    assert f"left on the cluster of {tmp_path}/gone: helm list: " in capsys.readouterr().out
    assert not state.exists()
    assert len(list(state.parent.glob("foreign-*.json"))) == 1


def test_a_cluster_file_that_cannot_be_read_is_no_cluster(state: Path) -> None:
    state.write_text('{"kind": "offline"')
    assert cluster.Cluster.load() is None
    state.write_text('{"what": 1}')
    assert cluster.Cluster.load() is None


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cluster, "STATE", tmp_path / "cluster.json")
    monkeypatch.setattr(cluster, "OWN", tmp_path / "kind.json")
    return tmp_path / "cluster.json"


@pytest.fixture
def with_tools(cache: Path) -> None:
    """Give the empty cache the real programs."""
    shutil.copytree(BUILT / ".stamps", cache / "bin/.stamps")
    for tool in cluster.TOOLS_FOR_KIND:
        (cache / "bin" / tool.name).symlink_to(BUILT / tool.name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no program at all but those that a test makes in this folder, and root on it."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


APT = """
case " $* " in *" install "*) ;; *) exit 0 ;; esac
echo "$*" >> "$MACHINE/installed"
for package; do
  case $package in
    docker.io) programs="dockerd $IN_DOCKER_IO" ;; docker-cli) programs=docker ;;
    iptables | jq) programs=$package ;; *) programs= ;;
  esac
  for program in $programs; do echo '#!/bin/bash' > "$MACHINE/$program"; /bin/chmod +x "$MACHINE/$program"; done
done
"""


@pytest.mark.parametrize(
    ("known", "in_docker_io", "installed"),
    [
        ("docker-cli docker.io", "", "docker-cli docker.io iptables jq"),
        ("docker.io", "docker", "docker.io iptables jq"),
    ],
    ids=["since Debian 13", "before"],
)
def test_the_docker_client_is_installed_whichever_package_has_it(
    machine: Path, steps: progress.Steps, monkeypatch: pytest.MonkeyPatch, known: str, in_docker_io: str, installed: str
) -> None:
    monkeypatch.setenv("MACHINE", str(machine))
    monkeypatch.setenv("IN_DOCKER_IO", in_docker_io)
    make_program(machine / "apt-get", APT)
    make_program(machine / "apt-cache", f'[[ " {known} iptables jq " == *" $2 "* ]]')
    docker.install(steps, docker.DEBIAN)
    assert (machine / "installed").read_text().endswith(f"--no-install-recommends {installed}\n")


def test_a_program_that_apt_did_not_bring_is_named(machine: Path, steps: progress.Steps) -> None:
    make_program(machine / "apt-get", "exit 0")
    make_program(machine / "apt-cache", "exit 0")
    with pytest.raises(
        UserError, match=r"^docker dockerd iptables jq: not on the PATH, though apt-get installed docker-"
    ):
        docker.install(steps, docker.DEBIAN)


def test_a_daemon_that_does_not_answer_is_ended(machine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(machine / "dockerd", f"echo $$ > {machine}/pid; echo listening; exec /bin/sleep 60")
    monkeypatch.setattr(docker, "START_SECONDS", 1.0)
    cache.mkdir()
    with pytest.raises(UserError, match="dockerd: did not start: listening"):
        docker._start()
    assert not Path(f"/proc/{(machine / 'pid').read_text().strip()}").exists()
    assert docker.own_daemon() == 0


def test_a_cluster_is_removed_without_kind(
    machine: Path, cache: Path, steps: progress.Steps, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Docker knows one container of the cluster until it removes it.
    monkeypatch.setattr(cluster, "KUBECONFIG", machine / "kubeconfig")
    told = f'echo "$*" >> {machine}/told'
    make_program(
        machine / "docker",
        f"{told}\n[[ $1 != ps || -e {machine}/gone ]] || echo abc\n[[ $1 != rm ]] || > {machine}/gone",
    )
    cluster.down(steps)
    assert "rm -f -v abc" in (machine / "told").read_text().splitlines()


def test_a_program_that_is_missing_or_silent_or_fails_is_named(
    machine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"kubectl: this program is missing; make tools builds it"):
        cluster.kubectl("/nowhere", "get", "nodes")
    make_program(machine / "docker", "exec /bin/sleep 60")
    monkeypatch.setattr(docker, "ANSWER_SECONDS", 0.2)
    with pytest.raises(UserError, match=r"docker ps: no answer in 0.2 s"):
        docker.run("ps")
    make_program(machine / "go", "echo 'no such module' >&2; exit 1")
    monkeypatch.setattr(go, "prepare_module", lambda *_: machine)
    kind = next(program for program in versions.TOOLS if program.name == "kind")
    with pytest.raises(UserError, match=r"go list sigs.k8s.io/kind: no such module"):
        go.module_directory(progress.Steps(machine / "log"), kind, node_image.ALL)


def test_a_process_id_that_was_given_to_another_program_is_no_daemon_of_ours(cache: Path) -> None:
    cache.mkdir()
    (cache / "dockerd.pid").write_text(str(os.getpid()))
    assert docker.own_daemon() == 0
    (cache / "dockerd.pid").write_text("not a number")
    assert docker.own_daemon() == 0
