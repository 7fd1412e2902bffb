"""``render | inject`` changes nothing: a rendered manifest already has all that the webhook would add."""

from __future__ import annotations

import pytest
import yaml

from forewarn import contract
from forewarn.admission.inject import InjectSettings, decide
from tests.unit.manifests.golden import Case, cases


@pytest.mark.parametrize("case", [case for case in cases() if not case.dump], ids=lambda case: case.name)
def test_injection_finds_nothing_to_add_to_a_rendered_pod(case: Case) -> None:
    (first, *_) = case.requests()
    settings = InjectSettings(prefix=first.keys.prefix, whole_map=first.whole_map)
    for document in yaml.safe_load_all(case.text()):
        if document["kind"] == "Service":
            continue
        pod = document if document["kind"] == "Pod" else document["spec"]["template"]
        assert decide(pod, settings).documents() == []


def test_the_test_above_can_fail() -> None:
    case = next(case for case in cases() if case.name == "bare")
    pod = yaml.safe_load(case.text())
    pod["spec"]["terminationGracePeriodSeconds"] = contract.GRACE_SECONDS - 1
    assert decide(pod, InjectSettings()).documents() != []
