"""Every setting in one table; its flag, environment variable and chart value are all made from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import contract
from forewarn.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

ADMISSION = "run admission"
MIRROR = "run mirror"
INJECT = "inject"
CHECK = "check"
POLICY = "policy"
SIMULATE = "simulate"
RENDER = "render"


@dataclass(frozen=True)
class Setting:
    """One setting: its name, what it means, how a text becomes its value, and the commands that read it.

    ``parse`` raises ``ValueError`` with what is allowed as its text.
    """

    name: str
    default: str
    help: str
    parse: Callable[[str], Any]
    commands: tuple[str, ...]

    @property
    def flag(self) -> str:
        """The command-line spelling, e.g. ``--stale-after``."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """The environment's spelling, e.g. ``FOREWARN_STALE_AFTER``."""
        return "FOREWARN_" + self.name.upper().replace("-", "_")

    @property
    def chart_value(self) -> str:
        """The Helm chart's spelling, e.g. ``staleAfter``."""
        return re.sub(r"-(\w)", lambda match: match.group(1).upper(), self.name)

    @property
    def field(self) -> str:
        """The Python spelling, e.g. ``stale_after``."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Value:
    """A setting's value and where it came from: ``flag``, ``environment`` or ``default``."""

    setting: Setting
    value: Any
    text: str
    source: str


def seconds(value: str) -> float:
    """Read a number of seconds, 0 or more."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value, re.ASCII):
        raise ValueError("a number of seconds, 0 or more")
    return float(value)


def positive(value: str) -> float:
    """Read a number above 0."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", value, re.ASCII) or float(value) == 0:
        raise ValueError("a number above 0")
    return float(value)


def port(value: str) -> int:
    """Read a TCP port; 0 lets the system choose."""
    if not re.fullmatch(r"\d{1,5}", value, re.ASCII) or int(value) > 65535:
        raise ValueError("a port, 0 to 65535")
    return int(value)


