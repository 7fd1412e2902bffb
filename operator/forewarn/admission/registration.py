"""The webhook's registration, and the conditions under which a pod's creation calls it. Pure; the chart says the same.

The conditions are total: whatever a pod looks like they are true or false, because one that errs under
``failurePolicy: Ignore`` skips the call in silence, and so does one that spends the API server's budget for CEL: what a
condition looks at is bounded. They only ever skip pods for which the decision is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn import contract, pid_one
from forewarn.admission.app import PATH
from forewarn.admission.pod import MIRROR_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.admission.inject import InjectSettings

WEBHOOK_NAME = "podinfo.forewarn.internal"
TIMEOUT_SECONDS = 2

MOST_CONTAINERS, MOST_VOLUMES, MOST_MOUNTS, MOST_VARIABLES, LONGEST_PROGRAM = 32, 64, 64, 256, 256
"""What the conditions look at in a pod; one with more is asked about."""

NOT_A_STATIC_MIRROR = f"!has(object.metadata.annotations) || !('{MIRROR_ANNOTATION}' in object.metadata.annotations)"
NOT_OF_A_DAEMON_SET = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o,"
    " o.kind == 'DaemonSet' && o.apiVersion.startsWith('apps/'))"
)


def quoted(text: str) -> str:
    """Return a text as a CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lacks_something(settings: InjectSettings) -> str:
    """Return the CEL condition that is false only for a pod that has everything and that nothing is to be said of.

    It knows the plain form alone: one downwardAPI volume of our name with just our files, mounted whole in every
    container. Every other pod is asked about, and a large one too.
    """
    names = ", ".join(quoted(name) for name, _ in settings.items)
    wanted = ", ".join(f"[{quoted(name)}, {quoted(path)}]" for name, path in settings.items)
    programs = "|".join(sorted({*pid_one.SHELLS, *pid_one.PREFIXES, *pid_one.WAITERS}))
    container = " && ".join(
        (
            f"has(c.volumeMounts) && size(c.volumeMounts) <= {MOST_MOUNTS}",
            f"c.volumeMounts.exists(m, m.name == {quoted(contract.VOLUME_NAME)}"
            f" && m.mountPath == {quoted(contract.MOUNT_PATH)})",
            "c.volumeMounts.all(m, !has(m.subPath) && !has(m.subPathExpr))",
            f"(!has(c.env) || size(c.env) <= {MOST_VARIABLES}"
            " && c.env.all(e, !has(e.valueFrom) || !has(e.valueFrom.fieldRef)"
            " || !e.valueFrom.fieldRef.fieldPath.startsWith('metadata.annotations[')))",
            # The first word tells whether anything is to be said of the others.
            f"(!has(c.command) || size(c.command) == 0 || size(c.command[0]) <= {LONGEST_PROGRAM}"
            f" && !c.command[0].matches({quoted(f'(^|/)({programs})$')}))",
            "!has(c.lifecycle)",
        )
    )
    inits = "has(object.spec.initContainers)"
    parts = (
        f"(has(object.spec.terminationGracePeriodSeconds)"
        f" && object.spec.terminationGracePeriodSeconds >= {contract.GRACE_SECONDS})",
        f"size(object.spec.containers) <= {MOST_CONTAINERS}",
        f"(!{inits} || size(object.spec.initContainers) <= {MOST_CONTAINERS})",
        f"has(object.spec.volumes) && size(object.spec.volumes) <= {MOST_VOLUMES}",
        f"object.spec.volumes.exists(v, v.name == {quoted(contract.VOLUME_NAME)} && has(v.downwardAPI)"
        f" && has(v.downwardAPI.items) && size(v.downwardAPI.items) == {len(settings.items)}"
        f" && v.downwardAPI.items.all(i, i.path in [{names}] && has(i.fieldRef)"
        f" && [i.path, i.fieldRef.fieldPath] in [{wanted}])"
        f" && [{names}].all(n, v.downwardAPI.items.exists(i, i.path == n)))",
        f"({inits} ? object.spec.containers + object.spec.initContainers : object.spec.containers).all(c, {container})",
        "(!has(object.spec.os) || object.spec.os.name != 'windows')",
        "(!has(object.spec.nodeSelector) || !('kubernetes.io/os' in object.spec.nodeSelector)"
        " || object.spec.nodeSelector['kubernetes.io/os'] != 'windows')",
    )
    return f"!({' && '.join(parts)})"


def conditions(settings: InjectSettings) -> list[dict[str, str]]:
    """Return the matchConditions, cheapest first."""
    return [
        {"name": "not-a-static-mirror", "expression": NOT_A_STATIC_MIRROR},
        {"name": "not-of-a-daemonset", "expression": NOT_OF_A_DAEMON_SET},
        {"name": "lacks-something", "expression": lacks_something(settings)},
    ]


def namespace_selector(sessions_label: tuple[str, str], never: Sequence[str]) -> dict[str, Any]:
    """Return the selector of session namespaces; ``never`` are left out even if somebody labels them."""
    return {
        "matchLabels": dict([sessions_label]),
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(never)}],
    }


def object_selector(pod_selector: Mapping[str, str]) -> dict[str, Any]:
    """Return the selector of pods: those of the pod selector that have not opted out."""
    selector: dict[str, Any] = {
        "matchExpressions": [{"key": contract.INJECT_LABEL, "operator": "NotIn", "values": [contract.INJECT_DISABLED]}]
    }
    return {"matchLabels": dict(pod_selector), **selector} if pod_selector else selector


def registration(
    settings: InjectSettings,
    sessions_label: tuple[str, str],
    *,
    name: str,
    namespace: str,
    service: str,
    port: int = 443,
) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration, with no caBundle: the replicas write it, and keep it there."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": WEBHOOK_NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"namespace": namespace, "name": service, "path": PATH, "port": port},
                },
                "failurePolicy": "Ignore",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "sideEffects": "None",
                "reinvocationPolicy": "IfNeeded",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": namespace_selector(sessions_label, ("kube-system", namespace)),
                "objectSelector": object_selector(settings.pod_selector),
                "matchConditions": conditions(settings),
            }
        ],
    }
