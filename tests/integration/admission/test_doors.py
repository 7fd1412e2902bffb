"""Three doors, one behaviour: function, webhook and CEL policy make the same pod, and the API accepts it."""

from __future__ import annotations

import http.client
import json
import math
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.admission import goyaml
from forewarn.admission.inject import InjectSettings, decide
from forewarn.admission.inject_command import inject_text
from forewarn.admission.policy import API_GROUP, policy
from tests.integration.admission.conftest import Installation, Replica
from tests.support.apiserver import ApiServer
from tests.support.waiting import until
from tests.unit.admission import corpus, generated

GENERATED = 2000
KEPT_SECONDS = 20.0
POLICY_LABEL = ("forewarn/sessions-by-policy", "enabled")
SETTINGS = InjectSettings()
REFUSED = ("malformed", "no-containers", "containers-null", "unknown-fields", "pre-stop-sleep")
"""Written cases that the API server refuses, with or without us."""


class Creator:
    """Creates pods by dry-run over connections that are kept, one for each thread."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._context = ssl.create_default_context(cadata=server.ca.decode())
        self._context.load_cert_chain(*server.admin_pair)
        self._local = threading.local()

    def create(self, namespace: str, pod: dict[str, Any]) -> tuple[int, Any]:
        # The API server closes what was idle for 90 s, so a connection is kept for a burst and no longer.
        if time.monotonic() - getattr(self._local, "used", -math.inf) > KEPT_SECONDS:
            self._local.connection = http.client.HTTPSConnection("127.0.0.1", self._server.port, context=self._context)
        self._local.used = time.monotonic()
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        self._local.connection.request("POST", path, json.dumps(pod).encode(), {"Content-Type": "application/json"})
        response = self._local.connection.getresponse()
        return response.status, json.loads(response.read())


@dataclass(frozen=True)
class Doors:
    creator: Creator
    plain: str
    webhook: str
    policy: str
    replica: Replica


@pytest.fixture(scope="module")
def doors(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    installation = Installation(api_server, tmp_path_factory.mktemp("doors"), SETTINGS)
    replica = installation.ready_replica()
    documents = policy(SETTINGS, POLICY_LABEL, name="forewarn-doors", namespace="forewarn", version="v1beta1")
    paths = [
        f"/apis/{API_GROUP}/v1beta1/{plural}"
        for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    ]
    for path, document in zip(paths, documents, strict=True):
        status, answer = api_server.request("POST", path, document)
        assert status == 201, answer
    creator = Creator(api_server)
    made = Doors(
        creator,
        api_server.create_namespace("doors-plain"),
        api_server.create_namespace("doors-webhook", {"forewarn/sessions": "enabled"}),
        api_server.create_namespace("doors-policy", dict([POLICY_LABEL])),
        replica,
    )
    bare = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    until(
        lambda: creator.create(made.policy, bare)[1]["spec"]["terminationGracePeriodSeconds"] == 600,
        "an effect of the policy",
        30,
    )
    yield made
    for path in reversed(paths):
        api_server.request("DELETE", f"{path}/forewarn-doors")
    installation.remove()
    replica.process.stop()


def spec_of(pod: dict[str, Any]) -> dict[str, Any]:
    """Return what counts of a created pod: no random names, volumes by name and mounts by path."""
    text = re.sub(r"kube-api-access-\w+", "kube-api-access", json.dumps(pod["spec"]))
    spec: dict[str, Any] = json.loads(text)
    spec["volumes"] = {volume["name"]: _volume(volume) for volume in spec.get("volumes", [])}
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        container["volumeMounts"] = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
    return spec


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    for source in (volume, *(volume.get("projected", {}).get("sources") or ())):
        # An empty list and none are the same to the API.
        source.get("downwardAPI", {}).setdefault("items", [])
    return volume


def where_they_differ(made: Any, wanted: Any, path: str = "") -> str:
    """Return the first place where two values differ, and both."""
    if isinstance(made, dict) and isinstance(wanted, dict):
        for key in {**made, **wanted}:
            if made.get(key) != wanted.get(key):
                return where_they_differ(made.get(key), wanted.get(key), f"{path}/{key}")
    if isinstance(made, list) and isinstance(wanted, list) and len(made) == len(wanted):
        for index, (one, other) in enumerate(zip(made, wanted, strict=True)):
            if one != other:
                return where_they_differ(one, other, f"{path}/{index}")
    return f"{path}: {json.dumps(made)} instead of {json.dumps(wanted)}"


def pods() -> dict[str, dict[str, Any]]:
    """Return the written corpus (the cases of the default settings, but for what the API refuses) and the generated."""
    written = {name: corpus.load(name) for name in corpus.names()}
    found = {
        f"case {name}": case.pod for name, case in written.items() if case.settings == SETTINGS and name not in REFUSED
    }
    return found | {f"seed {seed}": generated.pod(seed) for seed in range(GENERATED)}


def differences(doors: Doors, judge: Callable[[str, dict[str, Any]], str | None]) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return [said for said in pool.map(lambda item: judge(*item), pods().items()) if said]


@pytest.mark.timeout(900)
def test_what_the_function_returns_is_accepted_and_equals_what_webhook_and_policy_do(doors: Doors) -> None:
    def judge(name: str, pod: dict[str, Any]) -> str | None:
        expected = corpus.apply(pod, decide(pod, SETTINGS).patch)
        status, plain = doors.creator.create(doors.plain, expected)
        if status != 201:
            return f"{name}: refused: {plain['message']}"
        for door in (doors.webhook, doors.policy):
            status, made = doors.creator.create(door, pod)
            if status != 201:
                return f"{name}: {door} refused: {made['message']}"
            if spec_of(made) != spec_of(plain):
                return f"{name}: {door}: {where_they_differ(spec_of(made), spec_of(plain))}"
        return None

    before = doors.replica.metric('forewarn_admission_requests_total{outcome="failed"}')
    found = differences(doors, judge)
    assert not found, "\n".join(found[:10])
    assert doors.replica.metric('forewarn_admission_requests_total{outcome="failed"}') == before


@pytest.mark.timeout(600)
def test_the_third_door_writes_the_same() -> None:
    def judge(name: str, pod: dict[str, Any]) -> str | None:
        text = yaml.dump(pod, sort_keys=False, Dumper=yaml.CSafeDumper)
        read = json.loads(json.dumps(goyaml.load(text)))
        expected = corpus.apply(read, decide(read, SETTINGS).patch)
        return None if goyaml.load(inject_text(name, text, SETTINGS)[0]) == expected else name

    assert [said for said in (judge(*item) for item in pods().items()) if said] == []


def test_a_creation_that_costs_no_call_lacks_nothing(doors: Doors) -> None:
    """The matchConditions skip only pods for which the decision is empty."""
    calls = doors.replica.calls
    skipped = 0
    for seed in range(300):
        pod = generated.pod(seed)
        made = corpus.apply(pod, decide(pod, SETTINGS).patch)
        before = calls()
        status, created = doors.creator.create(doors.webhook, made)
        assert status == 201
        if calls() == before:
            skipped += 1
            assert decide(created, SETTINGS).patch == ()
            assert decide(created, SETTINGS).warnings == ()
    assert skipped > 20


LARGE: dict[str, list[dict[str, Any]]] = {
    "a long word": [{"command": ["python", "x" * 700_000]}],
    "a long program": [{"command": ["x" * 700_000]}],
    "many words": [{"command": ["/usr/bin/env", *["x"] * 200_000]}],
    "many variables": [{"env": [{"name": f"A{n}", "value": "x"} for n in range(20_000)]}],
    "many containers": [{"env": [{"name": f"A{n}", "value": "x"} for n in range(200)]} for _ in range(60)],
    "many mounts": [{"more": 300} for _ in range(30)],
}


@pytest.mark.parametrize("lacks", ["the grace", "an item"])
@pytest.mark.parametrize("name", LARGE)
def test_a_large_pod_that_lacks_little_is_asked_about(doors: Doors, name: str, lacks: str) -> None:
    """A condition that spends the API server's budget for CEL skips the call in silence."""
    items = [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in SETTINGS.items]
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 30 if lacks == "the grace" else 600,
        "volumes": [
            {"name": "podinfo", "downwardAPI": {"items": items[: 5 if lacks == "an item" else None]}},
            {"name": "home", "emptyDir": {}},
        ],
        "containers": [],
    }
    for number, fields in enumerate(LARGE[name]):
        more = [{"name": "home", "mountPath": f"/m/{n}"} for n in range(fields.get("more", 1))]
        spec["containers"].append(
            {
                "name": f"c{number}",
                "image": "x",
                "volumeMounts": [*more, {"name": "podinfo", "mountPath": "/etc/podinfo"}],
                **{field: value for field, value in fields.items() if field != "more"},
            }
        )
    status, made = doors.creator.create(doors.webhook, {"metadata": {"name": "x"}, "spec": spec})
    assert status == 201, made
    assert made["spec"]["terminationGracePeriodSeconds"] == 600
    assert len(made["spec"]["volumes"][0]["downwardAPI"]["items"]) == 6


def _with_files(name: str) -> dict[str, Any]:
    files = {"name": "course", "items": [{"key": "k", "path": f"{name}/some/long/path"}]}
    return {"name": name, "projected": {"sources": [{"configMap": files}]}}


def _with_mounts(name: str) -> dict[str, Any]:
    mounts = [{"name": f"v{n % 60}", "mountPath": f"/home/student/some/long/path/{n}"} for n in range(300)]
    return {"name": name, "image": "x", "volumeMounts": mounts}


@pytest.mark.parametrize(
    "pod",
    [
        {
            "volumes": [_with_files(f"v{n}") for n in range(60)],
            "containers": [_with_mounts(f"c{n}") for n in range(32)],
            "initContainers": [_with_mounts(f"i{n}") for n in range(32)],
        },
        {
            "containers": [
                {"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/etc/../etc/podinfo"}]}
            ]
        },
        {"containers": [{"name": f"c{n}", "image": "x"} for n in range(40)]},
    ],
)
def test_what_cel_cannot_decide_is_left_as_it_is(doors: Doors, pod: dict[str, Any], tmp_path: Path) -> None:
    body = {"metadata": {"name": "x"}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}], **pod}}
    status, made = doors.creator.create(doors.policy, body)
    assert status == 201, made
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
