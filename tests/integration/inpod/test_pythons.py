"""The unit tests of what runs in the pod, on each Python that a pod may have."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.integration.inpod.pythons import PYTHONS, environment
from tests.integration.inpod.support import ROOT

TESTS = (
    "tests/unit/inpod",
    "tests/unit/core/test_contract.py",
    "tests/unit/core/test_session.py",
    "tests/unit/core/test_wording.py",
)
# Settings of pyproject.toml for a plugin that these tests do not use.
QUIET = ("-W", "ignore::pytest.PytestConfigWarning", "-p", "no:cacheprovider")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_unit_tests_pass_on_each_python(version, tmp_path):
    command = [environment(version), "-m", "pytest", "-q", *QUIET, f"--basetemp={tmp_path / 'tmp'}", *TESTS]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT / "operator"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=390,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
