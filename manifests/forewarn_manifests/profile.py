"""Profiles: what a site sets up once for its launches (defaults, limits, storage, nodes, teams), from YAML files.

A profile is found by its file's name, first in the site's directories, then among the shipped ones. It may extend
another one, and extends ``launch`` where it names none; a file that extends its own name extends the next one of that
name, so a site's ``launch.yaml`` changes the shipped ``launch`` and every profile that extends it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from forewarn import contract
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT = "launch"
_NAME = r"[a-z0-9][-a-z0-9]*"


@dataclass(frozen=True)
class Place:
    """Storage and where it is mounted; ``kind`` and ``source`` are a pod's volume source. Texts may hold {user}."""

    path: str
    kind: str
    source: Mapping[str, Any]
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class Profile:
    """A site's profile, checked; numbers are seconds, GB, CPUs."""

    name: str
    summary: str
    annotation_prefix: str
    defaults: Mapping[str, Any]
    limits: Mapping[str, int]
    gpu_resource: str
    gpu_classes: tuple[str, ...]
    gpu_default_class: str
    gpu_strict: bool
    gpu_model_label: str
    gpu_models: tuple[str, ...]
    node_label: str
    node_name: str
    node_digits: int
    home: Place
    workspaces: Place | None
    known_workspaces: tuple[str, ...]
    teams: Place | None
    known_teams: Mapping[str, int]
    conda_cache: Place | None
    conda_environment: Mapping[str, str]
    volumes: tuple[tuple[str, Place], ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    environment: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[str, ...]
    pull_secrets: tuple[str, ...]
    commands: Mapping[str, tuple[str, ...]]
    ssh_port: int
    init_images: tuple[str, ...]
    identity: str
    mail_annotation: str
    sources: Mapping[str, str] = field(default_factory=dict)
    """The file that each key (``defaults``, ``defaults.cpus``) has its value from, the last of those that set it."""

    def at(self, key: str) -> str:
        """Return the place to name in an error about a key: its file, and the key."""
        return f"{self.sources.get(key) or self.sources.get(key.partition('.')[0]) or f'profile {self.name}'}: {key}"


def directories(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the site's own directories: FOREWARN_PROFILES, separated by colons."""
    return tuple(part for part in environ.get("FOREWARN_PROFILES", "").split(":") if part)


def load(name: str, where: str, places: Sequence[str] = ()) -> Profile:
    """Find a profile by name, with everything that it extends.

    Raises ``UserError``: at ``where`` for a name that is not known, at the file and key for a value that no
    launch could have. Shipped profiles are checked by a test.
    """
    raw, sources, own = merged(name, where, places)
    found = replace(from_raw(name, raw), sources=sources)
    if own:
        from forewarn_manifests.profile_check import check

        check(found)
    return found


def names(places: Sequence[str] = ()) -> list[str]:
    """Return the names of all profiles."""
    from pathlib import Path

    from forewarn_manifests.compiled import PROFILES

    own = [path.stem for place in places if Path(place).is_dir() for path in sorted(Path(place).glob("*.yaml"))]
    return list(dict.fromkeys([*PROFILES, *own]))


def merged(name: str, where: str, places: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, str], bool]:
    """Return a profile's raw values over those that it extends, where each is from, and whether any is a site's own."""
    chain: list[tuple[dict[str, Any], str]] = []
    own = False
    seen: set[tuple[str, int]] = set()
    wanted: str | None = name
    first = 0
    while wanted is not None:
        found, index, source = _find(wanted, where, places, first)
        if (wanted, index) in seen:
            raise UserError(source, f"extends itself by way of {wanted!r}", "allowed: a chain that ends")
        seen.add((wanted, index))
        chain.append((found, source))
        own = own or index < len(places)
        following = found.get("extends", None if wanted == DEFAULT and index == len(places) else DEFAULT)
        first = index + 1 if following == wanted else 0
        where = f"{source}: extends"
        wanted = following
    result: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for raw, source in reversed(chain):
        result = _merge(result, raw)
        for key, value in raw.items():
            sources[key] = source
            if isinstance(value, dict):
                sources |= dict.fromkeys((f"{key}.{inner}" for inner in value), source)
    result.pop("extends", None)
    return result, sources, own


def _find(name: str, where: str, places: Sequence[str], first: int) -> tuple[dict[str, Any], int, str]:
    from forewarn_manifests.compiled import PROFILES

    if re.fullmatch(_NAME, name):
        for index, place in enumerate(places[first:], first):
            from pathlib import Path  # here, since only a site's own profiles need it

            if not Path(place).is_dir():
                raise UserError(
                    "FOREWARN_PROFILES", f"{place!r} is no directory", "allowed: directories, with : between"
                )
            path = Path(place, f"{name}.yaml")
            if path.is_file():
                return read(str(path)), index, str(path)
        if name in PROFILES and first <= len(places):
            return cast("dict[str, Any]", PROFILES[name]), len(places), f"profile {name}"
    from forewarn_manifests.checks import one_of

    if first > 0:
        raise UserError(where, f"nothing below {name!r} to extend", "allowed: another profile")
    one_of(where, "profile", name, names(places))
    raise UserError(where, f"no profile {name!r}", "allowed: a name of letters, digits and -")


def read(path: str) -> dict[str, Any]:
    """Read and check one profile file."""
    import json
    from pathlib import Path

    from forewarn_manifests.schema import check
    from forewarn_manifests.yaml_text import load as load_yaml

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(path, f"cannot be read: {error}") from None
    _, raw = load_yaml(path, text)
    schema = json.loads((Path(__file__).parent / "profiles/schema.json").read_text(encoding="utf-8"))
    check({} if raw is None else raw, schema, path)
    return cast("dict[str, Any]", raw or {})


def _merge(low: dict[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Put ``high`` over ``low``: mappings are merged, anything else (a volume source too) replaced."""
    result = dict(low)
    for key, value in high.items():
        below = result.get(key)
        whole = key == "volume" or not isinstance(value, dict) or not isinstance(below, dict)
        result[key] = value if whole else _merge(cast("dict[str, Any]", below), value)
    return result


def from_raw(name: str, raw: Mapping[str, Any]) -> Profile:
    """Make a profile of its raw values, which hold at least what the shipped ``launch`` does."""
    gpu, nodes, teams = raw["gpu"], raw["nodes"], raw.get("teams", {})
    return Profile(
        name=name,
        summary=raw.get("summary", ""),
        annotation_prefix=raw.get("annotationPrefix", contract.DEFAULT_PREFIX),
        defaults=raw["defaults"],
        limits=raw["limits"],
        gpu_resource=gpu.get("resource", contract.GPU_RESOURCE),
        gpu_classes=tuple(gpu.get("classes", ())),
        gpu_default_class=gpu.get("defaultClass", ""),
        gpu_strict=gpu.get("strict", False),
        gpu_model_label=gpu.get("models", {}).get("label", "gpu-model"),
        gpu_models=tuple(gpu.get("models", {}).get("known", ())),
        node_label=nodes.get("label", "kubernetes.io/hostname"),
        node_name=nodes.get("name", "{node}"),
        node_digits=nodes.get("digits", 1),
        home=_place(raw["home"]),
        workspaces=_place(raw["workspaces"]) if "workspaces" in raw else None,
        known_workspaces=tuple(raw.get("workspaces", {}).get("known", ())),
        teams=_place({"path": "/teams", **teams}) if "volume" in teams else None,
        known_teams=teams.get("known", {}),
        conda_cache=_place(raw["condaCache"]) if "condaCache" in raw else None,
        conda_environment=raw.get("condaCache", {}).get("environment", {}),
        volumes=tuple((volume["name"], _place(volume)) for volume in raw.get("volumes", ())),
        labels=raw.get("labels", {}),
        annotations=raw.get("annotations", {}),
        environment=raw.get("environment", {}),
        node_selector=raw.get("nodeSelector", {}),
        tolerations=tuple(raw.get("tolerations", ())),
        pull_secrets=tuple(raw.get("pullSecrets", ())),
        commands={key: tuple(words) for key, words in raw["commands"].items()},
        ssh_port=raw.get("sshPort", 22),
        init_images=tuple(raw.get("init", {}).get("images", ())),
        identity=raw.get("identity", "image"),
        mail_annotation=raw.get("mailAnnotation", "forewarn/mail"),
    )


def _place(raw: Mapping[str, Any]) -> Place:
    ((kind, source),) = raw["volume"].items()
    return Place(raw["path"], kind, source or {}, raw.get("subPath", ""), raw.get("readOnly", False))
