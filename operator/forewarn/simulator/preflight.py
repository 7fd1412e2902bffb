"""What is found out before a scenario touches the cluster: the namespace, the rights, each manifest, the clocks."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from httpx2.websockets import WebSocketUpgradeError
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.core_v1 import Namespace, Pod
from lightkube.types import PatchType

from forewarn import kube
from forewarn.errors import UserError
from forewarn.simulator import model, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from lightkube import AsyncClient

FIELD_MANAGER = "forewarn-simulate"
EXEC_GET, EXEC_CREATE = ("get", "pods/exec"), ("create", "pods/exec")
"""Both are asked of an exec over a WebSocket since Kubernetes 1.35, unless the cluster's feature gate
AuthorizePodWebsocketUpgradeCreatePermission is off (KEP-4006); before, ``get`` alone was."""
WholePod: Any = create_namespaced_resource("", "v1", "Pod", "pods")
"""A pod as it was written: lightkube's own class would drop each field that it does not know."""


class Pods:
    """The requests that make and change the pods of a namespace."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def create(self, source: model.NewPod, dry_run: bool = False) -> Pod:
        """Create a pod; raises ``ApiError`` where the API server refuses it."""
        named = source.manifest["metadata"].get("namespace")
        if named not in (None, self._namespace):
            raise UserError(
                str(source.place),
                f"pod {source.name!r} is for namespace {named!r}, not {self._namespace!r}",
                f"leave it out, or give -n {named}",
            )
        create: Any = self._client.create  # its overloads leave out the pods
        made = await create(
            WholePod(source.manifest), namespace=self._namespace, field_manager=FIELD_MANAGER, dry_run=dry_run
        )
        return msgspec.convert(made.to_dict(), Pod)

    async def annotate(self, name: str, annotations: dict[str, str | None], dry_run: bool = False) -> Pod:
        """Write annotations in one patch; ``None`` takes one away."""
        pod: Pod = await self._client.patch(
            Pod,
            name,
            {"metadata": {"annotations": annotations}},
            namespace=self._namespace,
            patch_type=PatchType.MERGE,
            field_manager=FIELD_MANAGER,
            dry_run=dry_run,
        )
        return pod


async def preflight(
    scenario: model.Scenario, client: AsyncClient, namespace: str, clock: Callable[[], datetime]
) -> timedelta:
    """Find out, changing nothing, whether a scenario can be played; returns what our clock lacks against the server's.

    Raises ``UserError`` where the namespace, a right or a pod is missing, or a manifest is refused.
    """
    with kube.explained(f"use namespace {namespace}"):
        try:
            await client.get(Namespace, namespace)
        except ApiError as error:
            # Whoever may not read the Namespace object may well work inside it.
            if error.status.code != 403:
                raise
        rights = needed_rights(scenario)
        answers = await asyncio.gather(*(_may(client, namespace, *right) for right in rights))
        missing = [right for right, allowed in zip(rights, answers, strict=True) if not allowed]
        # Whether create is asked for shows only to a user who has get: others are refused either way.
        if EXEC_CREATE in missing and (EXEC_GET in missing or await _may_exec(client, namespace)):
            missing.remove(EXEC_CREATE)
    if missing:
        raise UserError(
            f"namespace {namespace}",
            f"the kubeconfig's user may not {', '.join(map(' '.join, missing))} there",
            "this scenario needs that; use a namespace or a kubeconfig that has it",
        )
    pods = Pods(client, namespace)
    offset = timedelta()
    for source in scenario.pods:
        sent = clock()
        if isinstance(source, model.NewPod):
            server = await _try_manifest(pods, source, namespace)
        else:
            server = await _try_existing(pods, source.real_name, namespace)
        if server is not None:
            offset = seen.clock_offset(sent, clock(), server) or offset
    return offset


async def _may(client: AsyncClient, namespace: str, verb: str, resource: str) -> bool:
    name, _, sub = resource.partition("/")
    name, _, group = name.partition(".")
    attributes = ResourceAttributes(namespace=namespace, verb=verb, group=group, resource=name, subresource=sub)
    spec = SelfSubjectAccessReviewSpec(resourceAttributes=attributes)
    answer = await client.create(SelfSubjectAccessReview(spec=spec))
    return bool(answer.status and answer.status.allowed)


async def _may_exec(client: AsyncClient, namespace: str) -> bool:
    """Ask as the reader of the files will: whoever may exec is told that there is no such pod."""
    try:
        await client.exec("_", namespace=namespace, command=["true"], stdout=True)  # no pod can be named so
    except WebSocketUpgradeError as error:
        if error.response.status_code == 403:
            return False
        if error.response.status_code != 404:
            raise
    return True


async def _try_manifest(pods: Pods, source: model.NewPod, namespace: str) -> datetime | None:
    """Return the server's time of a creation that is only tried."""
    with kube.explained(f"create pod {source.name!r} in namespace {namespace}"):
        pod = await pods.create(source, dry_run=True)
    return pod.metadata.creationTimestamp if pod.metadata else None


async def _try_existing(pods: Pods, name: str, namespace: str) -> datetime | None:
    """Return the server's time of a patch that is only tried."""
    with kube.explained(f"follow pod {name} in namespace {namespace}"):
        pod = await pods.annotate(name, {"forewarn/clock": "x"}, dry_run=True)
    fields = (pod.metadata.managedFields if pod.metadata else None) or ()
    return max((entry.time for entry in fields if entry.manager == FIELD_MANAGER and entry.time), default=None)


def needed_rights(scenario: model.Scenario) -> list[tuple[str, str]]:
    """Return the (verb, resource) pairs that a scenario needs in its namespace, spelled as for kubectl."""
    rights = {("list", "pods"): None, ("watch", "pods"): None}
    for pod in scenario.pods:
        # An existing pod is patched in the dry run that shows the server's clock.
        verbs = ("get", "patch") if isinstance(pod, model.ExistingPod) else ("create", "delete")
        rights |= dict.fromkeys((verb, "pods") for verb in verbs)
    steps: Iterable[model.Step] = (*scenario.steps, *scenario.cleanup)
    of_kind: dict[type[Any], tuple[tuple[str, str], ...]] = {
        model.Write: (("patch", "pods"),),
        model.Delete: (("delete", "pods"),),
        model.FileHolds: (EXEC_GET, EXEC_CREATE),
        model.EventCount: (("list", "events.events.k8s.io"), ("watch", "events.events.k8s.io")),
        model.Signalled: (("get", "pods/log"),),
        model.LogHas: (("get", "pods/log"),),
    }
    for step in steps:
        for kind in (type(step.action), type(step.condition)):
            rights |= dict.fromkeys(of_kind.get(kind, ()))
    return list(rights)
