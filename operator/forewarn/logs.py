"""Log lines on stderr, one record a line, as logfmt or JSON; a record's ``fields`` are its own keys."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import datetime
from typing import Any

from forewarn.contract import UTC, format_instant

_ENDS = re.compile('[ "=]')


class LineFormatter(logging.Formatter):
    """Writes a record as one line: time (UTC), level, logger, message, the fields of ``extra={"fields": {...}}``."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line; an exception is a field of it, so that a line stays a line."""
        values: dict[str, Any] = {
            "time": format_instant(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        if self._json:
            return json.dumps(values, ensure_ascii=False, default=str)
        return " ".join(f"{key}={_logfmt(str(value))}" for key, value in values.items())


def _logfmt(value: str) -> str:
    # A quote, a space, an equals sign or a control character would end the value or the line.
    plain = value.isprintable() and not _ENDS.search(value)
    return value if plain and value else json.dumps(value, ensure_ascii=False)


def configure(form: str, level: int = logging.INFO) -> None:
    """Send every log record to stderr in this form (``logfmt`` or ``json``), from ``level`` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(form))
    # No line tells these, and asking for them costs as much as the line itself.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The Kubernetes client logs each request at INFO.
    for chatty in ("httpx", "httpx2", "httpcore2", "lightkube"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
