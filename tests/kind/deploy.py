"""Puts the operator into a cluster by its chart, and waits until it works."""

from __future__ import annotations

from forewarn.errors import UserError
from tests.kind.cluster import IMAGE_VARIABLE, Cluster, kubectl
from tests.kind.places import CHECKOUT, bin_directory
from tests.kind.progress import Steps

CHART = CHECKOUT / "charts" / "forewarn"
STEPS = 1
RELEASE = NAMESPACE = "forewarn"


def install(steps: Steps, cluster: Cluster, *options: str) -> None:
    """Install or upgrade the chart with the cluster's image; ``options`` are helm's. Waits for both deployments."""
    if not cluster.image:
        raise UserError(IMAGE_VARIABLE, "names no image, and this cluster takes none from here", "set it")
    repository, _, tag = cluster.image.rpartition(":")
    with steps.step(f"chart {RELEASE} in namespace {NAMESPACE}"):
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
                *(f"--namespace={NAMESPACE}", "--create-namespace", "--wait", "--timeout=180s"),
                *(f"--set=image.repository={repository}", f"--set-string=image.tag={tag}", *options),
            ]
        )


def wait(cluster: Cluster, deployment: str, seconds: int = 120) -> None:
    """Wait until a deployment of the operator is rolled out."""
    kubectl(
        cluster.kubeconfig,
        *("rollout", "status", f"deployment/{deployment}", f"--namespace={NAMESPACE}", f"--timeout={seconds}s"),
        timeout=seconds + 10,
    )
