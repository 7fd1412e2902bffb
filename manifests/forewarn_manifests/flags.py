"""Every flag of a launch in one table, and the getopts-like parser that reads it.

The conventions are launch.sh's: short flags may be bundled (``-bS``) and carry their value (``-g1``), a later flag
beats an earlier one, the first word that is no flag begins the command, and ``--`` ends the launcher's own options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Flag:
    """One flag: the field that it sets, its two spellings and the variable behind it.

    ``metavar`` is empty for a switch, and begins with ``[=`` where a value may follow only behind ``=``. A switch sets
    its field to ``constant``. ``variable`` is read where the flag is not given.
    """

    field: str
    short: str
    long: str
    metavar: str
    help: str
    variable: str = ""
    repeat: bool = False
    constant: str = "yes"

    @property
    def spellings(self) -> str:
        """Both spellings for a person, e.g. ``-g, --gpus N``."""
        names = ", ".join([f"-{self.short}"] * bool(self.short) + [f"--{self.long}"])
        return names + (self.metavar if self.metavar.startswith("[") else f" {self.metavar}" if self.metavar else "")


FLAGS = (
    Flag("cpus", "c", "cpus", "N", "CPUs", "K8S_NUM_CPU"),
    Flag("memory", "m", "memory", "GB", "RAM in GB", "K8S_GB_MEM"),
    Flag("gpus", "g", "gpus", "N", "GPUs", "K8S_NUM_GPU"),
    Flag("labels", "l", "label", "KEY=VALUE", "label (repeat); gpu-class=CLASS is needed for a GPU", repeat=True),
    Flag("gpu_model", "v", "gpu-model", "MODEL", "GPU model"),
    Flag("image", "i", "image", "IMAGE", "container image", "K8S_DOCKER_IMAGE"),
    Flag("pull_policy", "P", "pull-policy", "POLICY", "Always, IfNotPresent or Never", "K8S_IMAGE_PULL_POLICY"),
    Flag("pull_secrets", "E", "pull-secret", "NAME", "image pull secret (repeat, or separated by commas)", repeat=True),
    Flag("workspace", "W", "workspace", "NAME", "workspace: becomes the home, and is charged"),
    Flag("team", "G", "team", "ID|list", "team whose group the session has; list prints the known ones"),
    Flag("teams_mount", "T", "teams", "", "mount the teams' storage"),
    Flag("sub_paths", "M", "mount", "/PATH:SUBPATH", "mount a sub-path of the home at PATH (repeat)", repeat=True),
    Flag(
        "nfs", "F", "nfs", "/PATH:SERVER:/EXPORT", "mount an NFS export (repeat, or separated by commas)", repeat=True
    ),
    Flag("conda_cache", "x", "conda-cache", "", "mount the conda package cache"),
    Flag("node", "n", "node", "N|HOST", "node: a bare number, or a full host name"),
    Flag("name", "N", "name", "NAME", "name of the pod or Job"),
    Flag("tolerations", "t", "toleration", "KEY[=VALUE][:EFFECT]", "toleration (repeat)", repeat=True),
    Flag("annotations", "A", "annotation", "KEY=VALUE", "annotation (repeat)", repeat=True),
    Flag("background", "b", "background", "", "run in the background: no shell, no Jupyter"),
    Flag("batch", "B", "batch", "", "run the command behind -- and end with it"),
    Flag("script", "f", "script", "FILE", "run a script, stream its output, return its exit code"),
    Flag("shell_only", "s", "shell-only", "", "a shell and no Jupyter"),
    Flag("shell", "S", "no-shell", "", "no shell", "SPAWN_INTERACTIVE_SHELL", constant="no"),
    Flag("jupyter", "j", "jupyter", "", "start Jupyter"),
    Flag("jupyter", "J", "no-jupyter", "", "do not start Jupyter", constant="no"),
    Flag("sshd", "H", "sshd", "", "start sshd: no shell, no Jupyter, quiet"),
    Flag("mail", "u", "mail", "ADDRESS", "where the site's mailer writes to about this session"),
    Flag("quiet", "q", "quiet", "", "no messages of progress", constant="1"),
    Flag("quiet", "Q", "silent", "", "no warnings either, errors only", constant="2"),
    Flag("dump", "d", "dump", "", "print JSON, run nothing"),
    Flag("help", "h", "help", "", "print this help"),
    Flag("timeout", "", "timeout", "SECONDS", "runtime limit", "K8S_TIMEOUT_SECONDS"),
    Flag("entrypoint", "", "entrypoint", "PROGRAM", "program in place of the image's own", "K8S_ENTRYPOINT"),
    Flag("proxy", "", "no-proxy", "", "forward no port", "PROXY_ENABLED", constant="no"),
    Flag("port", "", "port", "PORT", "port to forward", "PROXY_PORT"),
    Flag(
        "export_prefix",
        "",
        "export-prefix",
        "PREFIX",
        "variables that begin with PREFIX go into the pod, the prefix cut off",
        "K8S_EXPORT_ENV_PREFIX",
    ),
    Flag("profile", "", "profile", "NAME", "profile of the site", "FOREWARN_PROFILE"),
    Flag("user", "", "user", "NAME", "whose session it is (else who calls)"),
    Flag("number", "", "number", "N", "name it USER-N where no -N is given (the wrappers do)"),
    Flag("kind", "", "kind", "Pod|Job", "kind of the object"),
    Flag("completions", "", "completions", "N", "an Indexed Job of N pods, with a headless Service"),
    Flag("parallelism", "", "parallelism", "N", "how many of them run at once"),
    Flag("requeue", "", "requeue", "[=always]", "a Job whose pod is made again after a stop"),
    Flag("backoff_limit", "", "backoff-limit", "N", "counted failures that a Job may have"),
    Flag("log", "", "log", "FILE", "append the output to FILE under the home, too"),
    Flag("explain", "", "explain", "", "say in comments where each value came from"),
    Flag("many", "", "many", "FILE", "one document for each row of a .csv or .yaml file"),
    Flag("server_dry_run", "", "server-dry-run", "", "ask the cluster whether it would take it, create nothing"),
    Flag("namespace", "", "namespace", "NAME", "namespace to ask, with --server-dry-run"),
    Flag("kubeconfig", "", "kubeconfig", "FILE", "kubeconfig of the cluster to ask, with --server-dry-run"),
    Flag("plan", "", "plan", "FILE", "write what a wrapper is to do to FILE, one key=value a line"),
    Flag(
        "annotation_prefix",
        "",
        "annotation-prefix",
        "PREFIX",
        "prefix of the controller's annotations",
        "FOREWARN_ANNOTATION_PREFIX",
    ),
    Flag("whole_map", "", "whole-map", "BOOL", "true: also project the whole annotation map", "FOREWARN_WHOLE_MAP"),
)

OF_THE_COMMAND = frozenset({"many", "dump", "explain", "help", "plan", "server-dry-run", "namespace", "kubeconfig"})
"""Flags that say what becomes of the manifest, not what is in it."""

OF_A_JOB = frozenset({"kind", "completions", "parallelism", "requeue", "backoff-limit"})
"""Flags that make a Job of the pod, or are for a Job alone."""

BY_SHORT = {flag.short: flag for flag in FLAGS if flag.short}
BY_LONG = {flag.long: flag for flag in FLAGS}


@dataclass(frozen=True)
class Given:
    """One flag as it was given: the flag, its value, and the spelling to name in an error."""

    flag: Flag
    value: str
    where: str


@dataclass(frozen=True)
class Arguments:
    """What a launch was called with: the flags in order, the command, and whether a ``--`` stood before it."""

    given: tuple[Given, ...] = ()
    command: tuple[str, ...] = ()

    def last(self, field: str) -> Given | None:
        """Return the flag that decides a field: the last that sets it."""
        return next((given for given in reversed(self.given) if given.flag.field == field), None)

    def every(self, field: str) -> tuple[Given, ...]:
        """Return every flag that sets a field, in order."""
        return tuple(given for given in self.given if given.flag.field == field)

    def followed_by(self, given: Iterable[Given], command: Sequence[str] | None) -> Arguments:
        """Return these arguments with more behind them; ``command`` replaces where it is given."""
        return replace(
            self, given=(*self.given, *given), command=tuple(command) if command is not None else self.command
        )


def parse(argv: Sequence[str]) -> Arguments:
    """Read a launch's arguments.

    Raises ``UserError`` for an unknown flag, a missing value and a value behind a switch.
    """
    given: list[Given] = []
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if word == "--":
            return Arguments(tuple(given), tuple(argv[index:]))
        if word == "-" or not word.startswith("-"):
            return Arguments(tuple(given), tuple(argv[index - 1 :]))
        rest = argv[index] if index < len(argv) else None
        found, used = _long(word, rest) if word.startswith("--") else _bundle(word, rest)
        given += found
        index += used
    return Arguments(tuple(given))


def _long(word: str, rest: str | None) -> tuple[list[Given], int]:
    name, equals, value = word[2:].partition("=")
    flag = BY_LONG.get(name)
    where = f"--{name}"
    if flag is None:
        raise UserError(where, "is no option of the launcher" + _like(name), _behind_dashes(word))
    if flag.metavar and not flag.metavar.startswith("["):
        if equals:
            return [Given(flag, value, where)], 0
        if rest is None:
            raise UserError(where, "its value is missing", f"write {where} {flag.metavar}")
        return [Given(flag, rest, where)], 1
    if not equals and rest is not None and flag.metavar == f"[={rest}]":
        raise UserError(
            where, f"{rest!r} behind it would be the command", f"write {where}={rest}, or {where} -- {rest}"
        )
    if equals and not flag.metavar:
        raise UserError(where, f"takes no value, but {value!r} was given", f"write {where}")
    return [Given(flag, value if equals else flag.constant, where)], 0


def _bundle(word: str, rest: str | None) -> tuple[list[Given], int]:
    found: list[Given] = []
    if len(word) > 2 and word[1:] in BY_LONG:
        raise UserError(word, "is a long option with one dash", f"write -{word}")
    for position, letter in enumerate(word[1:], 1):
        flag = BY_SHORT.get(letter)
        where = f"-{letter}"
        if flag is None:
            inside = f" (in {word})" if len(word) > 2 else ""
            raise UserError(
                where + inside,
                "is no flag of the launcher",
                f"flags: -{''.join(BY_SHORT)}; {_behind_dashes(word)}",
            )
        if not flag.metavar:
            found.append(Given(flag, flag.constant, where))
            continue
        attached = word[position + 1 :]
        if attached:
            return [*found, Given(flag, attached, where)], 0
        if rest is None:
            raise UserError(where, "its value is missing", f"write {where} {flag.metavar}")
        return [*found, Given(flag, rest, where)], 1
    return found, 0


def _like(name: str) -> str:
    from forewarn_manifests.checks import nearest

    like = nearest(name, BY_LONG)
    return f" (did you mean --{like}?)" if like else ""


def _behind_dashes(word: str) -> str:
    return f"options of your own program go behind --, as in: -- python train.py {word}"


def usage() -> str:
    """Return the text of ``forewarn render --help``."""
    width = max(len(flag.spellings) for flag in FLAGS) + 2
    lines = [f"  {flag.spellings:{width}}{flag.help}{f' ({flag.variable})' if flag.variable else ''}" for flag in FLAGS]
    return "\n".join(
        [
            "usage: forewarn render [FLAGS] [--] [COMMAND [ARGUMENT...]]",
            "",
            "Prints the pod or Job manifest that a launch asks for. Flags beat the environment (the variable in",
            "brackets), the environment beats the profile. What stands behind -- reaches the container unchanged.",
            "",
            *lines,
            "",
            "FOREWARN_PROFILES names directories of a site's own profiles.",
        ]
    )


def markdown() -> str:
    """Return the table of the flags for the documentation."""
    rows = ["| flag | variable | meaning |", "|---|---|---|"]
    for flag in FLAGS:
        spelling = flag.spellings.replace("|", "\\|")
        variable = f"`{flag.variable}`" if flag.variable else ""
        rows.append(f"| `{spelling}` | {variable} | {flag.help} |")
    return "\n".join(rows)
