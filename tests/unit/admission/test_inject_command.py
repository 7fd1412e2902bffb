"""``forewarn inject``: what changes in a file, and what survives to the byte."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn import cli
from forewarn.admission import goyaml, templates
from forewarn.admission.inject import InjectSettings, decide
from forewarn.admission.inject_command import inject_text
from forewarn.errors import UserError
from tests.unit.admission import corpus, generated

SETTINGS = InjectSettings()
POD_SPEC = "{containers: [{name: a}]}"


def inject(text: str, path: str | None = None) -> tuple[str, list[str]]:
    return inject_text("file", text, SETTINGS, templates.parse_path(path) if path else None)


def injected(text: str) -> Any:
    """Return what the decision makes of a manifest's pod."""
    pod = json.loads(json.dumps(goyaml.load(text)))
    return corpus.apply(pod, decide(pod, SETTINGS).patch)


def mounted(spec: dict[str, Any]) -> bool:
    return (
        spec["terminationGracePeriodSeconds"] == 600
        and [v["name"] for v in spec["volumes"]] == ["podinfo"]
        and all(c["volumeMounts"][0]["mountPath"] == "/etc/podinfo" for c in spec["containers"])
    )


@pytest.mark.parametrize(
    ("kind", "inside"),
    [
        ("Pod", "spec: @"),
        ("PodTemplate", "template: {spec: @}"),
        ("Job", "spec: {template: {spec: @}}"),
        ("CronJob", "spec: {jobTemplate: {spec: {template: {spec: @}}}}"),
        ("Deployment", "spec: {template: {spec: @}}"),
        ("StatefulSet", "spec: {template: {spec: @}}"),
        ("ReplicaSet", "spec: {template: {spec: @}}"),
        ("ReplicationController", "spec: {template: {spec: @}}"),
        ("List", "items: [{kind: ConfigMap}, {kind: Pod, metadata: {name: x}, spec: @}]"),
        ("PodList", "items: [{metadata: {name: x}, spec: @}]"),
        ("List", "items: [{kind: List, items: [{kind: Job, spec: {template: {spec: @}}}]}]"),
    ],
)
def test_every_known_kind_is_injected(kind: str, inside: str) -> None:
    text = f"kind: {kind}\nmetadata: {{name: x}}\n{inside.replace('@', POD_SPEC)}\n"
    out, _ = inject(text)
    found = [t for t in templates.find(yaml.safe_load(out)) if isinstance(t, templates.Template)]
    assert [mounted(t.pod["spec"]) for t in found] == [True]


@pytest.mark.parametrize(("kind", "field"), [("PyTorchJob", "pytorchReplicaSpecs"), ("MPIJob", "mpiReplicaSpecs")])
def test_every_role_of_a_kubeflow_job_is_injected(kind: str, field: str) -> None:
    roles = f"{{Master: {{template: {{spec: {POD_SPEC}}}}}, Worker: {{template: {{spec: {POD_SPEC}}}}}}}"
    out, _ = inject(f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: t}}\nspec: {{{field}: {roles}}}\n")
    made = yaml.safe_load(out)["spec"][field]
    assert [mounted(made[role]["template"]["spec"]) for role in ("Master", "Worker")] == [True, True]


@pytest.mark.parametrize("path", ["spec.roles.*.template", "/spec/roles/*/template", "spec.roles.0.template"])
def test_any_other_kind_by_its_path(path: str) -> None:
    text = f"kind: Swarm\nmetadata: {{name: s}}\nspec: {{roles: [{{template: {{spec: {POD_SPEC}}}}}]}}\n"
    assert inject(text)[0] == text
    assert mounted(yaml.safe_load(inject(text, path)[0])["spec"]["roles"][0]["template"]["spec"])


