"""What a pod is warned about: one finding for each rule that it breaks, as one short sentence. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.admission import processes
from forewarn.admission.pod import mapping, printable, sequence, string
from forewarn.admission.podinfo import At

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from forewarn.admission.pod import Container, Mount
    from forewarn.admission.podinfo import Item, Source

    Place = tuple[Container, At, Mount | None]

PREFIX = "forewarn: "
"""What the webhook puts in front of a warning: kubectl shows it among others."""

LONGEST = 256 - len(PREFIX)
"""Characters of one warning that the API server passes on whole, less the prefix."""


JUDGED_CHARACTERS = 8192
"""Characters of a pod's command lines that the webhook judges: reading them must not hold up the next pod."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a pod: the id of the rule (see rules.py) and a sentence with the mend."""

    rule: str
    text: str


def windows() -> Finding:
    """Return what is said of a Windows pod."""
    return Finding("windows", "a Windows pod is left as it is: it gets no podinfo and no longer grace")


def find(
    spec: Mapping[str, Any],
    places: Sequence[Place],
    downward: Mapping[str, Source],
    used: Collection[str],
    items: Sequence[Item],
    prefix: str,
    grace: int | None,
    judged: float,
) -> tuple[Finding, ...]:
    """Return what is wrong with a pod whose containers have ``places`` at /etc/podinfo.

    ``used`` are the volumes mounted there once the pod is patched, ``grace`` its seconds by then (``None``: the API's
    default), ``judged`` how many characters of its command lines are read. Raises ``Malformed``.
    """
    everyone = [container for container, _, _ in places]
    fields = {field for _, field in items}
    ours = {name for name, source in downward.items() if name in used or not fields.isdisjoint(source.files.values())}
    found = [
        *_items_taken(downward, used, items),
        *_of("path-taken", (container for container, at, _ in places if at is At.TAKEN), _PATH_TAKEN),
        *_of(
            "sub-path",
            (each for each, at, _ in places if at is At.SUB_PATH or _sub_path(each, ours)),
            _SUB_PATH,
        ),
        *_of("env", (container for container in everyone if _env(container, prefix)), _ENV),
    ]
    if not (spec.get("shareProcessNamespace") or spec.get("hostPID")):
        found += _pid_1(everyone, judged)
    longest = 30 if grace is None else grace
    found += _of(
        "pre-stop",
        (each for each in everyone if _stops(each) and processes.pre_stop_seconds(each.spec) > longest),
        f"preStop takes longer than the grace of {longest} s: SIGKILL comes before the program can save",
    )
    return tuple(found)


_PATH_TAKEN = f"{contract.MOUNT_PATH} is taken by another mount: no podinfo there, warnings cannot be read"
_SUB_PATH = f"a subPath mount of podinfo never refreshes: mount the whole volume at {contract.MOUNT_PATH}"
_ENV = f"an env variable from a warning annotation is fixed at start: read {contract.MOUNT_PATH} instead"


def _items_taken(downward: Mapping[str, Source], used: Collection[str], items: Sequence[Item]) -> list[Finding]:
    found = []
    for name in sorted(used):
        taken = [wanted[0] for wanted in items if downward[name].taken(wanted)] if name in downward else []
        if taken:
            verb = "is another field" if len(taken) == 1 else "are other fields"
            found.append(Finding("item-taken", _cut(f"volume {name}: {_names(taken)} {verb} there, and left so")))
    return found


def _sub_path(container: Container, ours: Collection[str]) -> bool:
    return any(mount.sub_path and mount.volume in ours for mount in container.mounts)


def _env(container: Container, prefix: str) -> bool:
    sources = (mapping(variable).get("valueFrom") for variable in sequence(container.spec.get("env")))
    return any(
        string(mapping(mapping(source).get("fieldRef")).get("fieldPath")) in _annotation_fields(prefix)
        for source in sources
        if source is not None
    )


@functools.lru_cache(maxsize=8)
def _annotation_fields(prefix: str) -> frozenset[str]:
    keys = contract.Keys(prefix)
    return frozenset(contract.field_path(keys.key(name)) for name in contract.ANNOTATION_NAMES)


def _stops(container: Container) -> bool:
    # An init container that has run is gone by the time of a stop; a native sidecar is not.
    return not container.init or container.sidecar


def _pid_1(everyone: Iterable[Container], judged: float) -> list[Finding]:
    found: dict[str, list[Container]] = {}
    for container in everyone:
        length = processes.length(container.spec)
        if length > judged or not _stops(container):
            continue
        judged -= length
        if (mend := processes.swallows_sigterm(container.spec)) is not None:
            found.setdefault(mend, []).append(container)
    return [
        finding
        for mend, those in found.items()
        for finding in _of("pid-1", those, f"its PID 1 ignores SIGTERM and holds the GPU for the whole grace; {mend}")
    ]


def _of(rule: str, those: Iterable[Container], text: str) -> list[Finding]:
    names = [container.name for container in those]
    if not names:
        return []
    word = "container" if len(names) == 1 else "containers"
    return [Finding(rule, _cut(f"{word} {_names(names)}: {text}"))]


def _names(names: Sequence[str]) -> str:
    clean = [name[:63] or "(unnamed)" for name in names]
    shown, more = (clean, 0) if len(clean) <= 2 else (clean[:1], len(clean) - 1)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _cut(text: str) -> str:
    clean = printable(text)
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"
