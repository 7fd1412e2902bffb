"""``forewarn check``: says of every pod template, or live pod, whether it sees warnings and survives a stop."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn import settings
from forewarn.admission import audit, documents, templates
from forewarn.admission.inject import InjectSettings
from forewarn.admission.inject_command import read_sources
from forewarn.arguments import Parser
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.admission.audit import Verdict


@dataclass(frozen=True)
class Row:
    """One pod template or pod, its file or namespace, what is said of it, and whether ``--pod-template`` named it."""

    owner: str
    source: str
    verdict: Verdict
    named: bool = False

    def document(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "object": self.owner,
            "source": self.source,
            "session": self.verdict.in_scope,
            "seesWarnings": self.verdict.sees_warnings,
            "survivesStop": self.verdict.survives_stop,
            "good": self.verdict.good,
            "findings": [{"rule": each.rule, "text": each.text} for each in self.verdict.findings],
        }

    def lines(self, *, several: bool) -> Iterator[str]:
        """Yield the row as text: a verdict, and a line for each reason; with its source where it is one of several."""
        verdict, owner = self.verdict, f"{self.source}: {self.owner}" if several else self.owner
        if not verdict.in_scope:
            yield f"{owner}: not a session (opted out, a DaemonSet's, or outside the selector)"
            return
        sees = "sees warnings" if verdict.sees_warnings else "does NOT see warnings"
        survives = "survives a stop" if verdict.survives_stop else "does NOT survive a stop"
        yield f"{owner}: {sees}, {survives}"
        for each in verdict.findings:
            yield f"  {each.text} ({each.rule})"


def main(argv: list[str]) -> int:
    """Print a verdict for each pod template; exit 1 where one is not good."""
    parser = Parser(
        "forewarn check",
        "Says of every pod template whether it will see warnings and survive a stop; exit 1 if one will not.",
        "Reads what forewarn inject reads; with -n or -A the pods that run in the cluster.",
    )
    parser.add_argument("-f", "--filename", action="append", metavar="FILE", help="YAML or JSON, - for standard input")
    parser.add_argument(
        "-n", "--namespace", action="append", metavar="NS", help="look at this namespace's pods (repeat)"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="look at every session namespace's pods")
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster of -n and -A")
    parser.add_argument("--pod-template", metavar="PATH", help="where a kind that is not known has its pod template")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    settings.add_flags(parser, settings.CHECK)
    arguments = parser.parse_args(argv)
    values = settings.resolve(settings.CHECK, vars(arguments), os.environ)
    inject = InjectSettings(values["annotation_prefix"], pod_selector=values["pod_selector"])
    live = bool(arguments.all_namespaces or arguments.namespace)
    if live and arguments.filename:
        raise UserError("forewarn check", "-f goes without -n and -A", "a file, or the cluster")
    if live:
        sources, rows = _live(arguments.kubeconfig, arguments.namespace, values["sessions_label"], inject)
        nothing = f"no pods in {', '.join(sources)}" if sources else "no session namespace"
    else:
        extra = templates.parse_path(arguments.pod_template) if arguments.pod_template else None
        sources, rows, nothing = arguments.filename or ["-"], [], "no pod template found"
        for source, text in read_sources(sources):
            found = check_text(source, text, inject, extra)
            if extra is not None and not any(row.named for row in found):
                print(templates.nothing_there(source), file=sys.stderr)
            rows += found
    if arguments.format == "json":
        print(json.dumps([row.document() for row in rows], indent=2))
    else:
        for row in rows:
            print("\n".join(row.lines(several=live or len(sources) > 1)))
        print(_summary(rows) if rows else nothing, file=sys.stderr)
    return 0 if all(row.verdict.good for row in rows) else 1


def _summary(rows: list[Row]) -> str:
    sessions = [row for row in rows if row.verdict.in_scope]
    bad = sum(not row.verdict.good for row in sessions)
    return f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}, {bad} to mend"


def check_text(source: str, text: str, inject: InjectSettings, extra: templates.Path | None = None) -> list[Row]:
    """Return what is said of each pod template in a stream. Raises ``UserError``."""
    return [
        Row(found.owner, source, audit.judge(found.pod, inject), found.named)
        for document in documents.read(source, text.removeprefix("\ufeff"))
        for found in templates.find(document.value, extra)
        if isinstance(found, templates.Template)
    ]


def missing_client(error: ModuleNotFoundError) -> UserError:
    """Say which package the cluster's side of a command lacks: a file alone needs none."""
    return UserError(
        "the cluster",
        f"the Python package {error.name!r} is not installed",
        "pip install the wheel with its extra 'operator'",
    )


def _live(
    kubeconfig: str | None, namespaces: list[str] | None, sessions_label: tuple[str, str], inject: InjectSettings
) -> tuple[list[str], list[Row]]:
    """Return the namespaces that were looked at, and a row for each of their pods. Raises ``UserError``."""
    try:
        from lightkube.core.exceptions import ApiError
        from lightkube.resources.core_v1 import Namespace, Pod

        from forewarn import kube
    except ModuleNotFoundError as error:
        raise missing_client(error) from None
    client = kube.client(kube.connect(kubeconfig))
    selector: Any = dict(inject.pod_selector)
    for namespace in namespaces or ():
        # A namespace that is not there has no pods either; whether it is there not everybody may ask.
        with kube.explained(f"look at namespace {namespace}"):
            try:
                client.get(Namespace, namespace)
            except ApiError as error:
                if error.status.code != 403:
                    raise
    with kube.explained("list pods"):
        if not namespaces:
            label: Any = dict([sessions_label])
            namespaces = [str(each.metadata.name) for each in client.list(Namespace, labels=label) if each.metadata]
        return namespaces, [
            Row(f"Pod/{pod.metadata.name}", namespace, audit.judge(_plain(pod), inject))
            for namespace in namespaces
            for pod in client.list(Pod, namespace=namespace, labels=selector)
            if pod.metadata is not None and (pod.status is None or pod.status.phase not in ("Succeeded", "Failed"))
        ]


def _plain(pod: Any) -> Mapping[str, Any]:
    return dict(pod.to_dict())
