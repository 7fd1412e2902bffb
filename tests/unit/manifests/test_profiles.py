"""Profiles: what extends what, a site's directory, placeholders, and the schema that each file is checked against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.errors import UserError
from forewarn_manifests import flags, profile, profile_check, schema
from forewarn_manifests.launch import launch
from forewarn_manifests.precompile import HERE
from tests.unit.manifests.golden import ALICE, DIRECTORY

SCHEMA = json.loads((HERE / "profiles/schema.json").read_text())
FILES = [*(HERE / "profiles").glob("*.yaml"), *(DIRECTORY / "profiles").glob("*.yaml")]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path


def write(site: Path, name: str, text: str) -> tuple[str, ...]:
    (site / f"{name}.yaml").write_text(text, encoding="utf-8")
    return (str(site),)


def test_the_shipped_profiles_are_there() -> None:
    assert profile.names() == ["jupyter", "launch-datascience", "launch-scipy-ml", "launch", "ssh"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_profile_fits_its_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(yaml.safe_load(path.read_text()), SCHEMA)


def test_a_sites_launch_changes_the_shipped_one_and_all_that_extend_it(site: Path) -> None:
    places = write(site, "launch", "home:\n  path: /h/{user}\n  volume: {nfs: {server: n, path: /x}}\n")
    for name in profile.names():
        found = profile.load(name, "test", places)
        assert (found.home.path, found.home.kind) == ("/h/{user}", "nfs")
    assert profile.load("launch-scipy-ml", "test", places).defaults["cpus"] == 2
    assert profile.load("launch", "test", places).defaults["cpus"] == 1


def test_mappings_are_merged_and_lists_and_volumes_replaced(site: Path) -> None:
    places = write(site, "own", "limits: {cpus: 16}\ngpu: {classes: [one]}\nhome: {path: /h, volume: {emptyDir: {}}}\n")
    found = profile.load("own", "test", places)
    assert found.limits == {"cpus": 16, "memory": 32, "gpus": 1, "timeout": 43200, "completions": 64}
    assert found.gpu_classes == ("one",)
    write(site, "below", "extends: own\nhome: {path: /h, volume: {hostPath: {path: /x}}}\n")
    assert profile.load("below", "test", places).home.source == {"path": "/x"}


def test_the_first_directory_wins(site: Path) -> None:
    for name, cpus in (("a", 3), ("b", 4)):
        (site / name).mkdir()
        (site / name / "own.yaml").write_text(f"defaults: {{cpus: {cpus}}}\n")
    assert profile.load("own", "test", (str(site / "a"), str(site / "b"))).defaults["cpus"] == 3


WRONG = [
    ("extends: own\n", "own.yaml: extends: nothing below 'own' to extend"),
    ("extends: lunch\n", "own.yaml: extends: no profile 'lunch' (did you mean launch?)"),
    ("extends: other\n", "extends itself by way of"),
    ("- a\n", "own.yaml: ['a'] has the wrong type; allowed: a mapping"),
    ("a: [\n", "own.yaml:2: "),
    ("defalts: {}\n", "own.yaml: unknown key 'defalts' (did you mean defaults?); allowed: summary"),
    ("defaults: {cpus: two}\n", "own.yaml: defaults.cpus: 'two' has the wrong type; allowed: a whole number"),
    ("defaults: {cpus: true}\n", "defaults.cpus: True has the wrong type"),
    ("defaults: {grace: 30}\n", "own.yaml: defaults.grace: 30 is out of range; allowed: at least 600"),
    ("defaults: {port: 70000}\n", "allowed: at least 1 and at most 65535"),
    ("defaults: {pullPolicy: always}\n", "'always' is none of the allowed; allowed: Always, IfNotPresent, Never"),
    ("home: {path: /h}\n", "own.yaml: home: volume is missing; needed: path, volume"),
    ("home: {path: h, volume: {emptyDir: {}}}\n", "home.path: 'h' does not fit"),
    ("home: {path: /h, volume: {emptyDir: {}, nfs: {server: a, path: /b}}}\n", "home.volume: 2 keys; allowed: exactly"),
    ("home: {path: /h, volume: {nfs: {server: a}}}\n", "home.volume.nfs: path is missing"),
    ("volumes: [{name: A, path: /a, volume: {emptyDir: {}}}]\n", "own.yaml: volumes[0].name: 'A' does not fit"),
    ("labels: {a: 1}\n", "labels.a: 1 has the wrong type; allowed: a text (put it in quotes)"),
    ("labels: {1: a}\n", "labels: the key 1 is no text"),
    ("commands: {idle: []}\n", "commands.idle: is empty; allowed: at least one"),
]


@pytest.mark.parametrize(("text", "line"), WRONG, ids=lambda value: value[:30])
def test_a_mistake_in_a_profile_names_file_and_key(text: str, line: str, site: Path) -> None:
    places = write(site, "own", text)
    write(site, "other", "extends: own\n")
    with pytest.raises(UserError) as caught:
        profile.load("own", "test", places)
    assert line in str(caught.value)
    assert str(site) in str(caught.value)


NEVER_A_LAUNCH = [
    ("defaults: {cpus: 99}", "own.yaml: defaults.cpus: 99 is out of range; allowed: at most 8 (profile launch: limits"),
    ("defaults: {memory: 33}", "own.yaml: defaults.memory: 33 is out of range; allowed: at most 32"),
    ("defaults: {gpus: 4}", "own.yaml: defaults.gpus: 4 is out of range; allowed: at most 1"),
    ("defaults: {timeout: 43201}", "own.yaml: defaults.timeout: 43201 is out of range; allowed: at most 43200"),
    ("extends: launch-scipy-ml\nlimits: {cpus: 1}", "profile launch-scipy-ml: defaults.cpus: 2 is out of range"),
    ("extends: launch-scipy-ml\nlimits: {cpus: 1}", "own.yaml: limits.cpus)"),
    ("defaults: {image: A}", "own.yaml: defaults.image: 'A' is no image"),
    ('home: {path: "/h/{usr}", volume: {emptyDir: {}}}', "own.yaml: home: no placeholder 'usr' (did you mean user?)"),
    ("home: {path: /h, subPath: ../x, volume: {emptyDir: {}}}", "own.yaml: home: '../x' is no path below"),
    ('home: {path: /h, volume: {nfs: {server: a, path: "/{node}"}}}', "own.yaml: home: no placeholder 'node'"),
    ('home: {path: "/{workspace}", volume: {emptyDir: {}}}', "own.yaml: home: no placeholder 'workspace'"),
    ('workspaces: {path: "/a:{user}", volume: {emptyDir: {}}}', "own.yaml: workspaces.path: '/a:{user}' does not fit"),
    ("workspaces: {path: /w, volume: {emptyDir: {}}, known: [a b]}", "own.yaml: workspaces.known: 'a b' is no label"),
    (
        'condaCache: {path: /c, volume: {emptyDir: {}}, environment: {"1X": x}}',
        "own.yaml: condaCache.environment: '1X'",
    ),
    ("teams: {path: /a/../b, volume: {emptyDir: {}}}", "own.yaml: teams: '/a/../b' is no path"),
    ('labels: {"a b": x}', "own.yaml: labels: 'a b' is no key"),
    ("labels: {a: b c}", "own.yaml: labels: 'b c' is no label value"),
    ("labels: {dsmlp/user: bob}", "own.yaml: labels: dsmlp/user is the launcher's to set"),
    ("labels: {gpu-class: huge}", "own.yaml: labels: no gpu-class 'huge'"),
    ("annotations: {a/b/c: x}", "own.yaml: annotations: 'a/b/c' is no key"),
    ("annotations: {galends/x: y}", "own.yaml: annotations: galends/x is the reservation controller's alone"),
    ("annotationPrefix: own/\nannotations: {own/x: y}", "own/x is the reservation controller's alone"),
    ("mailAnnotation: galends/mail", "own.yaml: mailAnnotation: galends/mail is the reservation controller's alone"),
    ("mailAnnotation: a b", "own.yaml: mailAnnotation: 'a b' is no key"),
    ('environment: {"1X": x}', "own.yaml: environment: '1X' is no name of a variable"),
    ('environment: {X: "a\\0b"}', "own.yaml: environment: 'a\\x00b' holds a NUL"),
    ("nodeSelector: {a: b c}", "own.yaml: nodeSelector: 'b c' is no label value"),
    ("tolerations: [a:b]", "own.yaml: tolerations: no effect 'b'"),
    ("pullSecrets: [A_B]", "own.yaml: pullSecrets: 'A_B' is no name"),
    ("gpu: {defaultClass: huge}", "own.yaml: gpu.defaultClass: no class 'huge'"),
    ("gpu: {classes: [one]}\nlabels: {gpu-class: small}", "own.yaml: labels: no gpu-class 'small'"),
    ("gpu: {classes: [a b]}", "own.yaml: gpu.classes: 'a b' is no label value"),
    ("gpu: {resource: cpu}", "own.yaml: gpu.resource: 'cpu' is no resource of a device; allowed: DOMAIN/NAME"),
    ("gpu: {models: {label: a b}}", "own.yaml: gpu.models: 'a b' is no key"),
    ("nodes: {label: a b}", "own.yaml: nodes.label: 'a b' is no key"),
    ('nodes: {name: "{user}/{node}"}', "own.yaml: nodes.name: 'alice/01' is no label value"),
    ("annotationPrefix: A_", "own.yaml: annotationPrefix: 'A_' cannot be read"),
    ("volumes: [{name: home, path: /x, volume: {emptyDir: {}}}]", "own.yaml: volumes: the name 'home' is taken"),
    (
        'commands: {jupyter: ["--port={prot}"]}',
        "own.yaml: commands.jupyter: no placeholder 'prot' (did you mean port?)",
    ),
    ('commands: {idle: ["a\\0"]}', "own.yaml: commands.idle: 'a\\x00' holds a NUL"),
]


@pytest.mark.parametrize(("text", "line"), NEVER_A_LAUNCH, ids=lambda value: value[:40])
def test_what_a_flag_would_be_refused_for_a_profile_is_refused_for(text: str, line: str, site: Path) -> None:
    with pytest.raises(UserError) as caught:
        profile.load("own", "test", write(site, "own", text))
    assert line in str(caught.value)
    assert str(site) in str(caught.value)


@pytest.mark.parametrize("name", profile.names((str(DIRECTORY / "profiles"),)))
def test_every_profile_of_ours_is_checked_as_a_sites_is(name: str) -> None:
    profile_check.check(profile.load(name, "test", (str(DIRECTORY / "profiles"),)))


def test_two_mounts_at_one_path_are_refused_at_the_launch(site: Path) -> None:
    places = write(site, "own", "volumes: [{name: x, path: /dev/shm, volume: {emptyDir: {}}}]")
    with pytest.raises(UserError, match=r"profile own: /dev/shm is taken"):
        launch(flags.parse(["-s"]), {}, profile.load("own", "test", places), ALICE)


good = st.sampled_from(["a", "b", "x/y", "A", "small"])
odd = (
    good | good | st.sampled_from(["", "a b", "../x", "/", "{user}", "{usr}", "{uid}x", "x\0", "$(A)", "a" * 64, "x:y"])
)
texts = st.dictionaries(odd, odd, max_size=1)
fragments = st.fixed_dictionaries(
    {},
    optional={
        "defaults": st.fixed_dictionaries(
            {},
            optional={
                **{name: st.integers(1, 50) for name in ("cpus", "memory", "gpus", "backoffLimit")},
                "timeout": st.integers(1, 10**10),
                "image": odd,
            },
        ),
        "limits": st.fixed_dictionaries({}, optional={"cpus": st.integers(1, 50), "memory": st.integers(1, 50)}),
        "gpu": st.fixed_dictionaries({}, optional={"defaultClass": odd, "resource": odd, "classes": st.lists(odd)}),
        "labels": texts,
        "annotations": texts,
        "environment": texts,
        "nodeSelector": texts,
        "tolerations": st.lists(odd, max_size=1),
        "pullSecrets": st.lists(odd, max_size=1),
        "annotationPrefix": odd,
        "mailAnnotation": odd,
        "home": st.fixed_dictionaries(
            {"path": st.sampled_from(["/a", "/{user}", "/{b}", "/a/.."]), "volume": st.just({"emptyDir": {}})},
            optional={"subPath": odd},
        ),
    },
)


@settings(max_examples=150, deadline=None)
@given(fragments)
def test_a_profile_that_is_taken_never_fails_a_plain_launch(tmp_path_factory: Any, raw: dict[str, Any]) -> None:
    places = write(tmp_path_factory.mktemp("site"), "own", json.dumps(raw))
    try:
        found = profile.load("own", "test", places)
    except UserError:
        return
    for argv in (
        ["-s"],
        ["-j", "-u", "a@b"],
        ["-n", "3", "--requeue", "--", "x"],
        ["-W", "CSE1", "-x", "-B", "--", "x"],
    ):
        request = launch(flags.parse(argv), {}, found, ALICE)
        assert (request.cpus, request.memory) <= (found.limits["cpus"], found.limits["memory"])


CODE_LIKE = [
    (
        "summary: !!python/object/apply:os.system [touch made]",
        "own.yaml:1: cannot be read as YAML: could not determine a constructor for the tag",
    ),
    ("summary: !!python/name:os.system", "own.yaml:1: cannot be read as YAML: could not determine a constructor"),
    (
        "!!python/object/new:os.system [touch made]",
        "own.yaml:1: cannot be read as YAML: could not determine a constructor",
    ),
    ("summary: 2024-13-45", "own.yaml: a value cannot be read"),
    ("summary: !!bool maybe", "own.yaml: a value cannot be read"),
    ("summary: !!int ''", "own.yaml: a value cannot be read"),
    ("summary: !!timestamp soon", "own.yaml: a value cannot be read"),
    ("? [a]\n: b", "own.yaml:1: cannot be read as YAML: while constructing a mapping, found unhashable key"),
    ("summary: " + "[" * 5000, "own.yaml"),
    ("summary: &a [*a]", "own.yaml: summary: [[[[[[[...]]]]]]] has the wrong type"),
    ("x: &a [1,1,1,1]\nsummary: *a", "own.yaml: unknown key 'x'"),
    ("labels: {a: &a [x], b: [*a]}", "own.yaml: labels.a: ['x'] has the wrong type"),
    ('environment: {X: "{user.__class__}"}', ""),
    ('environment: {X: "{{ 7*7 }} {% raw %} %(user)s ${user!r} $(id) `id`"}', ""),
    ("summary: \x07", "own.yaml"),
    ("a: 1\n---\nb: 2", "own.yaml:2: cannot be read as YAML: expected a single document in the stream, but found"),
]


@pytest.mark.parametrize(("text", "line"), CODE_LIKE, ids=lambda value: value[:30])
def test_nothing_in_a_profile_is_run(text: str, line: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    places = write(site, "own", text)
    if not line:
        request = launch(flags.parse(["-s"]), {}, profile.load("own", "test", places), ALICE)
        assert next(pair.value for pair in request.environment if pair.key == "X") in text
    else:
        with pytest.raises(UserError) as caught:
            profile.load("own", "test", places)
        assert line in str(caught.value)
        assert len(str(caught.value)) < 1000
    assert list(site.iterdir()) == [site / "own.yaml"]


TWICE = [
    (
        "defaults: {cpus: 1}\nlabels: {}\ndefaults: {cpus: 2}\n",
        "own.yaml:3: the key 'defaults' is there twice; it is on line 1",
    ),
    ("defaults:\n  cpus: 1\n  cpus: 1\n", "own.yaml:3: the key 'cpus' is there twice; it is on line 2 already"),
    ("defaults: {cpus: 1, 'cpus': 2}\n", "own.yaml:1: the key 'cpus' is there twice"),
    ("volumes:\n- {name: x, path: /a,\n   path: /b, volume: {emptyDir: {}}}\n", "own.yaml:3: the key 'path' is there"),
    ("labels: &a {x: a,\n x: b}\nannotations: *a\n", "own.yaml:2: the key 'x' is there twice"),
]


@pytest.mark.parametrize(("text", "line"), TWICE, ids=lambda value: value[:30])
def test_a_key_that_is_there_twice_is_refused_with_its_line(text: str, line: str, site: Path) -> None:
    with pytest.raises(UserError) as caught:
        profile.load("own", "test", write(site, "own", text))
    assert line in str(caught.value)


def test_a_merged_mapping_may_be_overridden(site: Path) -> None:
    places = write(site, "own", "environment: &a {X: one, Y: two}\nlabels: {<<: *a, X: other}\n")
    assert profile.load("own", "test", places).labels == {"X": "other", "Y": "two"}


scalars = st.none() | st.booleans() | st.integers(-5, 70000) | st.text(max_size=5) | st.sampled_from(["Always", "/a"])
keys = st.sampled_from(["defaults", "cpus", "home", "path", "volume", "emptyDir", "nfs", "server", "labels", "limits"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3))


VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(keys | st.sampled_from(list(SCHEMA["properties"])), values, max_size=3))
def test_our_reading_of_the_schema_agrees_with_jsonschema(value: dict[str, Any]) -> None:
    valid = VALIDATOR.is_valid(value)
    try:
        schema.check(value, SCHEMA, "test")
        ours = True
    except UserError:
        ours = False
    assert ours == valid
