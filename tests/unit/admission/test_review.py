"""AdmissionReviews in, answers out: what is no review gets 400, everything else is allowed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from forewarn.admission import review
from forewarn.admission.inject import InjectSettings, decide
from tests.unit.admission import generated, reviews

SETTINGS = InjectSettings()


def ask(document: Any, never: tuple[str, ...] = ()) -> tuple[review.Answer, Any]:
    answer = review.answer(json.dumps(document).encode(), SETTINGS, never)
    return answer, json.loads(answer.body) if answer.status == 200 else answer.body.decode()


def valid(**request: Any) -> dict[str, Any]:
    made = reviews.review(0)
    made["request"] |= {"namespace": "student", "object": generated.pod(3), **request}
    return made


def test_a_pods_creation_is_answered_with_the_decision() -> None:
    answer, body = ask(valid())
    decision = decide(generated.pod(3), SETTINGS)
    assert body["response"]["uid"] == "uid-0"
    assert body["response"]["allowed"] is True
    assert json.loads(base64.b64decode(body["response"]["patch"])) == decision.documents()
    assert answer.outcome == review.CHANGED


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "ephemeralcontainers"},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        {"resource": "pods"},
        {"object": None},
    ],
)
def test_what_is_no_creation_of_a_pod_is_allowed_unchanged(request_: dict[str, Any]) -> None:
    answer, body = ask(valid(**request_))
    assert body["response"] == {"uid": "uid-0", "allowed": True}
    assert answer.outcome == review.SKIPPED


def test_the_requests_namespace_counts_and_not_the_objects() -> None:
    pod = {**generated.pod(3), "metadata": {"namespace": "kube-system"}}
    assert ask(valid(object=pod), never=("kube-system",))[0].outcome == review.CHANGED
    pod = {**generated.pod(3), "metadata": {"generateName": "x-"}}
    assert ask(valid(object=pod, namespace="kube-system"), never=("kube-system",))[0].outcome == review.SKIPPED


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "not an AdmissionReview"),
        ({"kind": "AdmissionReview"}, "not an AdmissionReview"),
        ({**valid(), "kind": "Pod"}, "not an AdmissionReview"),
        ({**valid(), "apiVersion": "admission.k8s.io/v1beta1"}, "apiVersion is not admission.k8s.io/v1"),
        (valid(uid=""), "no uid"),
        (valid(uid=7), "no uid"),
    ],
)
def test_what_is_no_review_gets_400_and_a_reason(document: Any, said: str) -> None:
    answer, text = ask(document)
    assert answer.status == 400
    assert said in text


def test_a_fault_of_ours_leaves_the_pod_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(review, "decide", fail)
    answer, body = ask(valid())
    assert body["response"] == {"uid": "uid-0", "allowed": True}
    assert answer.outcome == review.FAILED
    assert str(answer.error) == "a bug"


def test_generated_reviews_get_an_answer_or_400_and_no_decision_fails() -> None:
    for seed in range(3000):
        kind, body = reviews.body(seed)
        answer = review.answer(body, SETTINGS)
        assert answer.status in ((200,) if kind == reviews.VALID else (200, 400)), seed
        assert answer.error is None, seed
        if answer.status == 200:
            assert json.loads(answer.body)["response"]["allowed"] is True