def test_an_empty_part_of_a_path_is_told() -> None:
    with pytest.raises(UserError, match="empty part"):
        templates.parse_path("spec..template")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "# only a comment",
        "a:   1 # odd   \n\n\n...\n---\n---\n- x\n",
        "%YAML 1.1\n---\nkind: ConfigMap\ndata:\n  a: |\n\n   x\n\n",
        "\ufeffkind: ConfigMap\r\nmetadata:\r\n    name:  x\r\n---\r\nkind: Secret\r\n",
        'kind: ConfigMap\ndata:\n  script: |\n    --- not a marker\n    echo "hi"   \n',
        '{"kind": "ConfigMap",   "data": {"a": 1.10}}\n{"kind":"Secret"}\n\n',
        "kind: CustomThing\nspec: !ours {a: !!str 1}\n",
        "kind: DaemonSet\nmetadata: {name: d}\nspec: {template: {spec: {containers: [{name: a}]}}}\n",
    ],
)
def test_what_has_no_pod_template_passes_byte_for_byte(text: str) -> None:
    assert inject(text)[0] == text


def test_a_daemon_set_is_noted() -> None:
    _, warnings = inject("kind: DaemonSet\nmetadata: {name: d}\nspec: {template: {spec: {}}}\n")
    assert warnings == ["DaemonSet/d: a DaemonSet's pods are no sessions: passed through"]


def test_comments_order_quoting_and_anchors_survive() -> None:
    text = """\
# head
kind: Deployment   # the kind
metadata:
    name: 'quoted'
    annotations: &a
        z: "1"   # first
        a: yes
spec:
    template:
        metadata:
            annotations: *a
        spec:
            # about the containers
            containers:
            -   name: a
                image: "x:1"  # the image
                args: [--lr, '0.10']
            terminationGracePeriodSeconds: 0444
# foot
"""
    out, _ = inject(text)
    before, after = text.splitlines(), out.splitlines()
    lost = [line for line in before if line not in after]
    assert lost == ["            terminationGracePeriodSeconds: 0444"]
    assert [line for line in after if line in before] == before[:-2] + before[-1:]


def test_what_is_shared_by_an_alias_is_changed_once() -> None:
    text = """\
kind: Pod
metadata: {name: p}
spec:
  containers:
  - &c
    name: a
    image: x
    volumeMounts: &m
    - {name: home, mountPath: /home}
  - <<: *c
    name: b
  - name: c
    volumeMounts: *m
  volumes: [{name: home, emptyDir: {}}]
"""
    out, _ = inject(text)
    assert goyaml.load(out) == injected(text)
    assert [len(c["volumeMounts"]) for c in goyaml.load(out)["spec"]["containers"]] == [2, 2, 2]
    assert inject(out)[0] == out


def test_an_alias_that_only_one_place_may_change_gets_a_copy() -> None:
    text = """\
x-mounts: &m
- {name: home, mountPath: /home}
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: a, volumeMounts: *m}]
  volumes: [{name: home, emptyDir: {}}]
"""
    made = goyaml.load(inject(text)[0])
    assert len(made["x-mounts"]) == 1
    assert len(made["spec"]["containers"][0]["volumeMounts"]) == 2


def test_numbers_are_read_as_kubectl_reads_them() -> None:
    values = {"0444": 292, "0o17": 15, "0x1F": 31, "1_000": 1000, "08": 8, "600.0": 600, "1e3": 1000, "+5": 5, "-1": -1}
    values |= {"yes": True, "off": False, "y": True, "~": None, "1:30": "1:30", "2026-01-01": "2026-01-01", "1.5": 1.5}  # type: ignore[dict-item]
    assert {text: goyaml.load(text) for text in values} == values
    assert goyaml.load('{"0444": "0444", a: !!str 0444, 1: x, on: y}') == {
        "0444": "0444",
        "a": "0444",
        "1": "x",
        "true": True,
    }
    assert (
        inject("kind: Pod\nspec: {terminationGracePeriodSeconds: 01131, containers: [{name: a}]}\n")[0].count("600")
        == 0
    )


@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
def test_json_keeps_its_form(indent: Any) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "é"}, "spec": {"containers": [{"name": "a"}], "x": 1.5}}
    text = json.dumps(pod, indent=indent, ensure_ascii=False) + "\n"
    out, _ = inject(text)
    assert mounted(json.loads(out)["spec"])
    assert json.dumps(json.loads(out), indent=indent, ensure_ascii=False) + "\n" == out


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_stay(line_end: str) -> None:
    text = "kind: Pod\nspec:\n  containers:\n  - name: a\n".replace("\n", line_end)
    out, _ = inject(text)
    assert out.count("\n") == out.count(line_end) > 10
    assert inject(out)[0] == out


