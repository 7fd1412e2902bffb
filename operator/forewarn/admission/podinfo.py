"""Which volumes of a pod are a podinfo, what each lacks, and where a container has one. Pure."""

from __future__ import annotations

import functools
import posixpath
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn import contract
from forewarn.admission.pod import mapping, sequence, string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.admission.pod import Container, Mount

Item = tuple[str, str]
"""One file of a podinfo: its name and the fieldPath that it projects."""

_PATH_FIELDS = ("path", "keyPath", "certificateChainPath", "credentialBundlePath")
"""Where a source of a projected volume names a file (serviceAccountToken, clusterTrustBundle, podCertificate)."""


@functools.lru_cache(maxsize=8)
def wanted_items(prefix: str, whole_map: bool) -> tuple[Item, ...]:
    """Return the files of a complete podinfo under an annotation prefix, with the whole map where it is asked for."""
    items = contract.Keys(prefix).podinfo_items()
    return (*items, (contract.WHOLE_MAP_FILE, contract.WHOLE_MAP_FIELD_PATH)) if whole_map else items


def item(name: str, field_path: str) -> dict[str, Any]:
    """Return one file of a downward-API volume as the API spells it."""
    return {"path": name, "fieldRef": {"fieldPath": field_path}}


class Source(NamedTuple):
    """A volume that projects the downward API: where its items are, and what it projects at which path."""

    volume: str
    pointer: str
    has_items: bool
    files: Mapping[str, str | None]

    def shows(self, wanted: Item) -> bool:
        """Whether the file is there and projects the field that it should."""
        return self.files.get(wanted[0]) == wanted[1]

    def taken(self, wanted: Item) -> bool:
        """Whether the file's path is taken by something else (also by a directory of that name)."""
        name = wanted[0]
        if name in self.files:
            return self.files[name] != wanted[1]
        return any(path.startswith(name + "/") for path in self.files)


def sources(spec: Mapping[str, Any]) -> dict[str, Source]:
    """Return the volumes that project the downward API, directly or as a source of a projected one, by name."""
    found: dict[str, Source] = {}
    for index, value in enumerate(sequence(spec.get("volumes"))):
        volume = mapping(value)
        name = string(volume.get("name"))
        if (source := _source(volume, name, f"/spec/volumes/{index}")) is not None:
            found.setdefault(name, source)
    return found


def _source(volume: Mapping[str, Any], name: str, where: str) -> Source | None:
    if volume.get("downwardAPI") is not None:
        direct = mapping(volume["downwardAPI"])
        return Source(name, f"{where}/downwardAPI", direct.get("items") is not None, _files(direct))
    if (projected := volume.get("projected")) is None:
        return None
    target: tuple[str, bool] | None = None
    files: dict[str, str | None] = {}
    for index, value in enumerate(sequence(mapping(projected).get("sources"))):
        for kind, given in mapping(value).items():
            if given is None:
                continue
            body = mapping(given)
            files.update(_files(body))
            if kind == "downwardAPI" and target is None:
                target = (f"{where}/projected/sources/{index}/downwardAPI", body.get("items") is not None)
    return None if target is None else Source(name, *target, files)


def _files(body: Mapping[str, Any]) -> dict[str, str | None]:
    files: dict[str, str | None] = {}
    for value in sequence(body.get("items")):
        entry = mapping(value)
        field = mapping(entry.get("fieldRef")).get("fieldPath")
        files[_relative(string(entry.get("path")))] = string(field) if field is not None else None
    for name in _PATH_FIELDS:
        if body.get(name) is not None:
            files[_relative(string(body[name]))] = None
    return files


def _relative(path: str) -> str:
    return posixpath.normpath(path)


class At(Enum):
    """What a container has at /etc/podinfo."""

    NOTHING = "nothing"
    PODINFO = "a downward-API volume"
    SUB_PATH = "a subPath mount of one, which never refreshes"
    TAKEN = "something else, there or above or below it"


def at_mount_path(container: Container, downward: Mapping[str, Source]) -> tuple[At, Mount | None]:
    """Return what a container has at /etc/podinfo, and the mount there."""
    exact = next((mount for mount in container.mounts if mount.path == contract.MOUNT_PATH), None)
    if exact is not None:
        if exact.volume not in downward:
            return At.TAKEN, exact
        return (At.SUB_PATH if exact.sub_path else At.PODINFO), exact
    paths = (*(mount.path for mount in container.mounts), *container.devices)
    return (At.TAKEN if any(_overlaps(path) for path in paths) else At.NOTHING), None


def _overlaps(path: str) -> bool:
    ours = contract.MOUNT_PATH
    return path in (ours, "/") or path.startswith(ours + "/") or ours.startswith(path + "/")


def free_name(taken: set[str]) -> str:
    """Return the name of a new podinfo volume: the first that no volume has, always the same for the same pod."""
    if contract.VOLUME_NAME not in taken:
        return contract.VOLUME_NAME
    name, number = f"{contract.VOLUME_NAME}-forewarn", 1
    while name in taken:
        number += 1
        name = f"{contract.VOLUME_NAME}-forewarn-{number}"
    return name
