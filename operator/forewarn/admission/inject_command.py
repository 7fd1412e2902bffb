"""``forewarn inject``: manifests in, the same manifests with podinfo and the grace out; warnings on stderr."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from forewarn import settings
from forewarn.admission import documents, templates
from forewarn.admission.inject import InjectSettings, decide_readable
from forewarn.admission.pod import Malformed
from forewarn.arguments import Parser
from forewarn.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.admission.inject import Operation

EPILOG = f"""kinds: {", ".join(templates.KNOWN)},
List, kubeflow's jobs, and any other by --pod-template. What has no pod template passes through byte for byte."""


def main(argv: list[str]) -> int:
    """Rewrite the manifests of ``-f`` (or standard input) to standard output."""
    parser = Parser("forewarn inject", "Adds to manifests what the webhook would add to their pods.", EPILOG)
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE",
        help="file of YAML or JSON, - for standard input (repeat; default -)",
    )
    parser.add_argument(
        "--pod-template", metavar="PATH", help="where kinds not listed have one, such as spec.roles.*.template"
    )
    parser.add_argument("--diff", action="store_true", help="print what would change instead")
    settings.add_flags(parser, settings.INJECT)
    arguments = parser.parse_args(argv)
    values = settings.resolve(settings.INJECT, vars(arguments), os.environ)
    inject = InjectSettings(values["annotation_prefix"], values["whole_map"], values["pod_selector"])
    extra = templates.parse_path(arguments.pod_template) if arguments.pod_template else None
    # All is read and decided before the first byte is written: a mistake in the last file leaves nothing half done.
    results = []
    for source, text in read_sources(arguments.filename or ["-"]):
        changed, warnings = inject_text(source, text, inject, extra)
        for warning in warnings:
            print(warning, file=sys.stderr)
        results.append((source, text, changed))
    for position, (source, text, changed) in enumerate(results):
        if arguments.diff:
            _write("".join(_diff(source, text, changed)))
            continue
        # Two files in one stream are two documents.
        if position and not changed.startswith("---"):
            _write("---\n")
        _write(changed if position == len(results) - 1 or changed.endswith("\n") or not changed else changed + "\n")
    return 0


def _write(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())


def _diff(source: str, before: str, after: str) -> Iterable[str]:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), source, f"{source} (injected)")
    return (line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def read_sources(names: list[str]) -> list[tuple[str, str]]:
    """Return (name, text) of each file; ``-`` is standard input. Raises ``UserError``."""
    found = []
    for name in names:
        source, where = ("standard input", "standard input") if name == "-" else (name, f"-f {name}")
        if name == "-" and sys.stdin is None:  # Python's way to say that it was closed by the caller
            raise UserError(where, "is closed", "allowed: -f FILE, or manifests on standard input")
        try:
            raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            raise UserError(where, f"it cannot be read: {error.strerror}", "allowed: a file, or -") from None
        try:
            found.append((source, raw.decode()))
        except UnicodeDecodeError as error:
            raise UserError(where, f"byte {error.start} is not UTF-8", "allowed: UTF-8 text") from None
    return found


def inject_text(
    source: str, text: str, inject: InjectSettings, extra: templates.Path | None = None
) -> tuple[str, list[str]]:
    """Return a stream with every pod template in it injected, and the warnings, each begun with kind/name.

    Raises ``UserError`` with file and line for a stream that cannot be read.
    """
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    parts, warnings, named = [bom], [], extra is None
    for document in documents.read(source, text[len(bom) :]):
        edits, owners = [], []
        for found in templates.find(document.value, extra):
            if isinstance(found, templates.Note):
                warnings.append(f"{found.owner}: {found.text}")
                continue
            named = named or found.named
            try:
                decision = decide_readable(found.pod, inject, found.claims)
            except Malformed as error:
                warnings.append(f"{found.owner}: the pod cannot be read: {error}; passed through")
                continue
            warnings += [f"{found.owner}: {warning}" for warning in decision.warnings]
            if decision.patch:
                edits.append((found.path, decision.patch))
                owners.append(found.owner)
        new = document.text
        if edits:
            new, more = _rewritten(source, document, edits)
            warnings += [f"{owners[0]}: {warning}" for warning in more]
        parts += [document.head, new]
    if not named:
        warnings.append(templates.nothing_there(source))
    return "".join(parts), warnings


def _rewritten(
    source: str, document: documents.Document, edits: list[tuple[templates.Path, tuple[Operation, ...]]]
) -> tuple[str, list[str]]:
    warnings = [
        f"{source}:{document.line + line}: key {key} stands there twice; the last one counts"
        for key, line in documents.twice(document)
    ]
    try:
        new, anew = documents.rewrite(document, edits)
    except ValueError as error:
        raise UserError(f"{source}:{document.line}", f"this document cannot be rewritten: {error}", "") from None
    if anew:
        warnings.append(
            f"{source}:{document.line}: written anew: indentation, quoting, comments within [] or {{}} and anchors that"
            " nothing uses may differ"
        )
    return new, warnings
