"""Nasty arguments and variables arrive in a real container unchanged."""

from __future__ import annotations

import json

import pytest

from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import as_json, manifest
from forewarn_manifests.request import Person
from tests.support.cluster import Cluster

NASTY = [
    "it's",
    'say "hi"',
    "two\nlines\n",
    "tab\tand\rreturn",
    "$(HOME)",
    "$$(HOME)",
    "$$",
    "$",
    "$$$$(NB_USER) $(NB_USER",
    "${HOME} $HOME `id` $(id)",
    "$é",
    "😀 é 中",
    "",
    " ",
    "\\n \\u0041 \\",
    "\u2028\u2029\x85\x7f\ufeff",
    "---",
    "- a: b # c",
    "0444",
    "yes",
    "--help",
    "{{ x }} {% y %}",
    "\x01\x1b[31m",
]
TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['NASTY'], os.environ['HOME']]))"


@pytest.mark.parametrize("form", [manifest, lambda request: as_json(manifest(request))], ids=["yaml", "json"])
def test_nasty_arguments_arrive_unchanged(form: object, cluster: Cluster) -> None:
    if not cluster.image:
        pytest.skip("FOREWARN_IMAGE names no image for a session")
    assert callable(form)
    value = " ".join(NASTY)
    environ = {"K8S_EXPORT_ENV_PREFIX": "POD_", "POD_NASTY": value}
    arguments = flags.parse(["-i", cluster.image, "-N", "nasty", "-B", "--", "python3", "-c", TELL, *NASTY])
    request = launch(arguments, environ, profile.load("launch", "test"), Person("alice", 1000, 1000))
    with cluster.namespace() as namespace:
        cluster.create(namespace, form(request))
        cluster.wait(namespace, "nasty", "jsonpath={.status.phase}=Succeeded")
        told = json.loads(cluster.kubectl("logs", "nasty", f"--namespace={namespace}"))
    assert told == [NASTY, value, "/home/alice"]
