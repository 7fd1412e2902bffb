"""Every golden launch gives its expected bytes, in one process and in another, precompiled and by Jinja2 itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from forewarn import contract
from forewarn_manifests import compiled, precompile
from forewarn_manifests import render as renderer
from tests.unit.manifests.golden import DIRECTORY, Case, cases

CASES = cases()
# Without site packages (-S), whose own start imports pathlib in an editable install.
PYTHONPATH = {"PYTHONPATH": os.pathsep.join(str(DIRECTORY.parents[2] / part) for part in ("operator", "manifests"))}
PODS = [case for case in CASES if not case.dump]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_launch_gives_its_expected_manifest(case: Case) -> None:
    assert case.text() == case.expected.read_text(encoding="utf-8")


def test_there_are_at_least_sixty_cases_and_no_forgotten_file() -> None:
    assert len(CASES) >= 60
    assert {case.expected for case in CASES} == set((DIRECTORY / "expected").iterdir())


def test_the_same_launch_gives_the_same_bytes_in_another_process() -> None:
    case = next(case for case in CASES if case.name == "gpu")
    command = [sys.executable, "-m", "forewarn.cli", "render", "--user", "alice", *case.argv]
    runs = {
        subprocess.run(
            command, capture_output=True, check=True, env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed}
        ).stdout.decode()
        for seed in ("1", "2")
    }
    (text,) = runs
    expected = case.expected.read_text(encoding="utf-8")
    assert text.split("spec:")[1] == expected.split("spec:")[1]


def test_the_precompiled_templates_and_profiles_are_current() -> None:
    path = precompile.HERE / "compiled.py"
    assert path.read_text(encoding="utf-8") == precompile.compiled(), "run: python -m forewarn_manifests.precompile"


def test_jinja2_itself_renders_every_case_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    jinja = precompile.environment()
    names = {getattr(compiled, path.name.partition(".")[0]): path.name for path in precompile.HERE.glob("templates/*")}
    monkeypatch.setattr(renderer, "run", lambda root, values: jinja.get_template(names[root]).render(values))
    for case in CASES:
        assert case.text() == case.expected.read_text(encoding="utf-8"), case.name


@pytest.mark.parametrize("case", PODS, ids=lambda case: case.name)
def test_every_pod_reads_warnings_and_has_the_grace(case: Case) -> None:
    for document in yaml.safe_load_all(case.text()):
        if document["kind"] == "Service":
            continue
        pod = document["spec"] if document["kind"] == "Pod" else document["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] >= contract.GRACE_SECONDS
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == contract.VOLUME_NAME]
        assert [item["path"] for item in volume["downwardAPI"]["items"]][:6] == list(contract.PODINFO_NAMES)
        for container in pod["containers"]:
            assert contract.MOUNT_PATH in [mount["mountPath"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize("case", [case for case in CASES if case.dump], ids=lambda case: case.name)
def test_json_says_what_yaml_says(case: Case) -> None:
    value = json.loads(case.text())
    plain = Case(case.name, tuple(word for word in case.argv if word != "-d"), case.environ)
    documents = list(yaml.safe_load_all(plain.text()))
    assert (value["items"] if value["kind"] == "List" else [value]) == documents


def test_a_launch_by_a_shipped_profile_imports_neither_jinja2_nor_yaml() -> None:
    code = (
        "import sys\nfrom forewarn.cli import main\nmain(['render', '-Q', '-B', '--', 'true'])\n"
        "heavy = {'jinja2', 'yaml', 'argparse', 'pathlib', 'lightkube', 'asyncio', 'logging'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, env=PYTHONPATH
    )
    assert (done.returncode, done.stderr) == (0, "")
