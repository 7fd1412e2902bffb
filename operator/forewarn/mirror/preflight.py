"""Before the start: is there a cluster, are the namespaces there, may we do what we are about to do?"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lightkube.core.exceptions import ApiError
from lightkube.models.authorization_v1 import ResourceAttributes, SelfSubjectAccessReviewSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import Namespace

from forewarn import kube
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lightkube import Client
    from lightkube.config.kubeconfig import SingleConfig

    from forewarn.mirror.watch import Scope

Right = tuple[str, str, str, str, str]
"""Namespace (empty for all), verb, group, resource, name (empty for any)."""


def check(config: SingleConfig, scope: Scope, lease: tuple[str, str] | None, *, writes: bool) -> None:
    """Raise ``UserError`` for no cluster, a namespace that is not there, or a right that is missing."""
    client = kube.client(config)
    with kube.explained("reach the cluster"):
        for right in _rights(scope, lease, writes=writes):
            if not _may(client, right):
                raise UserError(
                    "forewarn run mirror", f"no permission to {_words(right)}", "see docs/mirror.md: Rights"
                )
    for namespace in scope.namespaces:
        with kube.explained(f"follow namespace {namespace}"):
            client.get(Namespace, namespace)
    if lease is not None and writes:
        with kube.explained(f"find the Lease {'/'.join(lease)}"):
            _check_lease(client, *lease)


def _check_lease(client: Client, namespace: str, name: str) -> None:
    try:
        client.get(Lease, name, namespace=namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise
        if not _may(client, (namespace, "create", "coordination.k8s.io", "leases", "")):
            raise UserError(
                "forewarn run mirror",
                f"there is no Lease {namespace}/{name}, and no permission to create it",
                "create it, or see docs/mirror.md: Rights",
            ) from None


def _rights(scope: Scope, lease: tuple[str, str] | None, *, writes: bool) -> Iterator[Right]:
    for namespace in scope.namespaces or ("",):
        for verb in ("list", "watch", "get"):
            yield namespace, verb, "", "pods", ""
        for verb in ("list", "get", *(("create", "patch") if writes else ())):
            yield namespace, verb, "events.k8s.io", "events", ""
        if namespace:
            yield namespace, "get", "", "namespaces", namespace
    if scope.everywhere:
        for verb in ("list", "watch"):
            yield "", verb, "", "namespaces", ""
    if lease is not None and writes:
        for verb in ("get", "update"):
            yield lease[0], verb, "coordination.k8s.io", "leases", lease[1]


def _may(client: Client, right: Right) -> bool:
    namespace, verb, group, resource, name = right
    attributes = ResourceAttributes(
        namespace=namespace or None, verb=verb, group=group, resource=resource, name=name or None
    )
    review = SelfSubjectAccessReview(
        metadata=ObjectMeta(), spec=SelfSubjectAccessReviewSpec(resourceAttributes=attributes)
    )
    status = client.create(review).status
    return bool(status and status.allowed)


def _words(right: Right) -> str:
    namespace, verb, group, resource, name = right
    what = f"{resource}.{group}" if group else resource
    what += f"/{name}" if name and resource != "namespaces" else ""
    if resource == "namespaces":
        return f"{verb} {name or 'namespaces'}"
    return f"{verb} {what} in " + (f"namespace {namespace}" if namespace else "all namespaces")


def quiet_kopf() -> None:
    """Leave kopf's warnings and errors, and drop what it says of each event and each step."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
