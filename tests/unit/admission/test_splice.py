"""``forewarn inject`` writes into the text that is there: every other byte stays."""

from __future__ import annotations

import difflib
import json
import re

import pytest

from forewarn.admission import documents, goyaml
from forewarn.admission.inject import InjectSettings, decide
from forewarn.admission.inject_command import inject_text
from tests.unit.admission import corpus, generated
from tests.unit.admission.styled import Writer

SETTINGS = InjectSettings()
GRACE = re.compile(r"(terminationGracePeriodSeconds\W+(?:&\w+ )?)-?\d+")


def inject(text: str) -> tuple[str, list[str]]:
    return inject_text("file", text, SETTINGS)


def wanted(text: str) -> object:
    read = [document.value for document in documents.read("file", text)][-1]
    read = json.loads(json.dumps(read))
    return corpus.apply(read, decide(read, SETTINGS).patch)


def removed(before: str, after: str) -> str:
    """Return what of a text is not in another, in its order."""
    rest = iter(after)
    return "".join(character for character in before if not any(character == each for each in rest))


def lost_lines(before: str, after: str) -> list[str]:
    return [line[2:] for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("- ")]


def test_a_manifest_of_any_style_keeps_every_byte_and_gets_what_the_decision_says() -> None:
    for seed in range(80):
        text = Writer(seed).text(generated.pod(seed))
        out, warnings = inject(text)
        assert goyaml.load(out) == wanted(text), seed
        assert removed(GRACE.sub(r"\1", text), out) == "", seed
        assert re.findall(r"n\d+n", out) == re.findall(r"n\d+n", text), seed
        assert not [each for each in warnings if "written anew" in each], seed
        assert out.count("\r\n") == (out.count("\n") if "\r" in text else 0), seed
        assert inject(out)[0] == out, seed


@pytest.mark.parametrize(
    "line",
    [
        "command: [python, # the program\n      train.py] # its script",
        "labels: &unused {x: y}",
        "env: &env\n    - name: a\n      value: b",
        "env: # first\n    -   name: a # one space\n        value: 'b'",
        "x:   +700",
        r'x: "\x41\u00e9\n"',
        "x: one\n      scalar on\n\n      lines",
        'x: "one\n      scalar"',
        "x: |\n      foo\n\n      bar  \n\n",
        "x: |+\n      foo\n\n\n",
        "x: >-2\n      foo # no comment\n",
        "x: {a: , b}",
        "x: [a, b, ]",
        "? x\n    : y",
        "x: k\t# note",
        "x: !!binary aGVsbG8=",
        "x: !!timestamp 2026-01-01",
        "x: !!set {a, b}",
        "x: .nan",
        "x: -.inf",
        "x: {1: a, 1.5: b, true: c}",
        "x: !ours {a: !theirs 1}",
    ],
)
def test_what_stands_in_a_pod_stays_to_the_byte(line: str) -> None:
    for text in (
        f"kind: Pod\nspec:\n  containers:\n  - name: c\n    {line}\n",
        f"kind: Pod\nspec:\n  containers:\n  - name: c\n    {line}\n  volumes: []\n# end\n",
    ):
        out, warnings = inject(text)
        assert goyaml.load(out) == wanted(text)
        assert lost_lines(text, out) == (["  volumes: []"] if "volumes: []" in text else [])
        assert warnings == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{name: c}", "{name: c, volumeMounts: [@]}"),
        ("{name: c, }", "{name: c, volumeMounts: [@], }"),
        ("{name: c, image: }", "{name: c, image: null, volumeMounts: [@] }"),
        ("{name: c, volumeMounts: [ ]}", "{name: c, volumeMounts: [@ ]}"),
        ("{name: c, volumeMounts: }", "{name: c, volumeMounts: [@] }"),
        ("{name: c, volumeMounts: ~}", "{name: c, volumeMounts: [@]}"),
        ("{\n    name: c # first\n  }", "{\n    name: c, # first\n    volumeMounts: [@]\n  }"),
        ("{\n    name: c, # first\n  }", "{\n    name: c, # first\n    volumeMounts: [@],\n  }"),
    ],
)
def test_a_flow_mapping_is_added_to_in_its_own_style(before: str, after: str) -> None:
    mount = "{name: podinfo, mountPath: /etc/podinfo, readOnly: true}"
    out, _ = inject(f"kind: Pod\nspec:\n  containers: [{before}]\n")
    assert out.startswith(f"kind: Pod\nspec:\n  containers: [{after.replace('@', mount)}]\n")


@pytest.mark.parametrize("grace", ["30 # short", "&g 30 # short", "~", "", "!!int 30", "!!int &g 30 # x"])
def test_a_grace_is_replaced_where_it_stands(grace: str) -> None:
    text = f"kind: Pod\nspec:\n  terminationGracePeriodSeconds: {grace}\n  containers: [{{name: a}}]\n"
    line = inject(text)[0].splitlines()[2]
    assert goyaml.load(line) == {"terminationGracePeriodSeconds": 600}
    assert re.findall("&g|#.*", line) == re.findall("&g|#.*", grace)


