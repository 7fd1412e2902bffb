"""A checked launch to the text of its manifest. Pure; the same request gives the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn_manifests import compiled
from forewarn_manifests.quoting import literal, printable
from forewarn_manifests.runtime import render as run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn_manifests.request import JobPlan, LaunchRequest, Pair, Toleration

MADE_AGAIN = (contract.EXIT_STOPPED, 143)
"""Exit codes after which a requeued Job's pod is made again, uncounted: it stopped between two units, or by SIGTERM."""
COUNTED = (137,)
"""SIGKILL: a kill after the grace and an out-of-memory kill look the same, so it counts."""


class _Why(dict[str, str]):
    """Where values came from, as comments; nothing for a field that is not in it, or where nobody asked."""

    def __missing__(self, key: str) -> str:
        return ""


def manifest(request: LaunchRequest, explain: bool = False) -> str:
    """Return the manifest as YAML: a Pod, or a Job and, for one of several pods, its headless Service."""
    why = _why(request, explain)
    pod = _pod_view(request, explain)
    job = request.job
    if job is None:
        return "apiVersion: v1\nkind: Pod\n" + run(compiled.pod_body, {"pod": pod, "why": why})
    pod["name"] = pod["generate_name"] = ""
    body = run(compiled.pod_body, {"pod": pod, "why": why})
    view = _job_view(request, job, explain)
    text = "apiVersion: batch/v1\nkind: Job\n" + run(compiled.job_head, {"job": view, "why": why})
    text += "".join(f"    {line}\n" for line in body.splitlines())
    if job.completions is None:
        return text
    return run(compiled.service, {"job": view, "why": why}) + "---\n" + text


def _why(request: LaunchRequest, explain: bool) -> _Why:
    if not explain:
        return _Why()
    given = dict(request.why)
    if request.mode.value == "script" and "script" in given:
        given["command"] = given["script"]
    given.setdefault("command", "the command")
    if request.name:
        given.setdefault("name", given.get("number", "--number"))
    given.setdefault("generate_name", "who calls; the API server completes it")
    fixed = {
        "grace": f"profile {request.profile}",
        "half": "half of the limit",
        "podinfo": "the contract with the reservation controller",
        "subdomain": "the Job's headless Service",
        "security": given.get("team", f"profile {request.profile}"),
    }
    return _Why({key: _comment(value) for key, value in {**given, **fixed}.items()})


def _comment(text: str) -> str:
    """Return a comment at a line's end; what it says is ours, but a profile's name may stand in it."""
    return "  # " + "".join(letter if letter.isprintable() else "?" for letter in text)


def _pairs(pairs: Iterable[Pair], explain: bool, dollars: bool = False) -> list[dict[str, str]]:
    return [
        {
            "key": pair.key,
            "value": literal(pair.value) if dollars else pair.value,
            "why": _comment(pair.why) if explain else "",
        }
        for pair in pairs
    ]


def _pod_view(request: LaunchRequest, explain: bool) -> dict[str, Any]:
    return {
        "name": request.name,
        "generate_name": "" if request.name else request.generate_name,
        "labels": _pairs(request.labels, explain),
        "annotations": _pairs(request.annotations, explain),
        "runtime": request.runtime,
        "grace": request.grace,
        "subdomain": request.name if request.job and request.job.completions else "",
        "node_selector": _pairs(request.node_selector, explain),
        "tolerations": [_toleration(toleration) for toleration in request.tolerations],
        "pull_secrets": request.pull_secrets,
        "security": _security(request),
        "image": request.image,
        "pull_policy": request.pull_policy,
        "command": [literal(word) for word in request.command],
        "args": [literal(word) for word in request.args],
        "home": request.home,
        "ports": request.ports,
        "environment": _pairs(request.environment, explain, dollars=True),
        "cpu_limit": str(request.cpus),
        "cpu_request": str(request.cpus // 2) if request.cpus % 2 == 0 else f"{request.cpus * 500}m",
        "memory_limit": f"{request.memory}Gi",
        "memory_request": f"{request.memory // 2}Gi" if request.memory % 2 == 0 else f"{request.memory * 512}Mi",
        "gpus": request.gpus,
        "gpu_resource": request.gpu_resource,
        **_storage_view(request, explain),
    }


def _storage_view(request: LaunchRequest, explain: bool) -> dict[str, Any]:
    mounts = [
        {
            "name": mount.name,
            "path": mount.path,
            "sub_path": mount.sub_path,
            "read_only": mount.read_only,
            "why": _comment(mount.why) if explain else "",
        }
        for mount in request.mounts
    ]
    mounts.append(
        {
            "name": contract.VOLUME_NAME,
            "path": contract.MOUNT_PATH,
            "sub_path": "",
            "read_only": True,
            "why": _comment("the contract with the reservation controller") if explain else "",
        }
    )
    files = [{"path": name, "field": field} for name, field in request.keys.podinfo_items()]
    if request.whole_map:
        files.append({"path": contract.WHOLE_MAP_FILE, "field": contract.WHOLE_MAP_FIELD_PATH})
    return {
        "mounts": mounts,
        "volumes": [
            {
                "name": mount.name,
                "kind": mount.kind,
                "source": dict(mount.source),
                "why": _comment(mount.why) if explain else "",
            }
            for mount in request.mounts
            if mount.kind
        ],
        "podinfo": {"name": contract.VOLUME_NAME, "files": files},
    }


def _toleration(toleration: Toleration) -> Mapping[str, str]:
    operator = {"operator": "Equal", "value": toleration.value} if toleration.value else {"operator": "Exists"}
    return {"key": toleration.key, **operator, **({"effect": toleration.effect} if toleration.effect else {})}


def _security(request: LaunchRequest) -> dict[str, Any]:
    identity = request.identity
    if identity is None:
        return {}
    numbers = {"runAsUser": identity.user, "runAsGroup": identity.group}
    groups = {"supplementalGroups": list(identity.supplemental)} if identity.supplemental else {}
    return {**{key: number for key, number in numbers.items() if number is not None}, **groups}


def _job_view(request: LaunchRequest, job: JobPlan, explain: bool) -> dict[str, Any]:
    return {
        "name": request.name,
        "generate_name": request.generate_name,
        "labels": _pairs(request.labels, explain),
        "annotations": _pairs(request.annotations, explain),
        "backoff_limit": job.backoff_limit,
        "completions": job.completions,
        "parallelism": job.parallelism,
        "requeue": job.requeue,
        "limit": job.limit,
        "made_again": list(MADE_AGAIN),
        "counted": list(COUNTED),
        "known_codes": sorted([*MADE_AGAIN, *COUNTED]),
    }


def as_json(text: str) -> str:
    """Return the manifest as JSON, two spaces deep."""
    import json

    return printable(json.dumps(as_object(text), ensure_ascii=False, indent=2)) + "\n"


def as_object(text: str) -> dict[str, Any]:
    """Return the manifest as plain values; several documents become a List, so that it is one object."""
    import yaml

    documents: list[dict[str, Any]] = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    return documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
