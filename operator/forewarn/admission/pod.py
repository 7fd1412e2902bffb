"""A pod read as plain values: containers, mounts, labels. Pure; raises ``Malformed`` for what no pod looks like."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from forewarn import contract

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The kubelet's mark on the API's copy of a static pod (core/v1 MirrorPodAnnotationKey)."""

_NOTHING: Mapping[str, Any] = {}


class Malformed(ValueError):  # noqa: N818  (what it says of the pod is its name)
    """A value of a shape that the API server would refuse: the pod is left as it is."""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return ``value`` as a mapping; an absent one is empty. Raises ``Malformed`` for anything else."""
    if type(value) is dict:  # nearly always, and four times quicker than to ask the ABC
        return value
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping):
        raise Malformed(f"{type(value).__name__} where an object belongs")
    return value


def sequence(value: Any) -> Sequence[Any]:
    """Return ``value`` as a sequence; an absent one is empty. Raises ``Malformed`` for anything else."""
    if type(value) is list:
        return value
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise Malformed(f"{type(value).__name__} where a list belongs")
    return value


def string(value: Any) -> str:
    """Return ``value`` as a text; an absent one is empty. Raises ``Malformed`` for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{type(value).__name__} where a text belongs")
    return value


def integer(value: Any) -> int | None:
    """Return ``value`` as a whole number, ``None`` where absent. Raises ``Malformed`` for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(f"{type(value).__name__} where a whole number belongs")
    return value


def printable(text: str) -> str:
    """Return a text of the user's in one line that every terminal takes: ``?`` for what cannot be printed."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def pointer(*tokens: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a path; ``~`` and ``/`` in a key are escaped."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def clean_path(path: str) -> str:
    """Return a path in a container as the kubelet takes it: absolute, with no ``..``, no doubled or closing slash."""
    return posixpath.normpath("/" + path.lstrip("/"))


class Mount(NamedTuple):
    """One volumeMount: its cleaned path, the volume's name, and whether it is a subPath (or subPathExpr) mount."""

    path: str
    volume: str
    sub_path: bool


class Container(NamedTuple):
    """One container: the JSON pointer of it, its name, whether it is an init container, its mounts, its devices."""

    pointer: str
    name: str
    init: bool
    spec: Mapping[str, Any]
    mounts: tuple[Mount, ...]
    devices: tuple[str, ...]

    @property
    def sidecar(self) -> bool:
        """Whether it is a native sidecar: an init container that runs on beside the others."""
        return self.init and self.spec.get("restartPolicy") == "Always"


def containers(spec: Mapping[str, Any]) -> tuple[Container, ...]:
    """Return the init containers and containers of a pod's spec, in its order (ephemeral ones cannot be created).

    Raises ``Malformed`` for a pod without containers.
    """
    if not sequence(spec.get("containers")):
        raise Malformed("it has no containers")
    found = []
    for field, init in (("initContainers", True), ("containers", False)):
        for index, value in enumerate(sequence(spec.get(field))):
            container = mapping(value)
            found.append(
                Container(
                    pointer=f"/spec/{field}/{index}",
                    name=string(container.get("name")),
                    init=init,
                    spec=container,
                    mounts=tuple(_mount(mapping(mount)) for mount in sequence(container.get("volumeMounts"))),
                    devices=tuple(
                        clean_path(string(mapping(device).get("devicePath")))
                        for device in sequence(container.get("volumeDevices"))
                    ),
                )
            )
    return tuple(found)


def _mount(mount: Mapping[str, Any]) -> Mount:
    return Mount(
        path=clean_path(string(mount.get("mountPath"))),
        volume=string(mount.get("name")),
        sub_path=bool(mount.get("subPath") or mount.get("subPathExpr")),
    )


def in_scope(pod: Mapping[str, Any], pod_selector: Mapping[str, str]) -> bool:
    """Return whether a pod is one that forewarn looks after at all.

    Out of scope are: a pod that opted out by label, a static pod's mirror, a DaemonSet's pod, and a pod that the
    selector does not take. Raises ``Malformed``.
    """
    metadata = mapping(pod.get("metadata"))
    labels = mapping(metadata.get("labels"))
    if labels.get(contract.INJECT_LABEL) == contract.INJECT_DISABLED:
        return False
    if MIRROR_ANNOTATION in mapping(metadata.get("annotations")):
        return False
    if any(_is_daemon_set(mapping(owner)) for owner in sequence(metadata.get("ownerReferences"))):
        return False
    return all(labels.get(key) == value for key, value in pod_selector.items())


def _is_daemon_set(owner: Mapping[str, Any]) -> bool:
    return owner.get("kind") == "DaemonSet" and string(owner.get("apiVersion")).startswith("apps/")


def keeps_grace(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod opted out of the grace alone. Raises ``Malformed``."""
    return mapping(mapping(pod.get("metadata")).get("labels")).get(contract.GRACE_LABEL) == contract.GRACE_KEEP


def is_windows(spec: Mapping[str, Any]) -> bool:
    """Return whether a pod is meant for Windows, by its ``os`` or its node selector. Raises ``Malformed``."""
    return (
        mapping(spec.get("os")).get("name") == "windows"
        or mapping(spec.get("nodeSelector")).get("kubernetes.io/os") == "windows"
    )
