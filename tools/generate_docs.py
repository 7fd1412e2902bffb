"""Writes the generated parts of README.md and docs/*.md from the code; with --check only says which are out of date.

A generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; NAME is looked up in GENERATORS.
"""

import importlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GENERATORS = {
    "settings": "forewarn.settings:markdown",
    "mirror-events": "forewarn.mirror.catalogue:markdown",
    "mirror-metrics": "forewarn.mirror.metrics:markdown",
    "admission-rules": "forewarn.admission.rules:markdown",
    "admission-undecided": "forewarn.admission.policy:markdown",
    "render-flags": "forewarn_manifests.flags:markdown",
    "render-profile-keys": "forewarn_manifests.schema:markdown",
    "simulate-verbs": "forewarn.simulator.verbs:markdown",
}
"""Name of a part → ``module:function`` that returns its Markdown."""

PART = re.compile(r"(<!-- begin (?P<name>[\w-]+) -->\n).*?(<!-- end (?P=name) -->)", re.DOTALL)


def generate(name: str) -> str:
    module, _, function = GENERATORS[name].partition(":")
    return str(getattr(importlib.import_module(module), function)()).strip() + "\n"


def filled(text: str) -> str:
    return PART.sub(lambda match: match.group(1) + generate(match.group("name")) + match.group(3), text)


def main() -> int:
    check = "--check" in sys.argv[1:]
    used: set[str] = set()
    stale: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text()
        used.update(match.group("name") for match in PART.finditer(text))
        if (new := filled(text)) != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new)
    if unused := sorted(set(GENERATORS) - used):
        print(f"error: tools/generate_docs.py: no page has the part {', '.join(unused)}", file=sys.stderr)
        return 1
    if check and stale:
        print(f"error: {', '.join(stale)}: out of date; run: make docs", file=sys.stderr)
        return 1
    print(f"docs: {'written: ' + ', '.join(stale) if stale else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
