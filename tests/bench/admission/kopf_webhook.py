"""The same decision behind kopf's own webhook server: what forewarn's own is measured against.

Run by `kopf run`; the registration is the bench's, not kopf's. KOPF_PORT, KOPF_CERT, KOPF_KEY name what it listens on.
"""

from __future__ import annotations

import os
from typing import Any

import kopf

from forewarn.admission.inject import InjectSettings, decide

SETTINGS = InjectSettings()


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=int(os.environ["KOPF_PORT"]),
        certfile=os.environ["KOPF_CERT"],
        pkeyfile=os.environ["KOPF_KEY"],
    )
    settings.posting.enabled = False


@kopf.on.mutate("v1", "pods", id="mutate", operations=["CREATE"])  # type: ignore[arg-type]
def mutate(body: kopf.Body, patch: kopf.Patch, warnings: list[str], **_: Any) -> None:
    # kopf makes the JSON patch itself, from a merge patch.
    decision = decide(dict(body), SETTINGS)
    warnings.extend(decision.warnings)
    spec = {key: list(value) if isinstance(value, list) else value for key, value in body["spec"].items()}
    for operation in decision.patch:
        field, *rest = operation.path.split("/")[2:]
        if field == "terminationGracePeriodSeconds":
            patch.spec[field] = operation.value
        elif field == "volumes":
            spec[field] = [*spec.get(field, []), *(operation.value if not rest else [operation.value])]
            patch.spec[field] = spec[field]
        else:
            index = int(rest[0])
            mounts = operation.value if rest[-1] == "volumeMounts" else [operation.value]
            container = dict(spec[field][index])
            container["volumeMounts"] = [*container.get("volumeMounts", []), *mounts]
            spec[field][index] = container
            patch.spec[field] = spec[field]
