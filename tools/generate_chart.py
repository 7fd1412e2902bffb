"""Writes the chart's parts that the code decides (charts/forewarn/files); --check only says which are out of date."""

import json
import sys
from pathlib import Path

from forewarn.admission.inject import InjectSettings
from forewarn.admission.registration import TIMEOUT_SECONDS, conditions

FILES = Path(__file__).resolve().parent.parent / "charts" / "forewarn" / "files"
PREFIX = "@PREFIX@"
"""Stands for the annotation prefix, which the chart's user chooses."""


def contents() -> dict[str, str]:
    def written(*, whole_map: bool) -> str:
        return json.dumps(conditions(InjectSettings(PREFIX, whole_map, {})), indent=1) + "\n"

    return {
        "conditions.json": written(whole_map=False),
        "conditions-whole-map.json": written(whole_map=True),
        "timeout-seconds": f"{TIMEOUT_SECONDS}\n",
    }


def main() -> int:
    made = contents()
    stale = [name for name, text in made.items() if not (FILES / name).is_file() or (FILES / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            print(f"error: charts/forewarn/files: {', '.join(stale)}: out of date; run: make docs", file=sys.stderr)
        return bool(stale)
    FILES.mkdir(exist_ok=True)
    for name in stale:
        (FILES / name).write_text(made[name])
    print(f"chart: {'written: ' + ', '.join(stale) if stale else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
