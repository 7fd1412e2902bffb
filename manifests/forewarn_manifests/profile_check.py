"""Check a site's profile as a whole, before any launch uses it: what a flag would be refused for, its file is, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.errors import UserError
from forewarn_manifests import checks, storage
from forewarn_manifests.launch import SCRIPT_VOLUME, toleration
from forewarn_manifests.reader import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn_manifests.profile import Place, Profile

LIMITED = ("cpus", "memory", "gpus", "timeout")
_SAMPLES = {"user": "alice", "uid": "1000", "gid": "1000"}
_RESERVED = (
    storage.HOME_VOLUME,
    storage.SHARED_MEMORY_VOLUME,
    contract.VOLUME_NAME,
    SCRIPT_VOLUME,
    storage.TEAMS_VOLUME,
    storage.CONDA_VOLUME,
)


def check(profile: Profile) -> None:
    """Raise ``UserError`` at the file and key of the first mistake."""
    for name in LIMITED:
        number, most = int(profile.defaults[name]), profile.limits[name]
        if number > most:
            limit = f"allowed: at most {most} ({profile.at(f'limits.{name}')})"
            raise UserError(profile.at(f"defaults.{name}"), f"{number} is out of range", limit)
    checks.image(profile.at("defaults.image"), str(profile.defaults["image"]))
    _check_gpu_and_nodes(profile)
    _check_storage(profile)
    _check_metadata(profile)
    for spec in profile.tolerations:
        toleration(profile.at("tolerations"), spec)
    for secret in profile.pull_secrets:
        checks.object_name(profile.at("pullSecrets"), secret, 253)
    _check_environment(profile.at("environment"), profile.environment)
    for name, words in profile.commands.items():
        place = profile.at(f"commands.{name}")
        for word in words:
            checks.text(place, _filled(place, word, {"port": "8888"}) if name == "jupyter" else word)


def _check_gpu_and_nodes(profile: Profile) -> None:
    resource = profile.gpu_resource
    if "/" not in resource:
        raise UserError(profile.at("gpu.resource"), f"{resource!r} is no resource of a device", "allowed: DOMAIN/NAME")
    checks.key(profile.at("gpu.resource"), resource, "allowed: DOMAIN/NAME")
    for name in profile.gpu_classes:
        checks.label_value(profile.at("gpu.classes"), name)
    if profile.gpu_default_class:
        checks.one_of(profile.at("gpu.defaultClass"), "class", profile.gpu_default_class, profile.gpu_classes)
    checks.key(profile.at("gpu.models"), profile.gpu_model_label, checks.KEY_ALLOWED)
    for name in profile.gpu_models:
        checks.label_value(profile.at("gpu.models"), name)
    checks.key(profile.at("nodes.label"), profile.node_label, checks.KEY_ALLOWED)
    node = _filled(profile.at("nodes.name"), profile.node_name, {"node": "1".zfill(profile.node_digits)})
    checks.label_value(profile.at("nodes.name"), node)


def _check_storage(profile: Profile) -> None:
    _check_place(profile.at("home"), profile.home)
    if profile.workspaces:
        _check_place(profile.at("workspaces"), profile.workspaces, {"workspace": "CSE1"})
    for name in profile.known_workspaces:
        checks.label_value(profile.at("workspaces.known"), name)
    if profile.teams:
        _check_place(profile.at("teams"), profile.teams)
    if profile.conda_cache:
        _check_place(profile.at("condaCache"), profile.conda_cache)
    _check_environment(profile.at("condaCache.environment"), profile.conda_environment)
    taken = set(_RESERVED)
    for name, place in profile.volumes:
        if name in taken:
            raise UserError(profile.at("volumes"), f"the name {name!r} is taken", "name each volume differently")
        taken.add(name)
        _check_place(profile.at("volumes"), place)


def _check_place(where: str, place: Place, extra: Mapping[str, str] | None = None) -> None:
    checks.path(where, _filled(where, place.path, extra))
    if place.sub_path:
        checks.sub_path(where, _filled(where, place.sub_path, extra))
    for value in place.source.values():
        if isinstance(value, str):
            checks.text(where, _filled(where, value, extra))


def _check_metadata(profile: Profile) -> None:
    prefix = _prefix(profile)
    place = profile.at("labels")
    for key, value in profile.labels.items():
        content = checks.label_value(place, _filled(place, value))
        if checks.key(place, key, checks.KEY_ALLOWED) == contract.USER_LABEL:
            raise UserError(place, f"{key} is the launcher's to set", "leave it out")
        if key == contract.GPU_CLASS_LABEL:
            checks.one_of(place, key, content, profile.gpu_classes)
    place = profile.at("nodeSelector")
    for key, value in profile.node_selector.items():
        checks.key(place, key, checks.KEY_ALLOWED)
        checks.label_value(place, _filled(place, value))
    place = profile.at("annotations")
    for key, value in profile.annotations.items():
        _check_annotation(place, key, prefix)
        checks.text(place, _filled(place, value))
    _check_annotation(profile.at("mailAnnotation"), profile.mail_annotation, prefix)


def _prefix(profile: Profile) -> str:
    if profile.annotation_prefix == contract.DEFAULT_PREFIX:
        return profile.annotation_prefix
    from forewarn import settings  # here, since few sites have a prefix of their own

    try:
        return settings.prefix(profile.annotation_prefix)
    except ValueError as error:
        where = profile.at("annotationPrefix")
        raise UserError(where, f"{profile.annotation_prefix!r} cannot be read", f"allowed: {error}") from None


def _check_annotation(where: str, key: str, prefix: str) -> None:
    checks.key(where, key, checks.KEY_ALLOWED)
    if key.startswith((prefix, contract.IDLE_PREFIX)):
        raise UserError(where, f"{key} is the reservation controller's alone", "allowed: a key of your own")


def _check_environment(where: str, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        checks.variable_name(where, name)
        checks.text(where, _filled(where, value))


def _filled(where: str, text: str, extra: Mapping[str, str] | None = None) -> str:
    """Put a sample in for each placeholder; one that is not known is a mistake."""
    known = {**_SAMPLES, **(extra or {})}
    return PLACEHOLDER.sub(lambda match: known[checks.one_of(where, "placeholder", match.group(1), known)], text)
