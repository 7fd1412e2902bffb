"""The kind node image, built with no image registry: Kubernetes from Go modules, its system from Debian packages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from forewarn.errors import UserError
from tests.kind import docker, go, versions
from tests.kind.places import bin_directory, digest, locked, need_root
from tests.kind.progress import Steps
from tests.support.programs import cache

NODE = Path(__file__).with_name("node")
BUILD_BOX = "forewarn-node-build"
PATH_VARIABLE = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ALL = (*versions.TOOLS, *versions.NODE_PROGRAMS)


def name() -> str:
    """Return the image's name; it changes with what goes into the image."""
    stamps = [program.stamp for program in ALL if program.name != "helm"]
    content = digest(*stamps, versions.PAUSE, versions.DEBIAN, NODE, Path(__file__))
    return f"kindest/node:{versions.KUBERNETES}-offline-{content[:8]}"


def there() -> bool:
    """Whether the image is built."""
    return docker.has_image(name())


def steps_needed() -> int:
    """Return how many steps ``build`` takes now, the programs apart."""
    return 0 if there() else 4


def build(steps: Steps) -> None:
    """Build the image unless it is there. Needs root, Docker, Go, a C compiler and 3 GB of disk."""
    if there():
        return
    need_root("building the node image")
    compiler = shutil.which("cc")
    if compiler is None:
        raise UserError("cc", "this program is missing", "install a C compiler (apt-get install gcc libc6-dev)")
    go.build(steps, go.missing(ALL), ALL)
    with locked("node-image", "the node image"):
        if there():
            return
        work = cache() / "work"
        work.mkdir(parents=True, exist_ok=True)
        for left in work.glob("node-*"):
            _remove(left)
        directory = Path(tempfile.mkdtemp(prefix="node-", dir=work))
        try:
            _build_in(steps, directory, compiler)
        finally:
            _remove(directory)


def _remove(directory: Path) -> None:
    # What is mounted below (mmdebstrap was killed) is left alone.
    subprocess.run(["rm", "-rf", "--one-file-system", directory], check=False)


def _build_in(steps: Steps, directory: Path, compiler: str) -> None:
    root = directory / "root"
    with steps.step(f"node image: Debian {versions.DEBIAN} system"):
        docker.install(steps, {"mmdebstrap": "mmdebstrap"})
        files = go.module_directory(steps, next(p for p in versions.TOOLS if p.name == "kind"), ALL)
        # A mount namespace of its own: whatever is mounted in there ends with the process.
        steps.run(
            ["unshare", "--mount", NODE / "make-root", root, files / "images/base/files", bin_directory()],
            env={"SUITE": versions.DEBIAN, "PAUSE": versions.PAUSE, "KUBERNETES": versions.KUBERNETES},
        )
    with steps.step("node image: control-plane images"):
        archive = _control_plane(steps, root, directory, compiler)
    base = f"forewarn-node-base:{directory.name}"
    with steps.step("node image: import"):
        _import(root, base, "ENV container=docker")
    try:
        with steps.step("node image: images into its containerd"), docker.container(BUILD_BOX, base, "--privileged"):
            _preload(archive)
            init = 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]'
            docker.run("commit", "--change", init, BUILD_BOX, name())
    finally:
        subprocess.run(["docker", "rmi", base], capture_output=True, check=False)


def _import(root: Path, image: str, *changes: str) -> None:
    """Make an image of a directory."""
    options = [word for change in changes for word in ("--change", change)]
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packed:
        ran = subprocess.run(
            ["docker", "import", *options, "-", image], stdin=packed.stdout, capture_output=True, check=False
        )
    if ran.returncode or packed.returncode:
        raise UserError(f"docker import {image}", ran.stderr.decode(errors="replace").strip() or "tar failed")


def _control_plane(steps: Steps, root: Path, directory: Path, compiler: str) -> Path:
    """Make the control plane's images, each one program on an empty file system; return their archive."""
    pause = directory / "pause"
    steps.run([compiler, "-O2", "-static", "-o", pause, NODE / "pause.c"])
    programs = {
        f"registry.k8s.io/pause:{versions.PAUSE}": pause,
        f"registry.k8s.io/etcd:{versions.ETCD.removeprefix('v')}-0": bin_directory() / "etcd",
        f"registry.k8s.io/coredns/coredns:{versions.COREDNS}": bin_directory() / "coredns",
    }
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        programs[f"registry.k8s.io/{program}:{versions.KUBERNETES}"] = bin_directory() / program
    for image, program_path in programs.items():
        alone = directory / "alone"
        for folder in ("usr/local/bin", "tmp", "etc"):
            (alone / folder).mkdir(parents=True)
        shutil.copy2(program_path, alone / "usr/local/bin")
        _import(alone, image, f'ENTRYPOINT ["/usr/local/bin/{program_path.name}"]', PATH_VARIABLE)
        shutil.rmtree(alone)
    proxy = f"registry.k8s.io/kube-proxy:{versions.KUBERNETES}"
    steps.run([NODE / "make-proxy-root", root, directory / "proxy", bin_directory()])
    _import(directory / "proxy", proxy, 'ENTRYPOINT ["/usr/local/bin/kube-proxy"]', PATH_VARIABLE)
    archive = directory / "images.tar"
    docker.run("save", "-o", str(archive), *programs, proxy)
    subprocess.run(["docker", "rmi", *programs, proxy], capture_output=True, check=False)
    return archive


def _preload(archive: Path) -> None:
    """Import the archive into the containerd of the build container."""
    answer = "for _ in $(seq 120); do ctr version >/dev/null 2>&1 && exit; sleep 0.5; done; exit 1"
    docker.run("exec", BUILD_BOX, "bash", "-c", f"containerd >/dev/null 2>&1 & {answer}")
    with archive.open("rb") as content:
        command = ["docker", "exec", "-i", BUILD_BOX, "ctr", "--namespace=k8s.io", "images", "import"]
        ran = subprocess.run(
            [*command, "--all-platforms", "--no-unpack", "-"], stdin=content, capture_output=True, check=False
        )
    if ran.returncode:
        raise UserError("ctr images import", ran.stderr.decode(errors="replace").strip())
    # Nothing in the build container reaps, so a process that has ended stays listed, as a zombie.
    end = "pkill containerd; while pgrep -r D,R,S,T containerd >/dev/null; do sleep 0.1; done"
    tidy = "rm -rf /run/containerd /var/lib/containerd/io.containerd.snapshotter*"
    docker.run("exec", BUILD_BOX, "bash", "-c", f"{end}; {tidy}")
