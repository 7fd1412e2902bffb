"""Puts the operator into a cluster by its chart, and waits until it works."""

from __future__ import annotations

import time
import uuid

from forewarn import contract
from forewarn.errors import UserError
from tests.kind.cluster import AN_IMAGE, IMAGE_VARIABLE, Cluster, image_parts, kubectl, make_namespace, releases
from tests.kind.places import CHART, MADE_SELECTOR, NAMESPACE, RELEASE, bin_directory
from tests.kind.progress import Steps

STEPS = 1
DEMO = f"{NAMESPACE}-demo"
CALLED_SECONDS = 60.0


def install(steps: Steps, cluster: Cluster, *options: str) -> None:
    """Install or upgrade the chart with the cluster's image; ``options`` are helm's. Waits for both deployments."""
    if not cluster.image:
        raise UserError(IMAGE_VARIABLE, "names no image, and this cluster takes none from here", AN_IMAGE)
    repository, tag = image_parts(cluster.image)
    with steps.step(f"chart {RELEASE} in namespace {NAMESPACE}"):
        make_namespace(cluster.kubeconfig, NAMESPACE)
        ours = [] if RELEASE in releases(cluster) else [f"--labels={MADE_SELECTOR}"]
        steps.run(
            [
                *(
                    bin_directory() / "helm",
                    f"--kubeconfig={cluster.kubeconfig}",
                    "upgrade",
                    "--install",
                    RELEASE,
                    CHART,
                ),
                *(f"--namespace={NAMESPACE}", "--wait", "--timeout=180s"),
                *(f"--set={part}.resources.requests.cpu=10m" for part in ("admission", "mirror")),
                *(f"--set=image.repository={repository}", f"--set-string=image.tag={tag}", *ours, *options),
            ]
        )
        until_called(cluster)


def demo_namespace(cluster: Cluster) -> str:
    """Make the demo's session namespace and return its name."""
    make_namespace(cluster.kubeconfig, DEMO)
    labels = f"{contract.SESSIONS_LABEL}={contract.SESSIONS_ENABLED}"
    kubectl(cluster.kubeconfig, "label", "namespace", DEMO, labels, "--overwrite")
    return DEMO


def until_called(cluster: Cluster) -> None:
    """Wait until the API server calls the webhook: its own caches and the nodes' rules follow a moment later."""
    probe = f"{NAMESPACE}-probe-{uuid.uuid4().hex[:6]}"
    labels = {contract.SESSIONS_LABEL: contract.SESSIONS_ENABLED}
    make_namespace(cluster.kubeconfig, probe, labels)
    run = ("run", "probe", f"--namespace={probe}", "--image=none", "--restart=Never", "--dry-run=server")
    deadline = time.monotonic() + CALLED_SECONDS
    try:
        while True:
            told = _ask(cluster, *run, "--output=jsonpath={.spec.terminationGracePeriodSeconds}")
            if told == str(contract.GRACE_SECONDS):
                return
            if time.monotonic() > deadline:
                raise UserError("the webhook", f"is not called after {CALLED_SECONDS:g} s", told)
            time.sleep(0.2)
    finally:
        kubectl(cluster.kubeconfig, "delete", "namespace", probe, "--wait=false")


def _ask(cluster: Cluster, *arguments: str) -> str:
    # A namespace that has no ServiceAccount yet refuses; that passes.
    try:
        return kubectl(cluster.kubeconfig, *arguments)
    except UserError as error:
        return str(error)
