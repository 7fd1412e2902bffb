"""Generated pods: valid ones that an API server accepts, from a seed, and broken ones made of them."""

from __future__ import annotations

import copy
import random
from typing import Any

from forewarn import contract

_KEYS = contract.Keys()
_PATHS = (
    "/data",
    "/etc",
    "/etc/podinfo",
    "/etc/podinfo/",
    "/etc/podinfo/x",
    "/etc/podinfo/a\nb",
    "/etc/podinfox",
    "/home/student",
    "/run/info",
)
_COMMANDS: tuple[list[str] | None, ...] = (
    None,
    None,
    ["python", "train.py"],
    ["bash", "-c", "cd /work; python train.py"],
    ["bash", "-c", "exec python train.py"],
    ["sh", "-c", "trap 'exit 0' TERM; python train.py & wait"],
    ["sleep", "infinity"],
    ["/usr/bin/env", "A=b", "bash", "run.sh"],
)


def pod(seed: int) -> dict[str, Any]:
    """Return the pod of a seed: as a client sends it, with nothing that the API server refuses."""
    chance = random.Random(seed)
    volumes = _volumes(chance)
    names = [volume["name"] for volume in volumes]
    count = chance.choice((1, 1, 1, 2, 3))
    spec: dict[str, Any] = {"containers": [_container(chance, f"c{n}", volumes) for n in range(count)]}
    if chance.random() < 0.3:
        spec["initContainers"] = [
            _container(chance, f"i{n}", volumes, init=True) for n in range(chance.choice((1, 1, 2)))
        ]
    if names or chance.random() < 0.1:
        spec["volumes"] = volumes
    if chance.random() < 0.5:
        spec["terminationGracePeriodSeconds"] = chance.choice((0, 1, 30, 599, 600, 601, 3600))
    for field, odds in (("hostNetwork", 0.1), ("shareProcessNamespace", 0.1), ("hostPID", 0.05)):
        if chance.random() < odds and not (field == "hostPID" and spec.get("shareProcessNamespace")):
            spec[field] = True
    if chance.random() < 0.05:
        spec["nodeSelector"] = {"kubernetes.io/os": chance.choice(("linux", "windows"))}
    if chance.random() < 0.03:
        spec = {"os": {"name": "windows"}, **_without_linux(spec)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(chance), "spec": spec}


def _without_linux(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in spec.items() if key not in ("hostPID", "shareProcessNamespace", "nodeSelector")
    }


def _metadata(chance: random.Random) -> dict[str, Any]:
    metadata: dict[str, Any] = {"generateName": "generated-"}
    labels = {}
    if chance.random() < 0.08:
        labels[contract.INJECT_LABEL] = chance.choice((contract.INJECT_DISABLED, "enabled"))
    if chance.random() < 0.1:
        labels[contract.GRACE_LABEL] = chance.choice((contract.GRACE_KEEP, "raise"))
    if labels or chance.random() < 0.2:
        metadata["labels"] = {**labels, "dsmlp/course": "CSE101"}
    if chance.random() < 0.3:
        metadata["annotations"] = {_KEYS.key(contract.GUARANTEED_UNTIL): "2026-01-01T00:00:00Z"}
    if chance.random() < 0.1:
        kind = chance.choice((("apps/v1", "DaemonSet"), ("batch/v1", "Job"), ("apps/v1", "ReplicaSet")))
        metadata["ownerReferences"] = [
            {"apiVersion": kind[0], "kind": kind[1], "name": "owner", "uid": "00000000-0000-0000-0000-000000000001"}
        ]
    return metadata


def _volumes(chance: random.Random) -> list[dict[str, Any]]:
    volumes = [
        {"name": name, **_volume_source(chance, likely_downward=name in ("podinfo", "about-me"))}
        for name in ("podinfo", "home", "about-me", "podinfo-forewarn")
        if chance.random() < (0.5 if name == "podinfo" else 0.25)
    ]
    chance.shuffle(volumes)
    return volumes


