"""What is changed in a pod, and what never is: one table, from which the documentation is made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from forewarn import contract


class Kind(Enum):
    """What a rule does: change the pod, only warn, leave the pod alone, or promise something of every change."""

    CHANGED = "Changed"
    WARNED = "Warned about, not changed"
    UNTOUCHED = "Left as it is"
    PROMISED = "True of every change"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its id (also in ``forewarn check --format json``), what it says, and the cases that show it."""

    id: str
    kind: Kind
    sentence: str
    cases: tuple[str, ...]


_PATH, _NAME, _GRACE = contract.MOUNT_PATH, contract.VOLUME_NAME, contract.GRACE_SECONDS

RULES = (
    Rule(
        "volume",
        Kind.CHANGED,
        f"A pod without a podinfo gets the downward-API volume `{_NAME}` with one file for each of "
        f"{', '.join(f'`{name}`' for name in contract.PODINFO_NAMES)}.",
        ("bare", "own-volumes", "old-prefix", "generate-name"),
    ),
    Rule(
        "whole-map",
        Kind.CHANGED,
        f"With the setting `whole-map`, the whole annotation map is there too, as `{contract.WHOLE_MAP_FILE}`.",
        ("whole-map",),
    ),
    Rule(
        "mount",
        Kind.CHANGED,
        f"Every container, init container and native sidecar that has nothing at `{_PATH}` gets the podinfo mounted "
        "there, read-only.",
        ("two-containers-and-init", "native-sidecar", "mounted-in-one-container"),
    ),
    Rule(
        "complete",
        Kind.CHANGED,
        f"A podinfo that is there already, as a `downwardAPI` or a `projected` volume, named `{_NAME}` or mounted at "
        f"`{_PATH}` under another name, gets the files that it lacks; its own items and modes stay.",
        ("partial-podinfo", "projected", "other-name", "empty-items"),
    ),
    Rule(
        "another-name",
        Kind.CHANGED,
        f"Where a volume of another kind is named `{_NAME}`, ours is `{_NAME}-forewarn` (then `-2`, `-3`, …).",
        ("name-taken", "name-taken-twice", "projected-without-downward"),
    ),
    Rule(
        "grace",
        Kind.CHANGED,
        f"`terminationGracePeriodSeconds` below {_GRACE} (or unset) becomes {_GRACE}; nothing is ever lowered.",
        ("bare", "grace-zero", "grace-negative", "grace-longer"),
    ),
    Rule(
        "item-taken",
        Kind.WARNED,
        "An item of a podinfo whose path is one of ours but shows another field stays.",
        ("item-taken", "item-taken-by-directory", "projected-path-taken"),
    ),
    Rule(
        "path-taken",
        Kind.WARNED,
        f"A container that has something else at, above or below `{_PATH}` is left alone.",
        ("path-taken-by-claim", "mount-above", "mount-below", "device-at-path"),
    ),
    Rule(
        "sub-path",
        Kind.WARNED,
        "A `subPath` mount of a podinfo is never refreshed.",
        ("sub-path", "sub-path-elsewhere", "sub-path-expr"),
    ),
    Rule(
        "env",
        Kind.WARNED,
        "An environment variable from one of the annotations is fixed when the container starts.",
        ("env-field-ref",),
    ),
    Rule("windows", Kind.WARNED, "A Windows pod is left as it is.", ("windows", "windows-node-selector")),
    Rule(
        "pid-1",
        Kind.WARNED,
        "A command whose PID 1 lets SIGTERM pass by (a shell that waits for another command, `sleep`, `tail`) would "
        "hold its GPU for the whole grace.",
        ("shell-as-pid-1", "sleep-as-pid-1", "shell-that-execs", "shared-process-namespace"),
    ),
    Rule(
        "pre-stop",
        Kind.WARNED,
        "A `preStop` that takes longer than the grace leaves the program no time after SIGTERM.",
        ("pre-stop-too-long", "pre-stop-sleep"),
    ),
    Rule(
        "opt-out",
        Kind.UNTOUCHED,
        f"A pod with the label `{contract.INJECT_LABEL}: {contract.INJECT_DISABLED}`.",
        ("opt-out",),
    ),
    Rule(
        "opt-out-grace",
        Kind.UNTOUCHED,
        f"The grace of a pod with the label `{contract.GRACE_LABEL}: {contract.GRACE_KEEP}`.",
        ("opt-out-grace",),
    ),
    Rule(
        "not-a-session",
        Kind.UNTOUCHED,
        "A static pod's mirror, a pod owned by a DaemonSet, and every pod outside the selectors.",
        ("static-mirror", "daemon-set", "outside-selector"),
    ),
    Rule(
        "unreadable",
        Kind.UNTOUCHED,
        "A pod that the API server would refuse anyway (also one without a spec or containers): it says so better than "
        "we could. `inject` passes it through with a warning, `check` fails.",
        ("malformed", "no-containers", "containers-null"),
    ),
    Rule("host-network", Kind.PROMISED, "A hostNetwork pod is treated like any other.", ("host-network",)),
    Rule("idempotent", Kind.PROMISED, "A pod that has everything is not changed.", ("complete",)),
    Rule(
        "nothing-else",
        Kind.PROMISED,
        "Nothing is removed, reordered or rewritten: containers, other volumes, annotations, labels, unknown fields "
        "and fields of newer API versions stay as they are.",
        ("unknown-fields", "own-volumes"),
    ),
)


def markdown() -> str:
    """Return the rules as Markdown, one table for each kind, with the cases that show each."""
    parts = []
    for kind in Kind:
        rows = [
            f"| `{rule.id}` | {rule.sentence} | {', '.join(f'`{case}`' for case in rule.cases)} |"
            for rule in RULES
            if rule.kind is kind
        ]
        parts.append("\n".join([f"| rule | {kind.value.lower()} | shown by |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
