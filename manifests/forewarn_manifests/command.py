"""``forewarn render``: the edge around launch.py and render.py; files, the environment and the streams are here."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from forewarn.errors import UserError
from forewarn_manifests import checks, flags, profile
from forewarn_manifests.launch import launch
from forewarn_manifests.render import as_json, as_object, manifest
from forewarn_manifests.request import Mode, Person

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn_manifests.flags import Arguments
    from forewarn_manifests.request import LaunchRequest


def main(argv: list[str]) -> int:
    """Print the manifest of one launch, or of many; raises ``UserError`` before anything is printed."""
    arguments = flags.parse(argv)
    if arguments.last("help"):
        print(flags.usage())
        return 0
    environ = os.environ
    team = arguments.last("team")
    if team is not None and team.value == "list":
        print(_teams(arguments, environ))
        return 0
    if arguments.last("many"):
        from forewarn_manifests.many import requests

        wanted = requests(arguments, environ, caller())
    else:
        wanted = [request(arguments, environ, caller())]
    explain = arguments.last("explain") is not None
    dump = arguments.last("dump") is not None
    if explain and dump:
        raise UserError("--explain", "JSON has no comments", "leave out -d")
    text = "---\n".join(manifest(one, explain) for one in wanted)
    output = (as_json(text) if dump else text).encode()
    asked = _ask(arguments, text)
    plan = arguments.last("plan")
    if plan is not None:
        _write_plan(plan.value, wanted, dump or asked)
    # Nothing may fail behind this: a mistake is one line on stderr and no output at all.
    warn(wanted)
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    return 0


def render(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of one launch as plain values; its warnings go to stderr, as the command's own.

    ``words`` are the launch's flags and command. Raises ``UserError``, also for a flag that is the command's alone.
    """
    arguments = flags.parse(words)
    for given in arguments.given:
        if given.flag.long in flags.OF_THE_COMMAND:
            raise UserError(given.where, "is for forewarn render alone", "leave it out")
    wanted = request(arguments, environ, caller())
    warn([wanted])
    return as_object(manifest(wanted))


def _ask(arguments: Arguments, text: str) -> bool:
    """Ask the cluster where --server-dry-run is given; say whether it is."""
    asked = arguments.last("server_dry_run") is not None
    of_cluster = {name: arguments.last(name) for name in ("namespace", "kubeconfig")}
    for given in of_cluster.values():
        if given is not None and not asked:
            raise UserError(given.where, "names what to ask, but nothing is asked", "add --server-dry-run")
    namespace, kubeconfig = of_cluster["namespace"], of_cluster["kubeconfig"]
    if namespace is not None:
        checks.object_name(namespace.where, namespace.value, dots=False)
    if asked:
        from forewarn_manifests.server import ask

        ask(text, namespace.value if namespace else None, kubeconfig.value if kubeconfig else None)
    return asked


def caller() -> Person:
    """Return who calls, by the numeric user of this process."""
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = os.environ.get("USER", str(os.getuid()))
    return Person(name, os.getuid(), os.getgid())


def request(arguments: Arguments, environ: Mapping[str, str], person: Person) -> LaunchRequest:
    """Read the profile and the script that a launch names, and check the launch."""
    user = arguments.last("user")
    if user is not None:
        person = Person(checks.label_value(user.where, user.value), person.uid, person.gid)
        if not person.name:
            raise UserError(user.where, "the name is empty", "allowed: a user's name")
    found = chosen_profile(arguments, environ)
    script = arguments.last("script")
    return launch(arguments, environ, found, person, _read_script(script.where, script.value) if script else None)


def chosen_profile(arguments: Arguments, environ: Mapping[str, str]) -> profile.Profile:
    """Return the profile that --profile or FOREWARN_PROFILE names, by default ``launch``."""
    given = arguments.last("profile")
    name = given.value if given else environ.get("FOREWARN_PROFILE") or profile.DEFAULT
    return profile.load(name, given.where if given else "FOREWARN_PROFILE", profile.directories(environ))


def warn(wanted: list[LaunchRequest]) -> None:
    """Print each warning once on stderr, unless -Q was given."""
    lines = dict.fromkeys(line for one in wanted if one.quiet < 2 for line in one.warnings)
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def _read_script(where: str, path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (pathlib is slow to import)
            return file.read().decode()
    except UnicodeDecodeError:
        raise UserError(where, f"{path} is not UTF-8", "allowed: a script in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(where, f"{path} cannot be read: {reason}", "allowed: a file") from None


def _teams(arguments: Arguments, environ: Mapping[str, str]) -> str:
    found = chosen_profile(arguments, environ)
    if not found.known_teams:
        return f"profile {found.name} names no teams; -G ID takes a numeric group"
    width = max(map(len, found.known_teams))
    return "\n".join(f"{name:{width}}  {group}" for name, group in found.known_teams.items())


def _write_plan(path: str, wanted: list[LaunchRequest], dump: bool) -> None:
    """Tell a wrapper what to do: several launches, and a Job, are left alone as a batch launch is."""
    one = wanted[0]
    mode = Mode.BATCH if len(wanted) > 1 or one.job else one.mode
    lines = {
        "mode": "dump" if dump else mode.value,
        "name": one.name,
        "port": str(one.ports[0]) if one.ports else "",
        "quiet": str(one.quiet),
    }
    try:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  (pathlib is slow to import)
            file.write("".join(f"{key}={value}\n" for key, value in lines.items()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError("--plan", f"{path!r} cannot be written: {reason}", "allowed: a file") from None
