"""The decision as a MutatingAdmissionPolicy: CEL generated from the same contract, for clusters that have it. Pure.

One JSONPatch mutation does all of it: ``downwardAPI.items`` is an atomic list, which an ApplyConfiguration may not
touch, and a JSONPatch keeps what it does not name. What CEL cannot decide as the function does is not decided at all:
``UNDECIDED`` lists it, and such a pod is left as it is. A policy emits no warnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.admission.registration import (
    NOT_A_STATIC_MIRROR,
    NOT_OF_A_DAEMON_SET,
    namespace_selector,
    object_selector,
    quoted,
)

if TYPE_CHECKING:
    from forewarn.admission.inject import InjectSettings

API_GROUP = "admissionregistration.k8s.io"
MOST_CONTAINERS, MOST_VOLUMES, MOST_SOURCES, MOST_NAMES = 32, 64, 16, 9
"""CEL cannot count: it walks these many places of a list."""

UNDECIDED = (
    "a mount path with `..` in it",
    "a file of a podinfo whose path is written with `.`, `..` or a doubled slash, or stands there twice",
    f"more than {MOST_CONTAINERS} containers or init containers, more than {MOST_VOLUMES} volumes, more than"
    f" {MOST_SOURCES} sources in a projected one",
    f"volumes that take our name and its first {MOST_NAMES - 1} substitutes",
    "so many mounts and volumes that the API server's budget for CEL is spent (say 300 mounts in 64 containers each)",
)
"""Pods that the policy leaves as they are although the function would change them."""

_START, _SEP, _END = r"^(\./+|/+)*", r"(/+\.)*/+", r"(/+\.?)*$"
_EXACT = _START + _SEP.join(contract.MOUNT_PATH.strip("/").split("/")) + _END


def _overlapping() -> str:
    parts = contract.MOUNT_PATH.strip("/").split("/")
    above = [_START + r"\.?$", *(_START + _SEP.join(parts[:n]) + _END for n in range(1, len(parts)))]
    below = _START + _SEP.join(parts) + "/"
    return "|".join(f"({each})" for each in (*above, _EXACT, below))


# The API keeps a projected volume without sources as one whose sources are null, which `has` takes for a value.
_HAS_SOURCES = "(has(v.projected) && has(v.projected.sources) && dyn(v.projected.sources) != null)"
_DOWNWARD = f"(has(v.downwardAPI) || ({_HAS_SOURCES} && v.projected.sources.exists(s, has(s.downwardAPI))))"
_UP = r"(^|/)\.\.(/|$)"
_PLAIN_ITEM = r"^([^./][^/]*|\.[^./][^/]*|\.\.[^/]+)(/([^./][^/]*|\.[^./][^/]*|\.\.[^/]+))*$"


def _needy(container: str) -> str:
    """Return the condition under which a container has nothing at, above or below the mount path."""
    overlaps = quoted(_overlapping())
    return (
        f"(!has({container}.volumeMounts) || {container}.volumeMounts.all(m, !m.mountPath.matches({overlaps})))"
        f" && (!has({container}.volumeDevices)"
        f" || {container}.volumeDevices.all(d, !d.devicePath.matches({overlaps})))"
    )


def _listed(owner: str) -> str:
    return f"(has({owner}) && has({owner}.items) ? {owner}.items.map(i, i.path) : [])"


def _paths() -> str:
    """Return, for each volume, the paths that it projects: one list for each source."""
    single = [
        f"(has(s.{owner}) && has(s.{owner}.{name}) ? [s.{owner}.{name}] : [])"
        for owner, names in (
            ("serviceAccountToken", ("path",)),
            ("clusterTrustBundle", ("path",)),
            ("podCertificate", ("keyPath", "certificateChainPath", "credentialBundlePath")),
        )
        for name in names
    ]
    in_source = " + ".join((*(_listed(f"s.{kind}") for kind in ("downwardAPI", "configMap", "secret")), *single))
    return (
        f"variables.volumes.map(v, has(v.downwardAPI) ? [{_listed('v.downwardAPI')}]"
        f" : ({_HAS_SOURCES} ? v.projected.sources.map(s, {in_source}) : []))"
    )


def _pointers() -> str:
    """Return, for each volume, the pointer of its ``downwardAPI``; a projected one's first such source."""
    sources = "variables.volumes[n].projected.sources"
    first = f"{_range(MOST_SOURCES)}.filter(k, k < size({sources}) && has({sources}[k].downwardAPI))[0]"
    return (
        f"{_range(MOST_VOLUMES)}.filter(n, n < size(variables.volumes)).map(n,"
        f" !(variables.volumes[n].name in variables.downward) ? ''"
        " : '/spec/volumes/' + string(n) + (has(variables.volumes[n].downwardAPI) ? '/downwardAPI'"
        f" : '/projected/sources/' + string({first}) + '/downwardAPI'))"
    )


