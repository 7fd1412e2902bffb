"""A Docker daemon that kind can use: the one that runs, or one that is started here from Debian's packages.

Two things about small virtual machines are handled: there may be no init system, so dockerd is started by hand; and
root itself may lack CAP_SYS_RESOURCE, where ``docker run --privileged`` (which kind needs) fails with "unable to apply
caps": ``node/runc-capped`` takes that one capability out of each bundle first.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.errors import UserError
from tests.kind.ask import ask
from tests.kind.places import locked, need_root
from tests.kind.progress import Steps
from tests.support.programs import cache

START_SECONDS, END_SECONDS, ANSWER_SECONDS = 60.0, 30.0, 300.0
DEBIAN = {"docker": "docker-cli docker.io", "dockerd": "docker.io", "iptables": "iptables", "jq": "jq"}
"""From Debian 13 on, the client is a package of its own."""
RUNC_CAPPED = Path(__file__).with_name("node") / "runc-capped"
CAP_SYS_RESOURCE = 24


def run(*arguments: str) -> str:
    """Run docker and return what it printed; ``UserError`` with its own words where it fails."""
    return ask(["docker", *arguments], where=f"docker {arguments[0]}", timeout=ANSWER_SECONDS).strip()


def answers() -> bool:
    """Whether a daemon answers."""
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "version"], capture_output=True, check=False, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def has_image(name: str) -> bool:
    """Whether the daemon has an image of this name."""
    return subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0


def remove_images(pattern: str, keep: str = "") -> list[str]:
    """Remove images but ``keep``; return the names of those that went: Docker itself refuses what a container uses."""
    listed = run("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
    images = [image for image in fnmatch.filter(listed, pattern) if image != keep]
    ends = {image: subprocess.run(["docker", "rmi", image], capture_output=True, check=False) for image in images}
    return [image for image, end in ends.items() if end.returncode == 0]


def install(steps: Steps, programs: Mapping[str, str]) -> None:
    """Install Debian packages for the programs that are missing: of each one's packages the first that apt knows.

    Raises ``UserError`` where a program is missing even then.
    """

    def missing() -> list[str]:
        return [program for program in programs if shutil.which(program) is None]

    if not missing():
        return
    names = " ".join(missing())
    need_root(f"installing {names}")
    if shutil.which("apt-get") is None:
        raise UserError(names, "missing, and there is no apt-get to install it with", f"install {names} and run again")
    # Other checkouts, and dpkg itself, hold their own lock; apt waits for it.
    wait = ["-o", "DPkg::Lock::Timeout=300"]
    steps.run(["apt-get", *wait, "update", "-qq"])
    packages = sorted({_known(programs[program]) for program in missing()})
    steps.run(
        ["apt-get", *wait, "install", "-y", "-qq", "--no-install-recommends", *packages],
        env={"DEBIAN_FRONTEND": "noninteractive"},
    )
    if left := missing():
        what = f"not on the PATH, though apt-get installed {' '.join(packages)}"
        raise UserError(" ".join(left), what, "install it and run again")


def _known(packages: str) -> str:
    """Return the first of these packages that apt knows, or else the last."""
    for package in packages.split():
        if subprocess.run(["apt-cache", "show", package], capture_output=True, check=False).returncode == 0:
            return package
    return packages.split()[-1]


def ensure(steps: Steps) -> None:
    """Return with a daemon that answers, installing and starting it where there is none."""
    if answers():
        return
    with steps.extra("Docker daemon"), locked("docker", "Docker"):
        if not answers():
            need_root("starting the Docker daemon")
            install(steps, DEBIAN)
            # Debian's package starts the daemon itself where an init system runs.
            if not _wait(10 if Path("/run/systemd/system").is_dir() else 0):
                _start()


def _wait(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not answers():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.3)
    return True


def _config() -> Path:
    state = cache()
    state.mkdir(parents=True, exist_ok=True)
    bounding = re.search(r"^CapBnd:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    content: dict[str, object] = {}
    if bounding is not None and not int(bounding[1], 16) >> CAP_SYS_RESOURCE & 1:
        shutil.copy2(RUNC_CAPPED, state / "runc-capped")
        content = {"runtimes": {"capped": {"path": f"{state}/runc-capped"}}, "default-runtime": "capped"}
    path = state / "daemon.json"
    path.write_text(json.dumps(content))
    return path


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _pid_in(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def own_daemon() -> int:
    """Return the process id of the daemon that was started on this cache's data, or 0."""
    pid = _pid_in(cache() / "dockerd.pid")
    line = _command_line(pid) if pid else ""
    return pid if "dockerd" in line and str(cache() / "docker") in line else 0


