"""Sets up what the tests need: python -m tests.kind COMMAND. Python 3.11+, nothing installed."""

from __future__ import annotations

import sys

from forewarn.errors import UserError
from tests.kind import cluster, deploy, docker, go, node_image, versions
from tests.kind.places import LOGS, bin_directory
from tests.kind.progress import Steps, exit_code

CLUSTER_LOG = LOGS / "cluster.log"

USAGE = """usage: python -m tests.kind COMMAND

  tools       kube-apiserver, etcd, kubectl, kind and helm into the cache (Go; no docker)
  tools-path  print their folder
  up          a cluster that works: FOREWARN_KUBECONFIG's, else kind's of this checkout
  image       the operator's image, built and put into that cluster
  deploy      both, and the chart installed (or upgraded) in the namespace forewarn
  called      wait until the API server calls the webhook
  demo        make the demo's session namespace there, and print its name
  down        remove this checkout's cluster, and from a foreign one what was put there
  clean       down, and remove this checkout's images, and stop the Docker daemon if it is ours and idle
  distclean   remove the cache too
  node-image  only build the node image"""


def main(argv: list[str]) -> int:
    """Run one command; exit code 2 with one line for what is missing or wrong."""
    actions = {
        "tools": tools,
        "tools-path": tools_path,
        "up": up,
        "image": image,
        "deploy": install,
        "called": called,
        "demo": demo,
        "down": down,
        "clean": clean,
        "distclean": distclean,
        "node-image": build_node_image,
    }
    if len(argv) != 1 or argv[0] not in actions:
        print(USAGE, file=sys.stderr)
        return 2
    return exit_code(actions[argv[0]])


def tools() -> None:
    """Compile what is missing of the tools."""
    steps = Steps(LOGS / "tools.log")
    go.build(steps, go.missing(versions.TOOLS), node_image.ALL)
    steps.say(f"tools: ready in {bin_directory()}")


def tools_path() -> None:
    """Print the folder of the tools."""
    print(bin_directory())


def up() -> None:
    """Make the cluster."""
    cluster.up(Steps(CLUSTER_LOG))


def image() -> None:
    """Make the cluster and put the operator's image into it."""
    steps = Steps(CLUSTER_LOG)
    steps.plan(cluster.image_steps())
    if not cluster.load_image(steps, cluster.up(steps)).image:
        steps.say(f"operator image: {cluster.IMAGE_VARIABLE} names none, so the tests that need one are skipped")


def install() -> None:
    """Make the cluster, put the image into it, install the chart."""
    steps = Steps(CLUSTER_LOG)
    steps.plan(cluster.image_steps() + deploy.STEPS)
    deploy.install(steps, cluster.load_image(steps, cluster.up(steps)))


def called() -> None:
    """Wait until the API server calls the webhook of the cluster in use."""
    deploy.until_called(_known())


def demo() -> None:
    """Make the demo's namespace."""
    print(deploy.demo_namespace(_known()))


def _known() -> cluster.Cluster:
    known = cluster.Cluster.load()
    if known is None:
        raise UserError("cluster", "there is none", "make deploy")
    return known


def down() -> None:
    """Remove the cluster."""
    cluster.down(Steps(CLUSTER_LOG))


def clean() -> None:
    """Remove the cluster and the images."""
    cluster.clean(Steps(CLUSTER_LOG))


def distclean() -> None:
    """Remove the cache as well."""
    cluster.distclean(Steps(CLUSTER_LOG))


def build_node_image() -> None:
    """Only build the node image."""
    steps = Steps(CLUSTER_LOG)
    docker.ensure(steps)
    steps.plan(node_image.steps_needed())
    node_image.build(steps)
    steps.say(f"node image: {node_image.name()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
