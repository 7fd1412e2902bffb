"""Where a manifest has pod templates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn.admission.pod import printable
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]

_TEMPLATE: Path = ("spec", "template")
KNOWN: dict[str, tuple[Path, ...]] = {
    "Pod": ((),),
    "PodTemplate": (("template",),),
    "Deployment": (_TEMPLATE,),
    "StatefulSet": (_TEMPLATE,),
    "ReplicaSet": (_TEMPLATE,),
    "ReplicationController": (_TEMPLATE,),
    "Job": (_TEMPLATE,),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
}
"""Kind → where its pod templates are, from its root."""

KUBEFLOW = "kubeflow.org/"
"""API group of PyTorchJob, MPIJob and their kin: a template for each role under ``spec.*ReplicaSpecs``."""

_GROUPS = {
    **dict.fromkeys(("Pod", "PodTemplate", "ReplicationController"), ("",)),
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet"), ("apps", "extensions")),
    "StatefulSet": ("apps",),
    **dict.fromkeys(("Job", "CronJob"), ("batch",)),
}
"""Kind → the API groups in which it is Kubernetes' own."""

ANY = "*"


@dataclass(frozen=True)
class Template:
    """One pod template: what owns it (``Job/train``, with the role where it has several), its path, and its claims.

    ``pod`` is as it was written, which may be anything. ``named`` is whether ``--pod-template`` names its place.
    """

    owner: str
    path: Path
    pod: Any
    claims: tuple[str, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class Note:
    """A document that is passed through although it runs pods, and why."""

    owner: str
    text: str


def parse_path(text: str) -> Path:
    """Read ``--pod-template``: ``spec.roles.*.template``, or ``/spec/roles/*/template`` where a key holds a dot.

    Raises ``UserError``.
    """
    words = text[1:].split("/") if text.startswith("/") else text.split(".")
    if not all(words):
        raise UserError(
            "--pod-template",
            f"{text!r} has an empty part",
            "allowed: spec.template, spec.roles.*.template or /spec/a.b/template",
        )
    return tuple(word.replace("~1", "/").replace("~0", "~") for word in words)


def nothing_there(source: str) -> str:
    """Say that ``--pod-template`` names a place that no document of a file has."""
    return f"{source}: no document has a pod template at --pod-template"


def find(document: Any, extra: Path | None = None, where: Path = ()) -> Iterator[Template | Note]:
    """Yield the pod templates of one document, in its order; ``extra`` is where a kind that is not known has one."""
    if not isinstance(document, Mapping):
        return
    kind, version = str(document.get("kind") or ""), str(document.get("apiVersion") or "")
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            # The items of a PodList name no kind and no version of their own.
            named = item
            if isinstance(item, Mapping) and not item.get("kind"):
                named = {"apiVersion": version, **item, "kind": kind[:-4]}
            yield from find(named, extra, (*where, "items", index))
        return
    owner = printable(f"{kind or 'object'}/{_name(document)}")
    known = _is_kubernetes_own(kind, version)
    if kind == "DaemonSet" and known:
        yield Note(owner, "a DaemonSet's pods are no sessions: passed through")
        return
    patterns = KNOWN.get(kind, ()) if known else ()
    if version.startswith(KUBEFLOW):
        spec = document.get("spec")
        roles = [key for key in spec if str(key).endswith("ReplicaSpecs")] if isinstance(spec, Mapping) else []
        patterns = tuple(("spec", role, ANY, "template") for role in roles)
    if not patterns and extra is not None:
        patterns = (extra,)
    claims = tuple(_claims(document)) if kind == "StatefulSet" and known else ()
    for pattern in patterns:
        for path, roles_of, pod in _walk(document, pattern, certain=pattern is not extra):
            label = printable(" ".join((owner, *roles_of)))
            yield Template(label, (*where, *path), pod, claims, named=pattern == extra)


def _is_kubernetes_own(kind: str, version: str) -> bool:
    # Without a version, as in a snippet, the kind alone tells.
    return not version or (version.rpartition("/")[0] in _GROUPS.get(kind, ()))


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return str(metadata.get("name") or metadata.get("generateName") or "(unnamed)")


def _claims(document: Mapping[str, Any]) -> Iterator[str]:
    spec = document.get("spec")
    claims = spec.get("volumeClaimTemplates") if isinstance(spec, Mapping) else None
    for claim in claims if isinstance(claims, list) else ():
        if isinstance(claim, Mapping):
            yield _name(claim)


def _is_pod(value: Any, certain: bool) -> bool:
    """Whether to look at a value as a pod; where a pod template is ``certain``, also at what cannot be one."""
    return value is not None if certain else isinstance(value, Mapping) and isinstance(value.get("spec"), Mapping)


def _walk(place: Any, pattern: Path, certain: bool) -> Iterator[tuple[Path, tuple[str, ...], Any]]:
    if not pattern:
        if _is_pod(place, certain):
            yield (), (), place
        return
    word, rest = pattern[0], pattern[1:]
    keys: list[str | int] = []
    if word == ANY and isinstance(place, (Mapping, list)):
        keys = list(place) if isinstance(place, Mapping) else list(range(len(place)))
    elif isinstance(place, Mapping) and word in place:
        keys = [word]
    elif isinstance(place, list) and str(word).isdigit() and int(word) < len(place):
        keys = [int(word)]
    for key in keys:
        for path, roles, pod in _walk(place[key], rest, certain):
            yield (key, *path), ((str(key), *roles) if word == ANY else roles), pod
