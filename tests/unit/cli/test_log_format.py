"""Lines of the log: each parses as logfmt or JSON, whatever is in it."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure import facts
from tenure.cli.log_format import formatter
from tenure.facts import ClockJumped, Fact, RunRetried, Ticked, log
from tenure.printable import field

NOMINAL = datetime(2026, 1, 31, 7, tzinfo=UTC)
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: a=b\t\x1b[1m'
FAILED = RunRetried(
    run=7,
    task="a task",
    schedule='say "hi" level=error',
    nominal=NOMINAL,
    attempt=1,
    node="host:1:x",
    error=TRACEBACK,
    delay=0.123456789,
)
PAIR = re.compile(r'([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?: |$)')


def parsed(line: str) -> dict[str, Any]:
    """As a program that knows nothing of Tenure reads logfmt."""
    found: dict[str, Any] = {}
    place = 0
    while place < len(line):
        match = PAIR.match(line, place)
        assert match is not None, line[place:]
        key, value = match.groups()
        assert key not in found, key
        found[key] = json.loads(value) if value and value.startswith('"') else value
        place = match.end()
    return found


def record(fact: Fact) -> logging.LogRecord:
    heard: list[logging.LogRecord] = []

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    handler, logger = Hearing(), logging.getLogger("tenure")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        log(fact)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    [one] = heard
    return one


def test_fact_is_one_line_of_logfmt() -> None:
    line = str(FAILED)
    assert line.isprintable()
    told = parsed(line)
    assert next(iter(told)) == "run.retried"
    assert (told["run"], told["schedule"], told["error"]) == ("7", FAILED.schedule, TRACEBACK)
    assert told["nominal"] == "2026-01-31T07:00:00+00:00"
    assert told["delay"] == "0.123"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1 + 0.2, "0.3"),
        (12.0, "12"),
        (0.0, "0"),
        (0.00001234, "1.2e-05"),
        (-3.14159, "-3.142"),
        (float("inf"), "inf"),
        (True, "true"),
        (7, "7"),
        ("", '""'),
        ("plain", "plain"),
        ("größe", "größe"),
        ("two words", '"two words"'),
        ("a\nb", r'"a\nb"'),
        ("\x1b[1m", r'"\u001b[1m"'),
        ("\u202e\U000e0001", r'"\u202e\udb40\udc01"'),
        ("C:\\x", r'"C:\\x"'),
        (["mail", "reports"], "\"['mail', 'reports']\""),
        (("a",), "\"('a',)\""),
    ],
)
def test_value_is_quoted_where_it_must_be(value: object, shown: str) -> None:
    assert field(value) == shown
    assert len(parsed(f"a={shown} b=c")) == 2


@pytest.mark.parametrize(
    "fact", [FAILED, Ticked(1, 2, 0, 0, 0, 0.00123456), ClockJumped(-1.5, True)]
)
def test_line_has_what_every_line_has(fact: Fact) -> None:
    one = record(fact)
    logfmt = parsed(formatter("logfmt").format(one))
    told = json.loads(formatter("json").format(one))
    given = {name for name, value in fact.values().items() if value is not None}
    assert set(logfmt) == set(told) == {"time", "level", "logger", "event", *given}
    assert told["event"] == fact.name
    assert told["logger"] == f"tenure.{fact.name.partition('.')[0]}"
    assert datetime.fromisoformat(told["time"]).tzinfo is not None


def test_json_has_values_as_they_are() -> None:
    told = json.loads(formatter("json").format(record(FAILED)))
    assert (told["run"], told["error"], told["delay"]) == (7, TRACEBACK, 0.123457)


def test_line_of_others_is_a_message_with_its_traceback() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        info = type(error), error, error.__traceback__
    one = logging.LogRecord("app", logging.ERROR, "a.py", 1, "it %s", ("failed\nhere",), info)
    told = json.loads(formatter("json").format(one))
    assert (told["level"], told["logger"], told["message"]) == ("error", "app", "it failed\nhere")
    assert told["exception"].endswith("ValueError: a\nb")
    assert parsed(formatter("logfmt").format(one)) == told


def test_no_field_of_a_fact_has_the_name_of_what_every_line_has() -> None:
    known = [getattr(facts, name) for name in facts.__all__]
    kinds = [kind for kind in known if isinstance(kind, type) and issubclass(kind, Fact)]
    assert len(kinds) > 20
    for kind in kinds:
        taken = {"time", "level", "logger", "event", "message", "exception"}
        assert not taken & {each.name for each in fields(kind)}, kind


def test_text_for_people_is_one_line_where_there_is_no_terminal() -> None:
    text = formatter("text").format(record(FAILED))
    assert "\n" not in text
    assert "WARNING tenure.run: run.retried run=7" in text
