"""Every golden manifest fits the OpenAPI schema of every supported Kubernetes version, with no field that it lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.unit.manifests import openapi
from tests.unit.manifests.golden import cases, documents

DOCUMENTS = documents(sorted({case.expected for case in cases()}))


@cache
def validator(version: str, kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(openapi.schema(version, kind))


@pytest.mark.parametrize("version", openapi.versions())
def test_every_manifest_fits_the_schema(version: str) -> None:
    for name, document in DOCUMENTS:
        errors = [error.message for error in validator(version, document["kind"]).iter_errors(document)]
        assert not errors, name


def test_all_supported_versions_are_covered() -> None:
    assert [version.rpartition(".")[0] for version in openapi.versions()] == [f"v1.{minor}" for minor in range(31, 38)]


@pytest.mark.parametrize(
    "wrong", [{"gracePeriod": 1}, {"activeDeadlineSeconds": "soon"}, {"containers": [{"name": "a", "comand": []}]}]
)
def test_the_schema_refuses_what_is_wrong(wrong: dict[str, Any]) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}], **wrong}}
    assert list(validator(openapi.versions()[-1], "Pod").iter_errors(pod))
