"""``forewarn simulate``: what it says and refuses before it looks for a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn import cli

POD = "{manifest: {apiVersion: v1, kind: Pod, spec: {containers: [{name: m, image: i}]}}}"


def scenario(folder: Path, text: str) -> str:
    path = folder / "s.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (f"pods:\n  a: {POD}\nsteps:\n  - withdraw:\n", "1 pod, 1 step"),
        (
            f"pods:\n  a: {POD}\n  b: {POD}\nsteps:\n  - {{pod: a, create: }}\n  - {{pod: b, withdraw: }}\n",
            "2 pods, 2 steps",
        ),
    ],
)
def test_check_counts_the_steps_of_the_file(
    text: str, counts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario(tmp_path, text)
    assert cli.main(["simulate", "--check", path]) == 0
    assert capsys.readouterr().out == f"{path}: {counts}, nothing wrong\n"


def test_a_folder_that_takes_no_files_is_refused_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario(tmp_path, f"pods:\n  a: {POD}\nsteps:\n  - withdraw:\n")
    # There is no such kubeconfig either: the folder comes first.
    argv = ["simulate", "--failures", f"{path}/kept", "--kubeconfig", str(tmp_path / "none"), path]
    assert cli.main(argv) == 2
    assert (
        capsys.readouterr().err
        == f"error: --failures: {path}/kept takes no files: Not a directory; allowed: a folder\n"
    )
