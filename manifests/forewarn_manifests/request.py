"""What a launch asks for, checked and complete: all that a manifest is made from."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.contract import Keys


class Mode(enum.Enum):
    """What a wrapper does once the pod is there."""

    INTERACTIVE = "interactive"
    """Open a shell in it, delete it at the shell's end."""
    FOREGROUND = "foreground"
    """Stream its output, delete it at its end."""
    BACKGROUND = "background"
    BATCH = "batch"
    SCRIPT = "script"
    """Stream its output and return its exit code."""
    SSH = "ssh"


@dataclass(frozen=True)
class Person:
    """Who launches: name and numeric user and group."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Toleration:
    """A toleration; an empty ``value`` tolerates every value, an empty ``effect`` every effect."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True)
class Mount:
    """A volume and where it is mounted; an empty ``kind`` mounts a volume that another mount brings."""

    name: str
    path: str
    kind: str
    source: Mapping[str, Any]
    sub_path: str = ""
    read_only: bool = False
    why: str = ""


@dataclass(frozen=True)
class Pair:
    """A key and a value, and the flag, variable or profile that they came from."""

    key: str
    value: str
    why: str


@dataclass(frozen=True)
class Identity:
    """The numeric user and groups of the container; ``None`` leaves the image's own."""

    user: int | None
    group: int | None
    supplemental: tuple[int, ...] = ()


@dataclass(frozen=True)
class JobPlan:
    """The Job around the pod: how many, and what is done about a failure.

    ``limit`` is the Job's own runtime limit in seconds: the pod's cannot be told from a preemption by an exit code, so
    a Job that is not to be requeued at its runtime limit carries the limit itself.
    """

    backoff_limit: int
    completions: int | None
    parallelism: int | None
    requeue: bool
    limit: int | None


@dataclass(frozen=True)
class LaunchRequest:
    """A checked launch; ``memory`` in GB, ``runtime`` and ``grace`` in seconds.

    ``name`` is empty where the API server is to make one from ``generate_name``. ``why`` says of each single value
    where it came from, keyed by the flag's field.
    """

    profile: str
    mode: Mode
    user: str
    name: str
    generate_name: str
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    cpus: int
    memory: int
    gpus: int
    gpu_resource: str
    runtime: int
    grace: int
    home: str
    labels: tuple[Pair, ...]
    annotations: tuple[Pair, ...]
    environment: tuple[Pair, ...]
    node_selector: tuple[Pair, ...]
    tolerations: tuple[Toleration, ...]
    mounts: tuple[Mount, ...]
    ports: tuple[int, ...]
    identity: Identity | None
    script: str
    keys: Keys
    whole_map: bool
    job: JobPlan | None
    quiet: int
    why: Mapping[str, str]
    warnings: tuple[str, ...]
