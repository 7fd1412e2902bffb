"""Generated AdmissionReviews: valid ones, broken ones, and bytes that are none."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.unit.admission import generated

VALID, BROKEN, BYTES = "valid", "broken", "bytes"


def review(seed: int) -> dict[str, Any]:
    """Return a valid review of a pod's creation."""
    chance = random.Random(seed)
    pod = generated.broken(seed) if chance.random() < 0.5 else generated.pod(seed)
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": f"uid-{seed}",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": chance.choice(("student", "kube-system", "")),
            "dryRun": chance.random() < 0.5,
            "object": pod,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def body(seed: int) -> tuple[str, bytes]:
    """Return the kind and the bytes of a seed: a third valid, a third of broken reviews, a third of broken bytes."""
    chance = random.Random(-seed - 1)
    made = review(seed)
    if seed % 3 == 0:
        return VALID, json.dumps(made).encode()
    if seed % 3 == 1:
        return BROKEN, json.dumps(_broken(chance, made)).encode()
    return BYTES, _bytes(chance, json.dumps(made).encode())


def _broken(chance: random.Random, made: dict[str, Any]) -> Any:
    result = copy.deepcopy(made)
    rubbish: Any = chance.choice((None, [], {}, "x", 7, True, [{}], {"uid": 5}, "\ud800"))
    place = chance.choice((result, result["request"], result["request"]["resource"], None))
    if place is None:
        return rubbish
    key = chance.choice(list(place))
    if chance.random() < 0.3:
        del place[key]
    else:
        place[key] = rubbish
    return result


def _bytes(chance: random.Random, raw: bytes) -> bytes:
    way = chance.randrange(6)
    if way == 0:
        return raw[: chance.randrange(len(raw))]
    if way == 1:
        flipped = bytearray(raw)
        for _ in range(chance.randrange(1, 20)):
            flipped[chance.randrange(len(flipped))] = chance.randrange(256)
        return bytes(flipped)
    if way == 2:
        return chance.randbytes(chance.randrange(0, 300))
    if way == 3:
        return b'{"a":' * chance.randrange(1, 5000)
    if way == 4:
        return b"[" * chance.randrange(1, 100_000)
    return raw + chance.choice((b"\x00", b"}", b" x", raw))
