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
from forewarn_manifests import flags, profile, schema
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('home: {path: "/h/{usr}", volume: {emptyDir: {}}}', "no placeholder 'usr' (did you mean user?)"),
        ('labels: {"a b": x}', "profile own: 'a b' is no key"),
        ("labels: {a: b c}", "profile own: 'b c' is no label value"),
        ("annotations: {a/b/c: x}", "profile own: 'a/b/c' is no key"),
        ('environment: {"1X": x}', "profile own: '1X' is no name of a variable"),
        ("tolerations: [a:b]", "profile own: no effect 'b'"),
        ("gpu: {defaultClass: huge}", "profile own: no defaultClass 'huge'"),
        ("defaults: {image: A}", "profile own: 'A' is no image"),
        ("annotationPrefix: A_", "profile own: 'A_' cannot be read"),
        ("volumes: [{name: home, path: /x, volume: {emptyDir: {}}}]", "two volumes are named 'home'"),
    ],
    ids=lambda value: value[:30],
)
def test_what_only_a_launch_can_find_names_the_profile(text: str, line: str, site: Path) -> None:
    found = profile.load("own", "test", write(site, "own", text))
    with pytest.raises(UserError) as caught:
        launch(flags.parse(["-g1", "-s"]), {}, found, ALICE)
    assert line in str(caught.value)


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