def _item(name: str, field_path: str) -> str:
    kind = "Object.spec.volumes.downwardAPI.items"
    return f"{kind}{{path: {quoted(name)}, fieldRef: {kind}.fieldRef{{fieldPath: {quoted(field_path)}}}}}"


def _range(most: int) -> str:
    return f"[{', '.join(str(number) for number in range(most))}]"


def variables(settings: InjectSettings) -> list[dict[str, str]]:
    """Return the policy's variables, in the order in which they build on one another."""
    names = [contract.VOLUME_NAME, f"{contract.VOLUME_NAME}-forewarn"]
    names += [f"{contract.VOLUME_NAME}-forewarn-{number}" for number in range(2, MOST_NAMES)]
    exact, ours = quoted(_EXACT), quoted(contract.VOLUME_NAME)
    goes_up = quoted(_UP)
    decidable = (
        f"size(variables.inits) <= {MOST_CONTAINERS}",
        f"size(object.spec.containers) > 0 && size(object.spec.containers) <= {MOST_CONTAINERS}",
        f"size(variables.volumes) <= {MOST_VOLUMES}",
        "size(variables.free) > 0",
        f"variables.everyone.all(c, (!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.matches({goes_up})))"
        f" && (!has(c.volumeDevices) || c.volumeDevices.all(d, !d.devicePath.matches({goes_up}))))",
        f"variables.volumes.all(v, !{_HAS_SOURCES} || size(v.projected.sources) <= {MOST_SOURCES})",
        f"variables.targets.all(n, variables.paths[n].all(l, l.all(p, p.matches({quoted(_PLAIN_ITEM)}))"
        + "".join(f" && l.filter(p, p == {quoted(name)}).size() < 2" for name, _ in settings.items)
        + "))",
    )
    table = {
        "inits": "has(object.spec.initContainers) ? object.spec.initContainers : []",
        "volumes": "has(object.spec.volumes) ? object.spec.volumes : []",
        "everyone": "variables.inits + object.spec.containers",
        "downward": f"variables.volumes.filter(v, {_DOWNWARD}).map(v, v.name)",
        "used": "variables.everyone.filter(c, has(c.volumeMounts))"
        f".map(c, c.volumeMounts.filter(m, m.mountPath.matches({exact}))).filter(l, size(l) > 0).map(l, l[0])"
        ".filter(m, m.name in variables.downward && !has(m.subPath) && !has(m.subPathExpr)).map(m, m.name)",
        "needyInits": f"{_range(MOST_CONTAINERS)}.filter(n, n < size(variables.inits)"
        f" && {_needy('variables.inits[n]')})",
        "needy": f"{_range(MOST_CONTAINERS)}.filter(n, n < size(object.spec.containers)"
        f" && {_needy('object.spec.containers[n]')})",
        "mounts": "size(variables.needyInits) + size(variables.needy) > 0",
        "free": f"[{', '.join(quoted(name) for name in names)}].filter(n, !variables.volumes.exists(v, v.name == n))",
        "made": f"variables.mounts && !({ours} in variables.downward) && size(variables.used) == 0",
        "ours": f"{ours} in variables.downward ? {ours}"
        " : (size(variables.used) > 0 ? variables.used[0] : variables.free[0])",
        "completed": "variables.used + (variables.mounts && !variables.made ? [variables.ours] : [])",
        "paths": _paths(),
        "pointers": _pointers(),
        "targets": f"{_range(MOST_VOLUMES)}.filter(n, n < size(variables.volumes)"
        " && variables.volumes[n].name in variables.completed)",
        "decidable": " && ".join(decidable),
    }
    return [{"name": name, "expression": expression} for name, expression in table.items()]


