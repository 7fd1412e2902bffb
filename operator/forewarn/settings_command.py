"""``forewarn settings``: every setting, its value and where it came from."""

from __future__ import annotations

import json
import os

from forewarn.arguments import Parser
from forewarn.settings import SETTINGS, resolve_one


def main(argv: list[str]) -> int:
    """Print the table of settings."""
    parser = Parser("forewarn settings", "Prints every setting: value, source, and its three spellings.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    rows = [
        {
            "flag": value.setting.flag,
            "variable": value.setting.variable,
            "chart": value.setting.chart_value,
            "value": value.text,
            "source": value.source,
            "help": value.setting.help,
        }
        for value in (resolve_one(setting, None, os.environ) for setting in SETTINGS)
    ]
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    columns = ("flag", "variable", "chart", "value", "source", "help")
    widths = {column: max(len(column), *(len(row[column]) for row in rows)) for column in columns[:-1]}
    for row in ({column: column for column in columns}, *rows):
        print("  ".join([*(row[column].ljust(width) for column, width in widths.items()), row["help"]]))
    return 0