def test_every_corpus_case_and_generated_pod_comes_out_as_the_decision_says() -> None:
    pods = [corpus.load(name).pod for name in corpus.names()] + [generated.pod(seed) for seed in range(50)]
    for pod in pods:
        text = yaml.safe_dump(pod, sort_keys=False)
        assert goyaml.load(inject(text)[0]) == injected(text)


def test_a_stream_that_cannot_be_read_names_file_and_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("kind: Pod\nspec: {containers: [{name: a}]}\n")
    bad.write_text("a: 1\n---\nb: [1\nc: }\n")
    assert cli.main(["inject", "-f", str(good), "-f", str(bad)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {bad}:4: cannot be read as YAML: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff\xfe", "byte 0 is not UTF-8"), (None, "it cannot be read: No such file")]
)
def test_a_file_that_cannot_be_read_is_one_line(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["inject", "-f", str(path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad", ["x: {[a]: 1}", "? {a: b}\n: c", "x: &a [*a]", "x: !!binary ä", "x: [", "\tx: y", "x: *none"]
)
def test_what_kubectl_refuses_too_is_named_with_its_line(bad: str) -> None:
    with pytest.raises(UserError, match=r"^file:[345]: cannot be read as YAML: "):
        inject(f"a: b\n---\n{bad}\n")


@pytest.mark.parametrize("command", ["inject", "check"])
@pytest.mark.parametrize(("content", "said"), [(b"\xff", "byte 0 is not UTF-8"), (None, "is closed")])
def test_standard_input_that_cannot_be_read_is_one_line(
    command: str,
    content: bytes | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", content and io.TextIOWrapper(io.BytesIO(content)))
    assert cli.main([command]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: standard input: {said}; allowed: ")
    assert printed.err.count("\n") == 1


KUBERNETES_OWN = {
    "v1": ("Pod", "PodTemplate", "ReplicationController"),
    "apps/v1": ("Deployment", "StatefulSet", "ReplicaSet"),
    "extensions/v1beta1": ("Deployment", "ReplicaSet"),
    "batch/v1": ("Job", "CronJob"),
}


@pytest.mark.parametrize("version", ["", *KUBERNETES_OWN, "foo/v1", "batch.volcano.sh/v1alpha1", "apps.example.org/v1"])
def test_a_kind_is_kubernetes_own_only_in_its_group(version: str) -> None:
    pod = {"spec": {"containers": [{"name": "a"}]}}
    everywhere = {**pod["spec"], "template": pod, "jobTemplate": {"spec": {"template": pod}}}
    for kind in templates.KNOWN:
        document = {"apiVersion": version, "kind": kind, "spec": everywhere, "template": pod}
        for whole in (document, {"kind": "List", "items": [document]}):
            taken = not version or kind in KUBERNETES_OWN.get(version, ())
            assert len(list(templates.find(whole))) == taken, kind
    foreign = {"apiVersion": "foo/v1", "kind": "PodList", "items": [pod]}
    assert list(templates.find(foreign)) == []
    assert list(templates.find({"apiVersion": "foo/v1", "kind": "DaemonSet", "spec": {"template": pod}})) == []


def test_warnings_go_to_stderr_and_the_exit_is_0(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = (
        b"kind: Job\nmetadata: {name: t}\nspec: {template: {spec: {containers: [{name: a, command: [sleep, '9']}]}}}\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli.main(["inject"]) == 0
    printed = capsysbinary.readouterr()
    assert printed.err.startswith(b"Job/t: container a: its PID 1 ignores SIGTERM")
    assert b"podinfo" in printed.out


def test_diff_shows_what_would_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\nspec:\n  containers:\n  - name: a\n")
    assert cli.main(["inject", "--diff", "-f", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"--- {path}"
    assert "+  terminationGracePeriodSeconds: 600" in lines
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_two_files_become_two_documents(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"kind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: []}}")
    assert cli.main(["inject", "-f", str(tmp_path / "a"), "-f", str(tmp_path / "b")]) == 0
    documents = list(yaml.safe_load_all(capfd.readouterr().out))
    assert [document["metadata"]["name"] for document in documents] == ["a", "b"]
