"""The chart grants no more than the design says, knows every setting, and refuses what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn import settings
from forewarn.admission.inject import InjectSettings
from forewarn.admission.registration import registration
from tests.kind.places import CHART, NAMESPACE
from tests.support.chart import ChartError, helm, one, render

MADE_BY_THE_CHART = {"lease", "namespace", "service", "registration", "tlsSecret"}
"""Chart values whose default is made from the release; empty in values.yaml."""

Grant = tuple[str, str, str, str, str]


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return render()


def grants(objects: list[dict[str, Any]], account: str) -> set[Grant]:
    """Return all that RBAC gives a service account: namespace (empty for all), group, resource, name, verb."""
    given: set[Grant] = set()
    for binding in (item for item in objects if item["kind"] in ("RoleBinding", "ClusterRoleBinding")):
        if account not in [subject["name"] for subject in binding["subjects"]]:
            continue
        role = one(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        assert set(role) == {"apiVersion", "kind", "metadata", "rules"}
        for rule in role["rules"]:
            assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
            given |= {
                (binding["metadata"].get("namespace", ""), group, resource, name, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for name in rule.get("resourceNames", [""])
                for verb in rule["verbs"]
            }
    return given


def test_the_mirror_reads_sessions_and_writes_only_events_and_its_lease(objects: list[dict[str, Any]]) -> None:
    reads = {("", "", resource, "", verb) for resource in ("pods", "namespaces") for verb in ("get", "list", "watch")}
    events = {("", "events.k8s.io", "events", "", verb) for verb in ("create", "patch", "get", "list")}
    lease = {(NAMESPACE, "coordination.k8s.io", "leases", "forewarn-mirror", verb) for verb in ("get", "update")}
    assert grants(objects, "forewarn-mirror") == reads | events | lease


def test_admission_has_one_secret_and_one_registration_by_name(objects: list[dict[str, Any]]) -> None:
    secret = {(NAMESPACE, "", "secrets", "forewarn-admission-tls", verb) for verb in ("get", "update")}
    group = "admissionregistration.k8s.io"
    own = {("", group, "mutatingwebhookconfigurations", "forewarn-admission", verb) for verb in ("get", "patch")}
    assert grants(objects, "forewarn-admission") == secret | own


def test_nobody_else_is_granted_anything(objects: list[dict[str, Any]]) -> None:
    bindings = [item for item in objects if item["kind"].endswith("Binding")]
    subjects = {(s["kind"], s["name"], s["namespace"]) for binding in bindings for s in binding["subjects"]}
    accounts = ("forewarn-admission", "forewarn-mirror")
    assert subjects == {("ServiceAccount", name, NAMESPACE) for name in accounts}
    roles = {item["metadata"]["name"] for item in objects if item["kind"] in ("Role", "ClusterRole")}
    assert roles == set(accounts)


def test_a_certificate_of_ones_own_takes_every_right_from_admission() -> None:
    objects = render("--set=certificate.existingSecret=mine", "--set=certificate.caBundle=QUJD")
    assert grants(objects, "forewarn-admission") == set()
    assert not [item for item in objects if item["kind"] == "Secret"]
    assert variables(objects, "admission")["FOREWARN_TLS_CERT"] == "/etc/forewarn/tls/tls.crt"
    assert one(objects, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["caBundle"] == "QUJD"


def variables(objects: list[dict[str, Any]], part: str) -> dict[str, str]:
    container = one(objects, "Deployment", f"forewarn-{part}")["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"]}


@pytest.mark.parametrize(("part", "command"), [("admission", settings.ADMISSION), ("mirror", settings.MIRROR)])
def test_each_command_gets_each_of_its_settings_and_no_other(
    objects: list[dict[str, Any]], part: str, command: str
) -> None:
    assert set(variables(objects, part)) == {setting.variable for setting in settings.of_command(command)}
    container = one(objects, "Deployment", f"forewarn-{part}")["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["forewarn", *command.split()]


@pytest.mark.parametrize(("part", "command"), [("admission", settings.ADMISSION), ("mirror", settings.MIRROR)])
def test_the_charts_defaults_are_the_programs_own(objects: list[dict[str, Any]], part: str, command: str) -> None:
    given = variables(objects, part)
    by_chart = {"FOREWARN_LEASE": f"{NAMESPACE}/forewarn-mirror"}
    for setting in settings.of_command(command):
        wanted = by_chart.get(setting.variable, setting.default)
        assert setting.parse(given[setting.variable]) == setting.parse(wanted), setting.name


def deployed_settings() -> dict[str, settings.Setting]:
    commands = (settings.ADMISSION, settings.MIRROR)
    return {s.chart_value: s for s in settings.SETTINGS if set(s.commands) & set(commands)}


def test_every_setting_of_the_operator_is_a_chart_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(deployed_settings()) <= set(values)
    assert set(values) == set(schema)
    assert {name for name in deployed_settings() if values[name] == ""} >= MADE_BY_THE_CHART


OTHER: dict[str, Any] = {
    "annotationPrefix": "horae/",
    "sessionsLabel": "team/sessions=on",
    "podSelector": "dsmlp/course=x,tier=gpu",
    "wholeMap": True,
    "staleAfter": 12.5,
    "eventRate": 20,
    "restateEvery": 600,
    "logFormat": "json",
    "drain": 3,
    "port": 9443,
    "healthPort": 9080,
    "host": "::",
    "lease": "forewarn/other",
    "namespace": "forewarn",
    "service": "other-service",
    "registration": "other-registration",
    "tlsSecret": "other-tls",
    "tlsCert": "/tls/a.crt",
    "tlsKey": "/tls/a.key",
}


def written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_chart_value_reaches_its_variable(tmp_path: Path) -> None:
    assert set(OTHER) == set(deployed_settings()), "give the new setting a value here"
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(OTHER))
    objects = render(f"--values={file}")
    given = variables(objects, "admission") | variables(objects, "mirror")
    for name, setting in deployed_settings().items():
        assert setting.parse(given[setting.variable]) == setting.parse(written(OTHER[name])), name


@pytest.mark.parametrize("whole_map", [False, True])
@pytest.mark.parametrize("prefix", ["galends/", "horae"])
@pytest.mark.parametrize("selector", [{}, {"dsmlp/course": "x", "tier": "gpu"}])
def test_the_registration_is_the_one_that_the_code_means(
    prefix: str, whole_map: bool, selector: dict[str, str]
) -> None:
    text = r"\,".join(f"{key}={value}" for key, value in selector.items())
    objects = render(
        f"--set=annotationPrefix={prefix}", f"--set=wholeMap={str(whole_map).lower()}", f"--set=podSelector={text}"
    )
    made = one(objects, "MutatingWebhookConfiguration")
    made["metadata"].pop("labels")
    wanted = registration(
        InjectSettings(prefix.rstrip("/") + "/", whole_map, selector),
        ("forewarn/sessions", "enabled"),
        name="forewarn-admission",
        namespace=NAMESPACE,
        service="forewarn-admission",
    )
    assert made == wanted


def test_the_registration_never_selects_our_own_namespace_or_kube_system() -> None:
    webhook = one(render(namespace="elsewhere"), "MutatingWebhookConfiguration")["webhooks"][0]
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "elsewhere"]}
    ]
    assert webhook["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("part", ["admission", "mirror"])
def test_a_pod_of_the_operator_may_do_nothing_on_its_node(objects: list[dict[str, Any]], part: str) -> None:
    spec = one(objects, "Deployment", f"forewarn-{part}")["spec"]["template"]["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["containers"][0]["resources"]["limits"]["memory"]


def test_admission_outlives_its_drain(objects: list[dict[str, Any]]) -> None:
    assert one(objects, "Deployment", "forewarn-admission")["spec"]["strategy"] == {
        "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}
    }
    for drain in (0, 10, 30.5):
        spec = one(render(f"--set=drain={drain}"), "Deployment", "forewarn-admission")["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > drain + 5


def test_two_of_each_stand_apart(objects: list[dict[str, Any]]) -> None:
    for part in ("admission", "mirror"):
        deployment = one(objects, "Deployment", f"forewarn-{part}")["spec"]
        assert deployment["replicas"] == 2
        spread = deployment["template"]["spec"]["topologySpreadConstraints"][0]
        assert spread["labelSelector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    budget = one(objects, "PodDisruptionBudget", "forewarn-admission")["spec"]
    assert budget["maxUnavailable"] == 1


@pytest.mark.parametrize(
    "option",
    [
        "staleAfters=60",
        "staleAfter=-1",
        "staleAfter=soon",
        "eventRate=0",
        "restateEvery=0.0",
        "drain=1e3",
        "port=70000",
        "logFormat=xml",
        "sessionsLabel=enabled",
        "annotationPrefix=Galends/",
        "podSelector=a",
        r"podSelector=a=b\,a=c",
        "lease=nameonly",
        "wholeMap=maybe",
        "admission.replicas=0",
        "admission.replica=2",
        "mirror.resources.limit=1Gi",
        "image.pullPolicy=Sometimes",
        "certificate.caBundle=***",
        "certificate.injectCaFrom=name",
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(option: str) -> None:
    with pytest.raises(ChartError) as raised:
        render(f"--set={option}")
    name = option.partition("=")[0].rpartition(".")[2]
    assert name in str(raised.value)


def test_helm_lint_is_content() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