def test_an_alias_or_merge_is_replaced_where_only_its_place_may_change() -> None:
    text = """\
x-mounts: &m # shared
- {name: home, mountPath: /home} # kept
x-container: &c {name: a, volumeMounts: [{name: home, mountPath: /home}]}
kind: Pod
spec:
  containers: # all
  - {name: a, volumeMounts: *m} # by alias
  - name: b
    volumeMounts: *m # by alias, in a block
  - <<: *c # by merge
    name: d
"""
    out, warnings = inject(text)
    assert goyaml.load(out) == wanted(text)
    assert re.findall("#.*", out) == re.findall("#.*", text)
    assert warnings == []


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nspec:\n  containers:\n  - &c {name: a} # one\n  x: *c # two\n",
        "kind: Pod\nspec:\n  containers: &c # one\n  - name: a\n  x: *c # two\n",
        "kind: Pod\nspec:\n  volumes: &v # one\n  containers: [{name: a}]\n  x: [*v, *v] # two\n",
        "kind: Pod\nspec:\n  terminationGracePeriodSeconds: &g 30 # one\n  activeDeadlineSeconds: *g # two\n"
        "  containers: [{name: a}]\n",
        "kind: Pod\nspec: &s\n  containers: [&c {name: a}] # one\nx: {y: *s, z: *c} # two\n",
    ],
)
def test_an_alias_elsewhere_of_what_is_changed_keeps_its_content(text: str) -> None:
    out, warnings = inject(text)
    assert goyaml.load(out) == wanted(text)
    assert re.findall(r"#.*|&\w", out) == re.findall(r"#.*|&\w", text)
    assert warnings == []


def test_what_cannot_be_written_into_the_text_is_written_anew_with_a_warning() -> None:
    text = "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: a\n    x: |\n      no line end"
    out, warnings = inject(text)
    assert goyaml.load(out) == wanted(text)
    assert [each.partition(": written anew")[0] for each in warnings] == ["Pod/p: file:1"]


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("kind: Pod\nspec:\n  nodeName: a\n  containers: [{name: c}]\n  nodeName: b\n", 5, "nodeName"),
        ("---\nkind: Pod\nspec: {containers: [{name: a,\n name: a}]}\n", 4, "name"),
        ("a: 1\n---\nkind: Pod\nspec: {containers: [{name: a}], x: {1: 2,\n '1': 3}}\n", 5, "1"),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_line_and_the_last_counts(text: str, line: int, key: str) -> None:
    out, warnings = inject(text)
    assert warnings == [f"Pod/(unnamed): file:{line}: key {key} stands there twice; the last one counts"]
    read = [document.value for document in documents.read("file", out)][-1]
    assert read == wanted(text.rpartition("---\n")[2])


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"Pod","spec":{"containers":[{"name":"a","x":[1.10,1E5]}]}}',
        '{"kind": "Pod", "spec": {"containers": [{"name": "\\u00e9\\/"}], "volumes": []}}\n\n',
        '{\n  "kind": "Pod",\n  "spec": {\n    "containers": [ {"name": "a"},\n\t{"name": "b"} ]\n  }\n}\n',
        '{\n\t"kind": "Pod",\n\t"spec": {\n\t\t"volumes": [\n\t\t],\n\t\t"containers": [\n\t\t\t{\n'
        '\t\t\t\t"name": "a"\n\t\t\t}\n\t\t]\n\t}\n}',
        '{"kind": "Pod", "spec": {"containers": [{"name": "a"}]}, "x": [NaN, -Infinity]}',
        '{"kind": "Pod", "kind": "Pod", "spec": {"containers": [{"name": "a"}]}}',
        ' {"kind": "Pod", "spec": {"containers": [{"name": "\U0001f600"}]}}',
    ],
)
def test_json_keeps_every_byte_too(text: str, line_end: str) -> None:
    text = text.replace("\n", line_end)
    out, warnings = inject(text)
    assert goyaml.load(out) == wanted(text)
    assert removed(text, out) == ""
    assert not [each for each in warnings if "written anew" in each]
    assert out.count("\r\n") == (out.count("\n") if "\r" in text else 0)
    assert inject(out)[0] == out


def test_a_tab_before_a_comment_stops_no_stream() -> None:
    text = "kind: ConfigMap\ndata: {a: b}\t# note\nk: v\t# note\n"
    assert inject(text)[0] == text
    assert inject(f"{text}---\nkind: Pod\nspec: {{containers: [{{name: a}}]}}\t# x\n")[0].startswith(text + "---\n")
