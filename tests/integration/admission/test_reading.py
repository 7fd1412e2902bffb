"""YAML is read as the real kubectl reads it."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

from forewarn.admission import goyaml
from tests.support.programs import program

SCALARS = """
y N yes off ~ Null nULL 0444 0o17 0x1F 1_000 08 600.0 1e3 +5 -1 1:30 2026-01-01 1.5 .5 5. 0b11 -0x1f 1e 0o9 1__0 _1
0.1e2 09.5 -010 1_0.5 1e+3 007 0777_7 0b2 0xZ 2026-01-01T00:00:00Z true True TRUE trUE =
""".split()  # noqa: SIM905  (shorter to read)

DOCUMENTS = (
    *("x: a\tb", "x: a\t# c", "x:\ta", "x: {a: b}\t# c", "x: [a\t,\tb\t]\t", "x: [a,\n\tb]", "x: a\t\ny: 1", "x\t: a"),
    *(
        "x: &a\tb\nz: *a\t# c",
        "x: a \t b\t\n  c",
        "x: 'a\t'\t# b",
        'x: "a\t#"\t# b',
        "x: a # c\t\nz:\t|\t# c\n  x\t# d",
    ),
    *("x: >-\t# c\n  b\n", "x: |+2\t\n  b\n\n", "x:\t# c\n  b: c\t\n  d: 'x'\t# e"),
    *("\tx: a", "x: a\n\ty: b", "x:\n-\tb: c"),
    *("x: !!binary aGVsbG8=", "x: !!binary /w==", 'x: !!binary "@@@"', "x: !!timestamp 2026-01-01", "x: !!set {a, b}"),
    *("x: !!omap [a: 1]", "x: !!pairs [a: 1]", "x: {1: a, 1.5: b, true: d, 1e3: f, !!binary aGk=: d}", 'x: !!int "5"'),
    *(
        "x: !!float 3",
        "x: !foo 5",
        "x: !!foo 5",
        "x: !foo {a: 5}",
        "x: !!str 5",
        "x: !!str",
        'x: !!bool "yes"',
        "x: <<",
    ),
    *(
        "x: !!python/none 3",
        "x: 1\nx: 2",
        "x: !!map {a: 1}",
        "x: &a [*a]",
        'x: !!null ""',
        "x: !!int 0444",
        "x: {[a]: 1}",
    ),
)


@pytest.mark.parametrize("spec", DOCUMENTS)
def test_tabs_tags_and_keys_are_read_or_refused_as_kubectl_does(spec: str, tmp_path: Path) -> None:
    text = f"apiVersion: example.org/v1\nkind: Thing\nmetadata: {{name: x}}\nspec:\n{textwrap.indent(spec, '  ')}\n"
    path = tmp_path / "thing.yaml"
    path.write_text(text)
    argv = [program("kubectl"), "annotate", "--local", "-f", str(path), "a=b", "-o", "json"]
    done = subprocess.run(argv, capture_output=True, timeout=60)
    if done.returncode:
        with pytest.raises(yaml.YAMLError):
            goyaml.load(text)
        return
    assert goyaml.load(text)["spec"] == json.loads(done.stdout)["spec"]


def test_every_form_of_scalar_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    lines = [f"  k{number}: {scalar}" for number, scalar in enumerate(SCALARS)]
    text = "\n".join(["apiVersion: example.org/v1", "kind: Thing", "metadata: {name: x}", "spec:", *lines, ""])
    path = tmp_path / "thing.yaml"
    path.write_text(text)
    argv = [program("kubectl"), "annotate", "--local", "-f", str(path), "a=b", "-o", "json"]
    theirs = json.loads(subprocess.run(argv, check=True, capture_output=True, timeout=60).stdout)["spec"]
    ours = goyaml.load(text)["spec"]
    # repr: 1 and 1.0 and True are equal, and not the same.
    assert {key: repr(value) for key, value in ours.items()} == {key: repr(value) for key, value in theirs.items()}
