"""The one decision of admission: a pod → the patch that gives it what it lacks, and what to warn about. Pure.

Every door (the webhook, ``forewarn inject``, the CEL policy's tests) uses it; rules.py says in words what it does.
When in doubt it leaves the pod as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn import contract
from forewarn.admission import findings, podinfo
from forewarn.admission.pod import (
    Malformed,
    containers,
    in_scope,
    integer,
    is_windows,
    keeps_grace,
    mapping,
    sequence,
    string,
)
from forewarn.admission.podinfo import At

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from forewarn.admission.findings import Finding
    from forewarn.admission.pod import Container
    from forewarn.admission.podinfo import Item, Source


@dataclass(frozen=True, slots=True)
class InjectSettings:
    """What the decision depends on beside the pod: the key prefix, the whole map, the pod selector (equal labels)."""

    prefix: str = contract.DEFAULT_PREFIX
    whole_map: bool = False
    pod_selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def items(self) -> tuple[Item, ...]:
        """The files of a complete podinfo: (name, fieldPath), in order."""
        return podinfo.wanted_items(self.prefix, self.whole_map)


class Operation(NamedTuple):
    """One ``add`` of a JSON patch (RFC 6902): nothing else is ever done to a pod."""

    path: str
    value: Any
    op: str = "add"

    def document(self) -> dict[str, Any]:
        """Return the operation as it is written in a patch."""
        return {"op": self.op, "path": self.path, "value": self.value}


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a pod: the patch, in order, and what was found."""

    patch: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The findings as sentences, each short enough for the API server to pass it on whole."""
        return tuple(finding.text for finding in self.findings)

    def documents(self) -> list[dict[str, Any]]:
        """Return the patch as a JSON document."""
        return [operation.document() for operation in self.patch]


NOTHING = Decision()


def decide(pod: Mapping[str, Any], settings: InjectSettings, claims: Collection[str] = ()) -> Decision:
    """Return what a pod lacks, as a patch, and what is wrong with it, as warnings.

    ``pod`` is a Pod or a pod template (``metadata`` and ``spec``); it is not changed. ``claims`` are volumes that the
    pod's owner will add (a StatefulSet's volumeClaimTemplates). Never raises on content: a pod of a shape that the API
    server would refuse is left for it to refuse.
    """
    try:
        return decide_readable(pod, settings, claims, findings.JUDGED_CHARACTERS)
    except Malformed:
        return NOTHING


def decide_readable(
    pod: Mapping[str, Any], settings: InjectSettings, claims: Collection[str] = (), judged: float = math.inf
) -> Decision:
    """Do as ``decide``, but raise ``Malformed`` for a pod that cannot be read.

    ``judged`` is how many characters of its command lines are read, which only the webhook bounds.
    """
    if not in_scope(mapping(pod), settings.pod_selector):
        return NOTHING
    if pod.get("spec") is None:
        raise Malformed("it has no spec")
    spec = mapping(pod["spec"])
    if is_windows(spec):
        return Decision((), (findings.windows(),))
    return _decide(pod, spec, settings, claims, judged)


def _decide(
    pod: Mapping[str, Any], spec: Mapping[str, Any], settings: InjectSettings, claims: Collection[str], judged: float
) -> Decision:
    everyone = containers(spec)
    downward = {name: source for name, source in podinfo.sources(spec).items() if name not in claims}
    places = [(container, *podinfo.at_mount_path(container, downward)) for container in everyone]
    used = dict.fromkeys(mount.volume for _, at, mount in places if at is At.PODINFO and mount is not None)
    needy = [container for container, at, _ in places if at is At.NOTHING]

    patch: list[Operation] = []
    if needy:
        ours = _volume_to_mount(downward, used)
        if ours is None:
            names = {string(mapping(each).get("name")) for each in sequence(spec.get("volumes"))}
            ours = podinfo.free_name(names | {*claims})
            patch.append(_add_to(spec.get("volumes"), "/spec/volumes", _new_volume(ours, settings)))
        else:
            used[ours] = None
        patch.extend(_mount(container, ours) for container in needy)
    for name in used:
        patch.extend(_complete(downward[name], settings))

    grace = integer(spec.get("terminationGracePeriodSeconds"))
    if (grace is None or grace < contract.GRACE_SECONDS) and not keeps_grace(pod):
        grace = contract.GRACE_SECONDS
        patch.append(Operation("/spec/terminationGracePeriodSeconds", grace))
    found = findings.find(spec, places, downward, used, settings.items, settings.prefix, grace, judged)
    return Decision(tuple(patch), found)


def _volume_to_mount(downward: Mapping[str, Source], used: Mapping[str, None]) -> str | None:
    return contract.VOLUME_NAME if contract.VOLUME_NAME in downward else next(iter(used), None)


def _new_volume(name: str, settings: InjectSettings) -> dict[str, Any]:
    return {"name": name, "downwardAPI": {"items": [podinfo.item(*wanted) for wanted in settings.items]}}


def _mount(container: Container, volume: str) -> Operation:
    mount = {"name": volume, "mountPath": contract.MOUNT_PATH, "readOnly": True}
    return _add_to(container.spec.get("volumeMounts"), f"{container.pointer}/volumeMounts", mount)


def _add_to(present: Any, path: str, value: Any) -> Operation:
    return Operation(path, [value]) if present is None else Operation(f"{path}/-", value)


def _complete(source: Source, settings: InjectSettings) -> list[Operation]:
    missing = [
        podinfo.item(*wanted) for wanted in settings.items if not source.shows(wanted) and not source.taken(wanted)
    ]
    if not missing:
        return []
    if not source.has_items:
        return [Operation(f"{source.pointer}/items", missing)]
    return [Operation(f"{source.pointer}/items/-", each) for each in missing]
