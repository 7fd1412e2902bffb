"""The operator's image: wheels are downloaded by the host first, the build itself has no network."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from pathlib import Path

from forewarn.errors import UserError
from tests.kind import docker, versions
from tests.kind.places import CHECKOUT, CHECKOUT_ID, digest, locked, need_root
from tests.kind.progress import Steps
from tests.support.programs import cache

STOCK_BASE = "python:3.11-slim"
PACKAGES = "python3,python3-venv,bash,ca-certificates,coreutils,procps,passwd"
LOCK = CHECKOUT / "locks" / "image.txt"
DOCKERFILE = CHECKOUT / "images" / "Dockerfile"
REPOSITORY = "forewarn"
STEPS = 3
PYTHON = "3.11"
GLIBC = range(17, 37)
"""Debian bookworm has glibc 2.36, so every manylinux wheel up to that."""


def _sources() -> tuple[str | Path, ...]:
    return (
        LOCK,
        DOCKERFILE,
        CHECKOUT / "pyproject.toml",
        CHECKOUT / "README.md",
        CHECKOUT / "operator" / "forewarn",
        CHECKOUT / "manifests" / "forewarn_manifests",
        PACKAGES,
        versions.DEBIAN,
    )


def name() -> str:
    """Return the image's name: it tells the checkout and changes with the image's inputs."""
    return f"{REPOSITORY}:{CHECKOUT_ID}-{digest(*_sources())}"


def there() -> bool:
    """Whether the image is built."""
    return docker.has_image(name())


def offline_base() -> str:
    """Return the name of the base image that is made from Debian packages."""
    return f"{REPOSITORY}-base:{digest(PACKAGES, versions.DEBIAN)}"


def build(steps: Steps) -> str:
    """Build the image unless it is there, in three steps; return its name."""
    image = name()
    if there():
        return image
    base = _base(steps)
    with steps.step("operator image: wheels"):
        wheels = _download(steps)
    with steps.step("operator image: build"), tempfile.TemporaryDirectory() as context:
        directory = Path(context)
        shutil.copy2(LOCK, directory / "image.txt")
        shutil.copytree(wheels, directory / "wheels", copy_function=_link)
        _own_wheel(steps, directory / "forewarn")
        # The newest of this checkout stays; whatever it replaces goes once nothing uses it.
        options = ["--network=none", f"--build-arg=BASE={base}", f"--file={DOCKERFILE}", f"--tag={image}"]
        steps.run(["docker", "build", *options, directory])
    remove(keep=image)
    return image


def _link(source: str, target: str) -> None:
    # The times are part of the builder's cache key in some builders: hard links keep them and copy nothing.
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def remove(keep: str = "") -> list[str]:
    """Remove this checkout's images but ``keep``; return the names of those that went."""
    return docker.remove_images(f"{REPOSITORY}:{CHECKOUT_ID}-*", keep)


def _base(steps: Steps) -> str:
    with steps.step("operator image: base"), locked("base-image", "the base image"):
        if docker.has_image(STOCK_BASE):
            return STOCK_BASE
        if docker.has_image(offline_base()):
            return offline_base()
        if docker.pull(STOCK_BASE):
            return STOCK_BASE
        need_root("building the base image")
        docker.install(steps, {"mmdebstrap": "mmdebstrap"})
        work = cache() / "work"
        work.mkdir(parents=True, exist_ok=True)
        archive = work / "base.tar"
        steps.run(
            [
                "unshare",
                "--mount",
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                f"--include={PACKAGES}",
                # What only a person at a shell would read is half the size.
                "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*",
                versions.DEBIAN,
                archive,
            ]
        )
        docker.run("import", str(archive), offline_base())
        archive.unlink()
        return offline_base()


def _download(steps: Steps) -> Path:
    """Download the locked wheels for the image's own Python into the cache; return their folder."""
    target = cache() / "wheels" / f"{digest(LOCK)}-{platform.machine()}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked("wheels", "the wheels"):
        if target.is_dir():
            return target
        for left in target.parent.glob("new-*"):
            shutil.rmtree(left)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=target.parent))
        tags = [f"manylinux_2_{minor}_{platform.machine()}" for minor in GLIBC]
        platforms = [f"--platform={tag}" for tag in [*tags, f"manylinux2014_{platform.machine()}", "any"]]
        steps.run(
            [
                *(_python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
                *("--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp", *platforms),
                *("--require-hashes", "-r", LOCK, "-d", fresh),
            ]
        )
        fresh.chmod(0o755)
        fresh.rename(target)
    return target


def _python() -> Path:
    python = CHECKOUT / ".venv" / "bin" / "python"
    if not python.exists():
        raise UserError(str(python), "the development environment is missing", "make setup")
    return python


def _own_wheel(steps: Steps, target: Path) -> None:
    """Build the project's wheel with the build backend of the development environment."""
    steps.run([_python(), "-m", "hatchling", "build", "-t", "wheel", "-d", target], directory=CHECKOUT)
    if not any(re.fullmatch(r"forewarn-.*\.whl", path.name) for path in target.iterdir()):
        raise UserError("hatchling", "made no wheel", f"see {steps.log}")
