"""Runs the measurements of all or of some areas and prints one table: python -m tests.bench [AREA…]."""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import sys
import time
import traceback
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from forewarn.errors import UserError
from forewarn.wording import span
from tests.bench.table import Row, table

HERE = Path(__file__).parent
WORK = HERE.parents[1] / "build" / "bench"


def found(areas: list[str]) -> list[Path]:
    """Return the modules of these areas (all, where none is named); ``UserError`` for one that has none."""
    every = sorted(HERE.glob("*/bench_*.py"))
    names = sorted({path.parent.name for path in every})
    for area in areas:
        if area not in names:
            raise UserError("make bench", f"no area {area!r}", f"AREA is one of: {', '.join(names)}")
    return [path for path in every if not areas or path.parent.name in areas]


def measure(path: Path, head: str) -> tuple[str, list[Row]]:
    """Run one module and return its title and rows."""
    module = importlib.import_module(f"tests.bench.{path.parent.name}.{path.stem}")
    title = str(module.TITLE)
    work = WORK / path.parent.name / path.stem
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    print(f"{head} {title}", flush=True)
    started = time.monotonic()
    rows = list(module.run(work, lambda text: print(f"{head}   {text}", flush=True)))
    print(f"{head} {title}: done ({span(time.monotonic() - started)})", flush=True)
    return title, rows


def main(areas: list[str]) -> int:
    """Measure; exit code 1 where a bound is missed or a measurement fails."""
    try:
        modules = found(areas)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    results: dict[str, list[Row]] = {}
    broken: list[str] = []
    for count, path in enumerate(modules, 1):
        try:
            title, rows = measure(path, f"[{count}/{len(modules)}]")
        except Exception:
            traceback.print_exc()
            broken.append(f"{path.parent.name}/{path.name}")
            continue
        results[title] = rows
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    print(f"\n{when}; {machine}\n\n{table(results)}\n")
    WORK.mkdir(parents=True, exist_ok=True)
    content = {title: [asdict(row) for row in rows] for title, rows in results.items()}
    (WORK / "results.json").write_text(json.dumps({"when": when, "machine": machine, "results": content}, indent=1))
    missed = [f"{title}: {row.name}" for title, rows in results.items() for row in rows if not row.ok]
    for text in (*(f"bound missed: {text}" for text in missed), *(f"failed: {text}" for text in broken)):
        print(text)
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
