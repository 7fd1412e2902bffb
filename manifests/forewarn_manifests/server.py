"""``--server-dry-run``: ask the kubeconfig's cluster whether it would take a manifest; nothing is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml
from lightkube import Client, codecs

from forewarn import kube

if TYPE_CHECKING:
    from lightkube.core.resource import NamespacedResource


def ask(text: str, namespace: str | None, kubeconfig: str | None = None) -> None:
    """Send every document of a manifest as a dry run.

    Raises ``UserError`` for the first that the cluster refuses, and where there is no cluster or no permission.
    """
    config = kube.connect(kubeconfig)
    client: Client = kube.client(config, **({"namespace": namespace} if namespace else {}))
    for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        metadata = document["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}…"
        with kube.explained(f"create {document['kind'].lower()} {name} (a dry run)"):
            client.create(cast("NamespacedResource", codecs.from_dict(document)), dry_run=True)
