"""Whatever a launch is called with: either one line of refusal, or a manifest that the real API server takes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from forewarn.errors import UserError
from forewarn_manifests import flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import manifest
from tests.integration.manifests.test_acceptance import JOBS, PATHS
from tests.support.apiserver import ApiServer
from tests.unit.manifests.golden import ALICE, DIRECTORY

PROFILES = [profile.load(name, "test", (str(DIRECTORY / "profiles"),)) for name in ("launch", "campus", "jupyter")]
GOOD = {
    "cpus": ["1", "8"],
    "memory": ["1", "31"],
    "gpus": ["0", "1"],
    "labels": ["gpu-class=small", "a=b", "job-name=a", "example.edu/a=", "forewarn/inject=disabled"],
    "gpu_model": ["a100"],
    "image": ["python:3.12", "r.example:5/a/b@sha256:" + "0" * 64],
    "pull_policy": ["always", "NEVER"],
    "pull_secrets": ["one,two"],
    "workspace": ["CSE151"],
    "team": ["70001", "1811600513"],
    "sub_paths": ["/data:x/y", "/etc/x:z"],
    "nfs": ["/n:nfs.example.edu:/x,/m:10.0.0.1:/y z"],
    "node": ["7", "a.example.edu"],
    "name": ["alice-1", "a.b", "9a", "a" * 63],
    "tolerations": ["a", "a=b:NoExecute", "x.example/y:NoSchedule"],
    "annotations": ["a=b", "example.edu/é=", "x=\u2028\x01"],
    "mail": ["a@b"],
    "timeout": ["1", "3600"],
    "entrypoint": ["/run", "é $(X)"],
    "port": ["1", "65535"],
    "number": ["1", "9-9"],
    "kind": ["Pod", "Job"],
    "completions": ["1", "3", "64"],
    "parallelism": ["1", "2"],
    "requeue": ["", "=always"],
    "backoff_limit": ["0", "3"],
    "log": ["a.log", "runs/é b.log"],
    "annotation_prefix": ["horae", "galends/"],
    "whole_map": ["true"],
}
SKIPPED = {"help", "dump", "explain", "many", "plan", "profile", "script", "server_dry_run", "namespace", "user"}
odd = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["", "-1", "/", "a/b", "A", "x" * 300, "\0"])


@st.composite
def spelled(draw: st.DrawFn) -> list[str]:
    flag = draw(st.sampled_from([flag for flag in flags.FLAGS if flag.field not in SKIPPED]))
    if not flag.metavar:
        return [f"--{flag.long}"]
    good = GOOD.get(flag.field, ["x"])
    if flag.metavar.startswith("["):
        return [f"--{flag.long}{draw(st.sampled_from(good))}"]
    # Odd values are rare, so that most launches are accepted and reach the API server.
    value = draw(st.sampled_from(good)) if draw(st.integers(0, 14)) else draw(odd)
    return [f"--{flag.long}", value]


variables = st.dictionaries(
    st.sampled_from([flag.variable for flag in flags.FLAGS if flag.variable.startswith(("K8S", "PROXY", "SPAWN"))]),
    st.sampled_from(["", "1", "YES", "no", "python:3"]),
    max_size=1,
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(spelled(), max_size=5),
    command=st.lists(odd, max_size=3),
    environ=variables,
    chosen=st.sampled_from(PROFILES),
)
def test_a_launch_is_refused_in_one_line_or_taken_by_the_api_server(
    words: list[list[str]],
    command: list[str],
    environ: Mapping[str, str],
    chosen: profile.Profile,
    api_server: ApiServer,
    namespace: str,
) -> None:
    refusal, text = "", ""
    try:
        arguments = flags.parse([*(word for pair in words for word in pair), "--", *command])
        text = manifest(launch(arguments, environ, chosen, ALICE))
    except UserError as error:
        refusal = str(error)
    if refusal:
        event("refused")
        assert "\n" not in refusal
        return
    event("taken")
    for document in yaml.safe_load_all(text):
        path = PATHS.get(document["kind"], JOBS).format(namespace)
        status, answer = api_server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", document)
        assert status == 201, json.dumps(answer.get("message", answer))
