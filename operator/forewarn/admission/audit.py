"""What can be said of a pod that exists or is about to: does it see warnings, and does it survive a stop. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.admission import pod as pods
from forewarn.admission import podinfo
from forewarn.admission.findings import Finding
from forewarn.admission.inject import InjectSettings, decide_readable
from forewarn.admission.pod import Malformed, containers, integer, mapping
from forewarn.admission.podinfo import At

if TYPE_CHECKING:
    from collections.abc import Mapping

_SURVIVAL = frozenset({"pid-1", "pre-stop"})
"""Rules whose breach costs a session its grace; the other findings are of its sight."""


def in_scope(pod: Mapping[str, Any], pod_selector: Mapping[str, str]) -> bool:
    """Return whether a pod is one that should see warnings: not opted out, no mirror or DaemonSet pod, selected.

    Never raises: a pod that cannot be read is out of scope.
    """
    try:
        return pods.in_scope(pod, pod_selector)
    except Malformed:
        return False


def sees_podinfo(pod: Mapping[str, Any], prefix: str = contract.DEFAULT_PREFIX) -> bool:
    """Return whether every container that runs with the session can read the warning's instant as it changes.

    That is: at /etc/podinfo is a whole downward-API volume (no subPath) with ``termination-warning-at`` from the right
    annotation. Init containers that end do not count, native sidecars do. Never raises: ``False`` for what cannot be
    read.
    """
    try:
        return not blind_containers(pod, prefix)
    except Malformed:
        return False


def blind_containers(pod: Mapping[str, Any], prefix: str = contract.DEFAULT_PREFIX) -> tuple[str, ...]:
    """Return the names of the running containers that cannot read a warning. Raises ``Malformed``."""
    spec = mapping(pod.get("spec"))
    wanted = (contract.WARNING_AT, contract.field_path(contract.Keys(prefix).key(contract.WARNING_AT)))
    downward = podinfo.sources(spec)
    blind = []
    for container in containers(spec):
        if container.init and not container.sidecar:
            continue
        at, mount = podinfo.at_mount_path(container, downward)
        if at is not At.PODINFO or mount is None or not downward[mount.volume].shows(wanted):
            blind.append(container.name)
    return tuple(blind)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What ``forewarn check`` says of one pod template."""

    in_scope: bool
    sees_warnings: bool
    survives_stop: bool
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """Whether nothing needs mending."""
        return not self.in_scope or (self.sees_warnings and self.survives_stop)


def judge(pod: Mapping[str, Any], settings: InjectSettings) -> Verdict:
    """Return whether a pod (or pod template) as it is sees warnings and survives a stop, and why not."""
    try:
        if not pods.in_scope(mapping(pod), settings.pod_selector):
            return Verdict(in_scope=False, sees_warnings=False, survives_stop=False, findings=())
        found = list(decide_readable(pod, settings).findings)
        blind = blind_containers(pod, settings.prefix)
        grace = integer(mapping(pod.get("spec")).get("terminationGracePeriodSeconds"))
    except Malformed as error:
        finding = Finding("unreadable", f"the pod cannot be read: {error}")
        return Verdict(in_scope=True, sees_warnings=False, survives_stop=False, findings=(finding,))
    if blind and not any(each.rule in ("path-taken", "sub-path", "windows") for each in found):
        names = ", ".join(blind[:3]) + (f" and {len(blind) - 3} more" if len(blind) > 3 else "")
        found.insert(0, Finding("mount", f"no podinfo at {contract.MOUNT_PATH} in {names}: warnings cannot be read"))
    long_enough = grace is not None and grace >= contract.GRACE_SECONDS
    if not long_enough:
        given = "30 s (the default)" if grace is None else f"{grace} s"
        found.append(Finding("grace", f"the grace is {given}, below {contract.GRACE_SECONDS} s"))
    return Verdict(
        in_scope=True,
        sees_warnings=not blind,
        survives_stop=long_enough and not any(each.rule in _SURVIVAL for each in found),
        findings=tuple(found),
    )