def mutation(settings: InjectSettings) -> str:
    """Return the mutation's expression: a list of JSONPatch operations."""
    items = ", ".join(_item(*item) for item in settings.items)
    volume = (
        "Object.spec.volumes{name: variables.ours, downwardAPI: Object.spec.volumes.downwardAPI{items: ["
        + items
        + "]}}"
    )
    operations = [
        "(!variables.made ? [] : (has(object.spec.volumes)"
        f" ? [JSONPatch{{op: 'add', path: '/spec/volumes/-', value: {volume}}}]"
        f" : [JSONPatch{{op: 'add', path: '/spec/volumes', value: [{volume}]}}]))",
        *(_mounts(field, needy) for field, needy in (("initContainers", "needyInits"), ("containers", "needy"))),
        # A volume without items gets an empty list first; each missing file is then appended.
        "variables.targets.filter(n, has(variables.volumes[n].downwardAPI)"
        " ? !has(variables.volumes[n].downwardAPI.items)"
        " : !has(variables.volumes[n].projected.sources.filter(s, has(s.downwardAPI))[0].downwardAPI.items))"
        ".map(n, JSONPatch{op: 'add', path: variables.pointers[n] + '/items', value: []})",
        *(
            f"variables.targets.filter(n, !variables.paths[n].exists(l, l.exists(p, p == {quoted(name)}"
            f" || p.startsWith({quoted(name + '/')}))))"
            f".map(n, JSONPatch{{op: 'add', path: variables.pointers[n] + '/items/-', value: {_item(name, field)}}})"
            for name, field in settings.items
        ),
        f"((!has(object.spec.terminationGracePeriodSeconds)"
        f" || object.spec.terminationGracePeriodSeconds < {contract.GRACE_SECONDS})"
        f" && !(has(object.metadata.labels) && {quoted(contract.GRACE_LABEL)} in object.metadata.labels"
        f" && object.metadata.labels[{quoted(contract.GRACE_LABEL)}] == {quoted(contract.GRACE_KEEP)})"
        f" ? [JSONPatch{{op: 'add', path: '/spec/terminationGracePeriodSeconds', value: {contract.GRACE_SECONDS}}}]"
        " : [])",
    ]
    return "!variables.decidable ? [] : (" + "\n + ".join(operations) + ")"


def _mounts(field: str, needy: str) -> str:
    kind = f"Object.spec.{field}.volumeMounts"
    mount = f"{kind}{{name: variables.ours, mountPath: {quoted(contract.MOUNT_PATH)}, readOnly: true}}"
    has_some = f"has(object.spec.{field}[n].volumeMounts)"
    path = f"'/spec/{field}/' + string(n) + '/volumeMounts'"
    return (
        f"variables.{needy}.map(n, {has_some}"
        f" ? JSONPatch{{op: 'add', path: {path} + '/-', value: {mount}}}"
        f" : JSONPatch{{op: 'add', path: {path}, value: [{mount}]}})"
    )


def policy(
    settings: InjectSettings, sessions_label: tuple[str, str], *, name: str, namespace: str, version: str
) -> list[dict[str, Any]]:
    """Return the MutatingAdmissionPolicy and its binding. ``version`` is the API's: ``v1`` or ``v1beta1``."""
    api = f"{API_GROUP}/{version}"
    not_windows = (
        "(!has(object.spec.os) || object.spec.os.name != 'windows') && (!has(object.spec.nodeSelector)"
        " || !('kubernetes.io/os' in object.spec.nodeSelector)"
        " || object.spec.nodeSelector['kubernetes.io/os'] != 'windows')"
    )
    return [
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": namespace_selector(sessions_label, ("kube-system", namespace)),
                    "objectSelector": object_selector(settings.pod_selector),
                    "resourceRules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["pods"],
                        }
                    ],
                },
                "matchConditions": [
                    {"name": "not-a-static-mirror", "expression": NOT_A_STATIC_MIRROR},
                    {"name": "not-of-a-daemonset", "expression": NOT_OF_A_DAEMON_SET},
                    {"name": "not-windows", "expression": not_windows},
                ],
                "variables": variables(settings),
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": mutation(settings)}}],
            },
        },
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    ]


def markdown() -> str:
    """Return the pods that the policy leaves as they are, as a Markdown list."""
    return "".join(f"- {case}\n" for case in UNDECIDED)
