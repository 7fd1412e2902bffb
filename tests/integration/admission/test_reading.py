"""YAML is read as the real kubectl reads it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from forewarn.admission import goyaml
from tests.support.programs import program

SCALARS = """
y N yes off ~ Null nULL 0444 0o17 0x1F 1_000 08 600.0 1e3 +5 -1 1:30 2026-01-01 1.5 .5 5. 0b11 -0x1f 1e 0o9 1__0 _1
0.1e2 09.5 -010 1_0.5 1e+3 007 0777_7 0b2 0xZ 2026-01-01T00:00:00Z true True TRUE trUE =
""".split()  # noqa: SIM905  (shorter to read)


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
