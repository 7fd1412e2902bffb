"""Write compiled.py: the templates as Python code and the shipped profiles as Python values.

Run it after a change of templates/ or profiles/: ``python -m forewarn_manifests.precompile``. It needs Jinja2 and
PyYAML; ``forewarn render`` then needs neither for a shipped profile. A test says when compiled.py is out of date.
"""

from __future__ import annotations

import pprint
import re
import sys
from pathlib import Path

import jinja2

from forewarn_manifests.profile import read
from forewarn_manifests.quoting import tojson

HERE = Path(__file__).parent
HEAD = '''\
"""The templates and shipped profiles, precompiled; written by forewarn_manifests.precompile, not by hand."""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

from forewarn_manifests.runtime import TemplateRuntimeError, Undefined, environment, internalcode, missing

'''
_FORBIDDEN = re.compile(r"LoopContext|Macro|Markup|Namespace|escape\(|markup_join|str_join|context\.call|get_template")


def environment() -> jinja2.Environment:
    """Return the environment that the templates are written for."""
    result = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  (the output is YAML, every value a JSON one)
    )
    result.filters["tojson"] = tojson
    return result


def compiled() -> str:
    """Return the text of compiled.py.

    Raises ``ValueError`` for a template that uses more of Jinja2 than runtime.py has.
    """
    parts = [HEAD]
    jinja = environment()
    for path in sorted((HERE / "templates").glob("*.j2")):
        name = path.name.partition(".")[0]
        code = jinja.compile(path.read_text(encoding="utf-8"), name=name, filename=path.name, raw=True)
        body = code[code.index("def root(") : code.index("\nblocks = {}")]
        found = _FORBIDDEN.search(body)
        if found:
            raise ValueError(f"{path.name} uses {found.group()}, which runtime.py does not have")
        parts.append(body.replace("def root(", f"def {name}(", 1).rstrip() + "\n\n\n")
    profiles = {path.stem: read(str(path)) for path in sorted((HERE / "profiles").glob("*.yaml"))}
    parts.append("PROFILES = " + pprint.pformat(profiles, width=120, sort_dicts=False) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    (HERE / "compiled.py").write_text(compiled(), encoding="utf-8")
    print(f"precompile: wrote {HERE / 'compiled.py'}", file=sys.stderr)