def boolean(value: str) -> bool:
    """Read true or false."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def prefix(value: str) -> str:
    """Read an annotation prefix; the slash at its end may be left out."""
    name = value.removesuffix("/")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name) or len(name) > 253:
        raise ValueError("a DNS name in lower case, such as galends/ or horae/")
    return name + "/"


_LABEL_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"


def label(value: str) -> tuple[str, str]:
    """Read one label as ``key=value``."""
    if not re.fullmatch(f"{_LABEL_KEY}={_LABEL_VALUE}", value, re.ASCII):
        raise ValueError("a label as key=value, such as forewarn/sessions=enabled")
    key, _, wanted = value.partition("=")
    return key, wanted


def labels(value: str) -> dict[str, str]:
    """Read a selector of equal labels, ``key=value,key=value``; empty selects everything."""
    try:
        pairs = [label(part.strip()) for part in value.split(",")] if value.strip() else []
        if len(dict(pairs)) < len(pairs):
            raise ValueError
    except ValueError:
        raise ValueError("labels as key=value, separated by commas, each key once") from None
    return dict(pairs)


def lease(value: str) -> tuple[str, str] | None:
    """Read a Lease as ``NAMESPACE/NAME``; empty for none."""
    if not value:
        return None
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?", value):
        raise ValueError("NAMESPACE/NAME, or nothing")
    namespace, _, name = value.partition("/")
    return namespace, name


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a reader of one of a few words."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"one of: {', '.join(allowed)}")
        return value

    return parse


SETTINGS = (
    Setting(
        "annotation-prefix",
        contract.DEFAULT_PREFIX,
        "prefix of the reservation controller's annotations",
        prefix,
        (ADMISSION, MIRROR, INJECT, CHECK, POLICY, SIMULATE, RENDER),
    ),
    Setting(
        "sessions-label",
        f"{contract.SESSIONS_LABEL}={contract.SESSIONS_ENABLED}",
        "label that makes a namespace a session namespace",
        label,
        (MIRROR, CHECK, POLICY),
    ),
    Setting(
        "pod-selector",
        "",
        "labels that a pod must carry to be a session; empty takes every pod",
        labels,
        (ADMISSION, MIRROR, INJECT, CHECK, POLICY),
    ),
    Setting(
        "whole-map",
        "false",
        f"also project the whole annotation map, as the file {contract.WHOLE_MAP_FILE}",
        boolean,
        (ADMISSION, INJECT, POLICY, RENDER),
    ),
    Setting("stale-after", "60", "seconds past termination-warning-at until a warning is stale", seconds, (MIRROR,)),
    Setting("event-rate", "300", "Event writes per second, at most", positive, (MIRROR,)),
    Setting("restate-every", "1800", "seconds between two restatements of an open episode", positive, (MIRROR,)),
    Setting(
        "lease", "", "Lease (NAMESPACE/NAME) by which one of several mirrors writes; empty for none", lease, (MIRROR,)
    ),
    Setting(
        "log-format", "logfmt", "form of a log line: logfmt or json", choice("logfmt", "json"), (ADMISSION, MIRROR)
    ),
    Setting("port", "8443", "port of the webhook (TLS)", port, (ADMISSION,)),
    Setting("host", "", "address that the webhook and /healthz listen on; empty for every one", str, (ADMISSION,)),
    Setting(
        "namespace",
        "forewarn",
        "our own namespace: its pods are never changed, the TLS Secret is there",
        str,
        (ADMISSION,),
    ),
    Setting(
        "service",
        "forewarn-admission",
        "Service in front of the webhook; its certificate is for it",
        str,
        (ADMISSION,),
    ),
    Setting(
        "registration",
        "forewarn-admission",
        "MutatingWebhookConfiguration whose caBundle is kept right",
        str,
        (ADMISSION,),
    ),
    Setting("tls-secret", "forewarn-admission-tls", "Secret that holds the self-made certificate", str, (ADMISSION,)),
    Setting(
        "tls-cert",
        "",
        "file of a certificate of your own PKI; then nothing is made, kept or patched",
        str,
        (ADMISSION,),
    ),
    Setting("tls-key", "", "file of its key", str, (ADMISSION,)),
    Setting(
        "drain", "10", "seconds to go on serving after SIGTERM, until nobody calls any more", seconds, (ADMISSION,)
    ),
    Setting("health-port", "8080", "port of /healthz, /readyz and /metrics (plain HTTP)", port, (ADMISSION, MIRROR)),
)


def of_command(command: str) -> tuple[Setting, ...]:
    """Return the settings that a command reads."""
    return tuple(setting for setting in SETTINGS if command in setting.commands)


def add_flags(parser: argparse.ArgumentParser, command: str) -> None:
    """Give ``parser`` one flag for each setting of the command, unset by default."""
    for setting in of_command(command):
        parser.add_argument(
            setting.flag,
            dest=setting.field,
            metavar="VALUE",
            help=f"{setting.help} (default {setting.default or 'none'}; {setting.variable})".replace("%", "%%"),
        )


def resolve_one(setting: Setting, flag: str | None, environ: Mapping[str, str]) -> Value:
    """Return one setting's value: the flag's, else the environment's, else the default.

    Raises ``UserError`` that names the flag or variable where its text does not parse.
    """
    if flag is not None:
        raw, source, where = flag, "flag", setting.flag
    elif setting.variable in environ:
        raw, source, where = environ[setting.variable], "environment", setting.variable
    else:
        raw, source, where = setting.default, "default", setting.flag
    try:
        return Value(setting, setting.parse(raw), raw, source)
    except ValueError as error:
        raise UserError(where, f"{raw!r} cannot be read", f"allowed: {error}") from None


def resolve(command: str, flags: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return every setting of a command by its Python spelling; ``flags`` is ``vars()`` of the parsed arguments.

    Raises ``UserError`` for a text that does not parse.
    """
    return {
        setting.field: resolve_one(setting, flags.get(setting.field), environ).value for setting in of_command(command)
    }


def markdown() -> str:
    """Return the table of settings for the docs."""
    rows = [
        [
            f"`{setting.flag}`",
            f"`{setting.variable}`",
            f"`{setting.chart_value}`",
            f"`{setting.default}`" if setting.default else "",
            ", ".join(f"`{command}`" for command in setting.commands),
            setting.help,
        ]
        for setting in SETTINGS
    ]
    head = ["flag", "variable", "chart value", "default", "read by", "meaning"]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
