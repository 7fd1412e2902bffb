"""What a foreign cluster does not let end-to-end tests do is found out, so that they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apiserver import ApiServer
from tests.support.cluster import Cluster


@pytest.fixture
def cluster(api_server: ApiServer) -> Cluster:
    return Cluster("foreign", str(api_server.kubeconfig))


def test_a_namespace_that_takes_no_host_path_says_so(cluster: Cluster, namespace: str) -> None:
    assert cluster.why_no_host_path(namespace) == ""
    for level in ("baseline", "restricted"):
        cluster.kubectl("label", "namespace", namespace, "--overwrite", f"pod-security.kubernetes.io/enforce={level}")
        cluster.until(lambda: cluster.why_no_host_path(namespace), "the level to count", 10)
        assert cluster.why_no_host_path(namespace).startswith("this cluster takes no pod with a hostPath: ")


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[str]]:
    """Three nodes, of which one takes no pods."""
    names = ["one", "two", "closed"]
    for name in names:
        cluster.create("", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        # The API server gives a new node a taint that a controller takes away once it is ready.
        taints = '[{"key": "k", "effect": "NoSchedule"}]' if name == "closed" else "[]"
        cluster.kubectl("patch", "node", name, f'--patch={{"spec": {{"taints": {taints}}}}}', "--type=merge")
    yield names
    cluster.kubectl("delete", "nodes", *names, "--ignore-not-found")


def test_several_nodes_are_told_and_those_that_take_no_pods_do_not_count(cluster: Cluster, nodes: list[str]) -> None:
    assert cluster.why_not_one_node() == "one node is needed, and this cluster has 2"
    cluster.kubectl("delete", "node", nodes[0])
    assert cluster.why_not_one_node() == ""
