"""An AdmissionReview's bytes → the answer's. Pure but for the JSON library; says 400 to what is no AdmissionReview."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from forewarn.admission.findings import PREFIX
from forewarn.admission.inject import NOTHING, Decision, decide

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from forewarn.admission.inject import InjectSettings

LARGEST = 3 * 1024 * 1024
"""Bytes of the largest body that is read: the API server itself takes objects of at most 3 MiB."""

API_VERSION = "admission.k8s.io/v1"

CHANGED = "changed"
UNCHANGED = "unchanged"
SKIPPED = "skipped"
FAILED = "failed"
REFUSED = "refused"
OUTCOMES = (CHANGED, UNCHANGED, SKIPPED, FAILED, REFUSED)
"""What became of a request: the pod changed; nothing to change; not a pod's creation; our own fault; not a review."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back: the HTTP status, the body, its type, and for the metrics what became of it."""

    status: int
    body: bytes
    outcome: str
    content_type: bytes = b"application/json"
    decision: Decision = field(default=NOTHING)
    namespace: str = ""
    error: Exception | None = None


def answer(body: bytes, settings: InjectSettings, never: Collection[str] = ()) -> Answer:
    """Answer one request's body; ``never`` are namespaces whose pods are left alone whatever the registration says.

    Always allows the pod. A body that is no AdmissionReview gets 400. Should the decision itself fail, the pod is left
    as it is and ``error`` says why: a fault of ours must not stop anybody's pod.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError:
        return refuse(400, "the body is not JSON")
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or review.get("kind") != "AdmissionReview":
        return refuse(400, "the body is not an AdmissionReview with a request")
    if review.get("apiVersion") != API_VERSION:
        return refuse(400, f"the AdmissionReview's apiVersion is not {API_VERSION}")
    uid, pod = request.get("uid"), request.get("object")
    if not isinstance(uid, str) or not uid:
        return refuse(400, "the request has no uid")
    # The request's namespace: the object's own may be blank still.
    namespace = request.get("namespace")
    namespace = namespace if isinstance(namespace, str) else ""
    if not is_pod_creation(request) or not isinstance(pod, dict) or namespace in never:
        return Answer(200, _response(uid, NOTHING), SKIPPED, namespace=namespace)
    try:
        decision = decide(pod, settings)
        return Answer(
            200,
            _response(uid, decision),
            CHANGED if decision.patch else UNCHANGED,
            decision=decision,
            namespace=namespace,
        )
    except Exception as error:  # Whatever it is, the pod must not suffer from it.
        return Answer(200, _response(uid, NOTHING), FAILED, namespace=namespace, error=error)


def is_pod_creation(request: Mapping[str, Any]) -> bool:
    """Return whether a request is the creation of a pod itself, not of its eviction or ephemeral containers."""
    resource = request.get("resource")
    return (
        request.get("operation") == "CREATE"
        and not request.get("subResource")
        and isinstance(resource, dict)
        and resource.get("group", "") == ""
        and resource.get("version") == "v1"
        and resource.get("resource") == "pods"
    )


def refuse(status: int, reason: str) -> Answer:
    """Answer a request that is none of ours with a status and one plain line."""
    return Answer(status, reason.encode() + b"\n", REFUSED, content_type=b"text/plain; charset=utf-8")


def _response(uid: str, decision: Decision) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(decision.documents())).decode()
    if decision.findings:
        response["warnings"] = [PREFIX + text for text in decision.warnings]
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
