"""How `tenure run` writes its log: for people, as logfmt or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tenure.printable import continued, field

FOR_PROGRAMS = ["logfmt", "json"]
FORMATS = ["text", *FOR_PROGRAMS]


def formatter(name: str) -> logging.Formatter:
    kinds: dict[str, type[logging.Formatter]] = {"text": Text, "logfmt": Logfmt, "json": Json}
    return kinds[name]()


class Text(logging.Formatter):
    """For people. On a terminal a traceback is shown once more, as it is."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._terminal = sys.stderr.isatty()

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fact: dict[str, Any] = getattr(record, "fact", {})
        return "\n".join([line, *continued(fact.values())]) if self._terminal else line


class Logfmt(logging.Formatter):
    """Every line is `key=value …`, whoever logs it."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={field(value)}" for name, value in _told(record))


class Json(logging.Formatter):
    """Every line is an object with the same keys."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({name: _plain(value) for name, value in _told(record)})


def _told(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """A fact's own values, or the message; and what every line has."""
    yield "time", datetime.fromtimestamp(record.created, UTC)
    yield "level", record.levelname.lower()
    yield "logger", record.name
    fact: dict[str, Any] | None = getattr(record, "fact", None)
    if fact is None:
        yield "message", record.getMessage()
    else:
        yield "event", getattr(record, "event", "")
        yield from ((name, value) for name, value in fact.items() if value is not None)
    if record.exc_info:
        yield "exception", logging.Formatter().formatException(record.exc_info)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | list | dict | None) else str(value)
