"""The volumes of a launch: home or workspace, sub-paths, teams, conda cache, NFS, and the profile's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import contract
from forewarn.errors import UserError
from forewarn_manifests import checks
from forewarn_manifests.request import Mount

if TYPE_CHECKING:
    from forewarn_manifests.profile import Place
    from forewarn_manifests.reader import Reader

HOME_VOLUME = "home"
SHARED_MEMORY_VOLUME = "dshm"
TEAMS_VOLUME = "teams"
CONDA_VOLUME = "conda-cache"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108  (the path that programs share memory at, mounted as such)
NFS_ALLOWED = "allowed: /PATH:SERVER:/EXPORT, such as /data:nfs.example.edu:/export/data"


def workspace(reader: Reader) -> str:
    """Return the workspace that -W names, else an empty text."""
    given = reader.given("workspace")
    if given is None:
        return ""
    name = checks.label_value(given.where, given.value)
    if not name:
        raise UserError(given.where, "the name of the workspace is empty", "allowed: a workspace's name")
    if reader.profile.known_workspaces:
        checks.one_of(given.where, "workspace", name, reader.profile.known_workspaces)
    elif reader.profile.workspaces is None:
        raise UserError(given.where, f"the profile {reader.profile.name} has no workspaces", "leave it out")
    return name


def home(reader: Reader, space: str) -> Mount:
    """Return the home: the workspace's storage where one is named, else the person's own."""
    place = reader.profile.workspaces if space and reader.profile.workspaces else reader.profile.home
    if space:
        why = reader.why["home"] = reader.why["workspace"]
    else:
        reader.from_profile("home")
        why = reader.why["home"]
    extra = {"workspace": space} if space else {}
    mount = _mount(reader, HOME_VOLUME, place, why, extra)
    if mount.kind == "emptyDir":
        reader.warnings.append(
            f"what is written to {mount.path} is lost with the pod: profile {reader.profile.name} keeps the "
            f"{'workspace' if space else 'home'} in an emptyDir (a site's profile names storage)"
        )
    return mount


def mounts(reader: Reader, home_mount: Mount, script: Mount | None) -> tuple[Mount, ...]:
    """Return every volume of the launch, the home first and the script's, if there is one, last.

    Raises ``UserError`` for two at one path, and for one where or below where podinfo or the script is: no runtime can
    make a mount point in their read-only volumes.
    """
    found = [home_mount]
    found.append(
        Mount(SHARED_MEMORY_VOLUME, SHARED_MEMORY_PATH, "emptyDir", {"medium": "Memory"}, why="for worker processes")
    )
    found += [_mount(reader, name, place, f"profile {reader.profile.name}") for name, place in reader.profile.volumes]
    found += _teams(reader) + _conda_cache(reader) + _sub_paths(reader, home_mount) + _nfs(reader)
    closed = {contract.MOUNT_PATH: "podinfo", **({script.path: script.why} if script else {})}
    taken = dict(closed)
    names: dict[str, str] = {contract.VOLUME_NAME: "podinfo"}
    for mount in found:
        for path, owner in closed.items():
            if mount.path.startswith(f"{path}/"):
                what = f"{mount.path} is below {path}, a read-only volume of {owner}"
                raise UserError(mount.why, what, "mount it at another path")
        if mount.path in taken:
            raise UserError(mount.why, f"{mount.path} is taken by {taken[mount.path]}", "mount it at another path")
        if mount.kind and mount.name in names:
            raise UserError(mount.why, f"two volumes are named {mount.name!r}", "name it differently")
        taken[mount.path] = names[mount.name] = mount.why
    return (*found, script) if script else tuple(found)


def _mount(reader: Reader, name: str, place: Place, why: str, extra: dict[str, str] | None = None) -> Mount:
    return Mount(
        name,
        checks.path(f"profile {reader.profile.name}", reader.fill(place.path, extra)),
        place.kind,
        reader.filled(place, extra),
        reader.fill(place.sub_path, extra),
        place.read_only,
        why,
    )


def _teams(reader: Reader) -> list[Mount]:
    if not reader.switch("teams_mount", False):
        return []
    if reader.profile.teams is None:
        raise reader.refuse(
            "teams_mount", f"the profile {reader.profile.name} has no storage of teams", "leave it out, or ask the site"
        )
    return [_mount(reader, TEAMS_VOLUME, reader.profile.teams, reader.why["teams_mount"])]


def _conda_cache(reader: Reader) -> list[Mount]:
    if not reader.switch("conda_cache", False):
        return []
    if reader.profile.conda_cache is None:
        raise reader.refuse("conda_cache", f"the profile {reader.profile.name} has no conda cache", "leave it out")
    return [_mount(reader, CONDA_VOLUME, reader.profile.conda_cache, reader.why["conda_cache"])]


def _sub_paths(reader: Reader, home_mount: Mount) -> list[Mount]:
    found = []
    for given in reader.arguments.every("sub_paths"):
        path, colon, below = given.value.partition(":")
        if not colon:
            raise UserError(given.where, f"{given.value!r} has no :", "allowed: /PATH:SUBPATH, such as /data:datasets")
        below = checks.sub_path(given.where, below)
        full = f"{home_mount.sub_path}/{below}" if home_mount.sub_path else below
        found.append(Mount(HOME_VOLUME, checks.path(given.where, path), "", {}, full, why=given.where))
    return found


def _nfs(reader: Reader) -> list[Mount]:
    found: list[Mount] = []
    for given in reader.arguments.every("nfs"):
        for spec in filter(None, given.value.split(",")):
            path, _, rest = spec.partition(":")
            server, colon, export = rest.partition(":")
            if not colon or not export.startswith("/"):
                raise UserError(given.where, f"{spec!r} cannot be read", NFS_ALLOWED)
            source = {
                "server": checks.host_name(given.where, server, NFS_ALLOWED),
                "path": checks.text(given.where, export),
            }
            name = f"nfs-{len(found) + 1}"
            found.append(Mount(name, checks.path(given.where, path), "nfs", source, why=given.where))
    return found