def _clear_leavings() -> None:
    """Remove what a daemon left that was killed, or whose machine was; ids may have been given to others since."""
    state = cache()
    for path, program in (
        (Path("/var/run/docker.pid"), "dockerd"),
        (state / "dockerd.pid", "dockerd"),
        (state / "docker-exec/containerd/containerd.pid", "containerd"),
    ):
        pid = _pid_in(path)
        if not pid or program not in _command_line(pid).partition(" ")[0]:
            path.unlink(missing_ok=True)


def _start() -> None:
    state = cache()
    own = own_daemon()
    if own:
        if _wait(20):
            return
        raise UserError("dockerd", f"process {own} runs but does not answer", f"see {state}/dockerd.log, or end it")
    _clear_leavings()
    log = state / "dockerd.log"
    with log.open("ab") as output:
        started = subprocess.Popen(
            [
                "dockerd",
                f"--config-file={_config()}",
                "--pidfile=/var/run/docker.pid",
                f"--data-root={state}/docker",
                f"--exec-root={state}/docker-exec",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (state / "dockerd.pid").write_text(str(started.pid))
    deadline = time.monotonic() + START_SECONDS
    while not answers():
        if started.poll() is not None or time.monotonic() > deadline:
            _end(started)
            tail = log.read_text(errors="replace").splitlines()[-1:]
            raise UserError("dockerd", f"did not start: {' '.join(tail)}", f"see {log}")
        time.sleep(0.3)


def _end(started: subprocess.Popen[bytes]) -> None:
    """End a daemon that is of no use, so that the next run starts with none."""
    started.terminate()
    try:
        started.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    (cache() / "dockerd.pid").unlink(missing_ok=True)


def stop_if_ours() -> str:
    """Stop the daemon if it was started here and runs no container any more; return what was done, in words."""
    pid = own_daemon()
    if not pid:
        return "no Docker daemon of ours runs"
    if run("ps", "-q"):
        return "the Docker daemon goes on: it runs other containers"
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while _command_line(pid):
        if time.monotonic() > deadline:
            return f"the Docker daemon (process {pid}) does not stop"
        # It is our child where this very process started it.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.2)
    (cache() / "dockerd.pid").unlink(missing_ok=True)
    return "the Docker daemon is stopped"


@contextlib.contextmanager
def container(name: str, image: str, *options: str) -> Iterator[str]:
    """Run a privileged container that only sleeps, for as long as the block lasts; a left-over of its name goes."""
    subprocess.run(["docker", "rm", "-f", name], capture_output=True, check=False)
    run("run", "-d", "--name", name, *options, "--entrypoint", "sleep", image, "infinity")
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "-f", name], capture_output=True, check=False)


def pull(image: str, first_word: float = 15.0, whole: float = 900.0) -> bool:
    """Pull an image; ``False`` where the registry does not say a word within ``first_word`` seconds, or fails."""
    deadline = time.monotonic() + whole
    with subprocess.Popen(["docker", "pull", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as pulling:
        assert pulling.stdout is not None
        ready, _, _ = select.select([pulling.stdout], [], [], first_word)
        if not ready:
            pulling.kill()
            return False
        while pulling.poll() is None:
            if time.monotonic() > deadline:
                pulling.kill()
                return False
            # The pipe holds little, so it has to be read while the pull runs.
            if select.select([pulling.stdout], [], [], 0.5)[0]:
                os.read(pulling.stdout.fileno(), 65536)
        return pulling.returncode == 0
