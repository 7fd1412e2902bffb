"""The decision: the written corpus, and what holds for every pod."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from forewarn import contract
from forewarn.admission import rules
from forewarn.admission.audit import sees_podinfo
from forewarn.admission.findings import LONGEST
from forewarn.admission.inject import NOTHING, InjectSettings, decide, decide_readable
from forewarn.admission.pod import pointer
from tests.unit.admission import corpus, generated

SETTINGS = InjectSettings()
SEEDS = range(400)


@pytest.mark.parametrize("name", corpus.names())
def test_a_written_case_gives_what_stands_beside_it(name: str) -> None:
    case = corpus.load(name)
    decision = decide(case.pod, case.settings)
    assert corpus.apply(case.pod, decision.patch) == case.expected_pod
    assert decision.warnings == case.expected_warnings


def test_every_rule_has_cases_and_every_case_shows_a_rule() -> None:
    shown = {name for rule in rules.RULES for name in rule.cases}
    assert shown == set(corpus.names())


def test_every_finding_is_a_rule_of_the_table() -> None:
    warned = {rule.id for rule in rules.RULES if rule.kind is rules.Kind.WARNED}
    found = {f.rule for seed in SEEDS for f in decide(generated.pod(seed), SETTINGS).findings}
    assert found == warned


def test_a_second_pass_is_empty_and_warns_the_same() -> None:
    for seed in SEEDS:
        pod = generated.pod(seed)
        first = decide(pod, SETTINGS)
        second = decide(corpus.apply(pod, first.patch), SETTINGS)
        assert second.patch == (), seed
        assert second.warnings == first.warnings, seed


def test_the_pod_itself_is_not_changed() -> None:
    for seed in SEEDS[:500]:
        pod = generated.pod(seed)
        before = copy.deepcopy(pod)
        decide(pod, SETTINGS)
        assert pod == before, seed


def test_nothing_is_removed_reordered_or_rewritten() -> None:
    for seed in SEEDS:
        pod = generated.pod(seed)
        after = corpus.apply(pod, decide(pod, SETTINGS).patch)
        after["spec"].pop("terminationGracePeriodSeconds", None)
        before = copy.deepcopy(pod)
        before["spec"].pop("terminationGracePeriodSeconds", None)
        assert _within(before, after), seed


def _within(small: object, large: object) -> bool:
    """Whether ``large`` is ``small`` with things added: keys anywhere, entries at the ends of lists."""
    if isinstance(small, dict) and isinstance(large, dict):
        return all(key in large and _within(value, large[key]) for key, value in small.items())
    if isinstance(small, list) and isinstance(large, list):
        return len(small) <= len(large) and all(_within(a, b) for a, b in zip(small, large, strict=False))
    return small == large


def test_afterwards_a_pod_sees_podinfo_or_its_owner_was_told_why_not() -> None:
    for seed in SEEDS:
        pod = generated.pod(seed)
        decision = decide(pod, SETTINGS)
        if decision is NOTHING:
            continue
        told = {f.rule for f in decision.findings} & {"path-taken", "item-taken", "sub-path", "windows"}
        assert told or sees_podinfo(corpus.apply(pod, decision.patch), SETTINGS.prefix), seed


def test_the_grace_is_never_lowered() -> None:
    for seed in SEEDS:
        pod = generated.pod(seed)
        before = pod["spec"].get("terminationGracePeriodSeconds", 30)
        after = corpus.apply(pod, decide(pod, SETTINGS).patch)["spec"].get("terminationGracePeriodSeconds", 30)
        assert after >= before, seed
        assert after in (before, contract.GRACE_SECONDS), seed


def test_a_warning_is_short_printable_and_names_the_container() -> None:
    pod = {"spec": {"containers": [{"name": "x" * 5000 + "\n", "command": ["bash", "-c", "a;" * 5000]}] * 300}}
    small = {"spec": {"containers": [{"name": "x" * 5000 + "\n", "command": ["bash", "-c", "a;" * 900 + "\x07"]}] * 3}}
    warnings = (*decide(pod, SETTINGS).warnings, *decide(small, SETTINGS).warnings)
    assert len(warnings) == 1
    for text in warnings:
        assert len(text) <= LONGEST
        assert text.isprintable()


def test_a_large_pod_does_not_hold_up_the_next_one() -> None:
    files = [{"path": f"p{n}", "fieldRef": {"fieldPath": "metadata.name"}} for n in range(20_000)]
    mounts = [{"name": "v", "mountPath": f"/m/{n}", "subPath": "x"} for n in range(20_000)]
    traps = {"name": "b", "command": ["bash", "-c", "trap " * 1630]}
    spec = {
        "volumes": [{"name": "v", "downwardAPI": {"items": files}}],
        "containers": [{"name": "a", "volumeMounts": mounts}, *[traps] * 30],
    }
    started = time.process_time()
    decide({"spec": spec}, SETTINGS)
    assert time.process_time() - started < 2


def test_the_webhook_skips_a_command_that_is_too_long_and_that_one_alone() -> None:
    long = {"name": "long", "command": ["bash", "-c", "a; b" + " # pad" * 1800]}
    pod = {"spec": {"containers": [long, {"name": "short", "command": ["bash", "-c", "a; b"]}]}}
    (webhooks,) = decide(pod, SETTINGS).findings
    assert webhooks.text.startswith("container short: its PID 1")
    assert [f.text.split(":")[0] for f in decide_readable(pod, SETTINGS).findings] == [
        "container long",
        "container short",
    ]


def test_rubbish_is_left_as_it_is_and_never_raises() -> None:
    for seed in SEEDS:
        decide(generated.broken(seed), SETTINGS)
    values: list[Any] = [None, 1, "x", [], {}, {"spec": None}, {"spec": []}, {"metadata": [], "spec": {}}]
    for value in values:
        assert decide({"spec": {"containers": value}} if value else {}, SETTINGS).patch is not None
        if not isinstance(value, dict):
            assert decide({"metadata": value, "spec": value}, SETTINGS) == NOTHING


def test_a_stateful_sets_claim_named_podinfo_is_a_volume_of_another_kind() -> None:
    pod = {"spec": {"containers": [{"name": "a"}]}}
    volumes = [op.value for op in decide(pod, SETTINGS, claims=["podinfo"]).patch if op.path == "/spec/volumes"]
    assert volumes[0][0]["name"] == "podinfo-forewarn"


def test_a_pointer_escapes_tilde_and_slash() -> None:
    assert pointer("metadata", "annotations", "a/b~c", 0) == "/metadata/annotations/a~1b~0c/0"