def _volume_source(chance: random.Random, *, likely_downward: bool) -> dict[str, Any]:
    if not likely_downward or chance.random() < 0.25:
        return chance.choice(
            (
                {"emptyDir": {}},
                {"persistentVolumeClaim": {"claimName": "claim"}},
                {"configMap": {"name": "course"}},
                {"projected": {"sources": [{"configMap": {"name": "course"}}]}},
                {"projected": {}},
            )
        )
    downward: dict[str, Any] = {}
    if chance.random() < 0.9:
        downward["items"] = _items(chance)
    if chance.random() < 0.6:
        if chance.random() < 0.2:
            downward["defaultMode"] = 0o400
        return {"downwardAPI": downward}
    sources: list[dict[str, Any]] = [{"downwardAPI": downward}]
    taken = {item["path"] for item in downward.get("items", [])}
    if chance.random() < 0.5 and "guaranteed-until" not in taken:
        sources.insert(
            chance.randrange(2), {"configMap": {"name": "c", "items": [{"key": "k", "path": "guaranteed-until"}]}}
        )
    if chance.random() < 0.3:
        sources.append({"serviceAccountToken": {"path": "token"}})
    return {"projected": {"sources": sources}}


def _items(chance: random.Random) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for name, field in _KEYS.podinfo_items():
        roll = chance.random()
        if roll < 0.5:
            items.append({"path": name, "fieldRef": {"fieldPath": field}})
        elif roll < 0.55:
            items.append({"path": name, "fieldRef": {"fieldPath": "metadata.labels"}})
        elif roll < 0.58:
            items.append({"path": f"{name}/inside", "fieldRef": {"fieldPath": "metadata.name"}})
    if chance.random() < 0.2:
        items.append({"path": "labels", "mode": 0o400, "fieldRef": {"fieldPath": "metadata.labels"}})
    chance.shuffle(items)
    return items


def _container(
    chance: random.Random, name: str, volumes: list[dict[str, Any]], *, init: bool = False
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": "example.org/session:1"}
    mounts = _mounts(chance, volumes)
    if mounts or chance.random() < 0.1:
        container["volumeMounts"] = mounts
    command = chance.choice(_COMMANDS)
    if command is not None:
        container["command"] = command
    if chance.random() < 0.2:
        field = chance.choice((_KEYS.podinfo_items()[1][1], "metadata.name", "metadata.annotations['other']"))
        container["env"] = [{"name": "A", "value": "b"}, {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": field}}}]
    if init:
        if chance.random() < 0.4:
            container["restartPolicy"] = "Always"
    elif chance.random() < 0.1:
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", chance.choice(("5", "700", "20m"))]}}}
    return container


def _mounts(chance: random.Random, volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    mounts: dict[str, dict[str, Any]] = {}
    for volume in volumes:
        path = chance.choice(_PATHS)
        if path in mounts or chance.random() < 0.4:
            continue
        mounts[path] = {"name": volume["name"], "mountPath": path}
        if chance.random() < 0.15:
            mounts[path]["subPath"] = "termination-warning-at"
        if chance.random() < 0.3:
            mounts[path]["readOnly"] = True
    return list(mounts.values())


def broken(seed: int) -> dict[str, Any]:
    """Return a pod with some of its values replaced by values of other types, as no client should send it."""
    chance = random.Random(seed)
    made = copy.deepcopy(pod(seed))
    for _ in range(chance.choice((1, 1, 2, 4))):
        _break(chance, made)
    return made


def _break(chance: random.Random, tree: Any) -> None:
    rubbish: Any = chance.choice(
        (None, True, 0, -1, 1.5, 10**30, "", "x", "\x00\u2028", [], {}, [None], {"": None}, [[]])
    )
    place = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.8:
            place = place[key]
            continue
        place[key] = rubbish
        return
