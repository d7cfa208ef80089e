"""What others have written into the store, or raise, cannot command a terminal or forge a line."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure import Leases, Scheduler, every
from tenure.facts import RunFailed
from tests.docs.test_cli import COMMANDS
from tests.e2e.command import EXECUTABLE, PATIENCE, at_hand, until
from tests.e2e.test_secrets_cli import has, words

FORGED = "2026-01-01 00:00:00,000 INFO    tenure.leader: leader.took_office forged=yes"
EVIL = f"\x1b[2J\x1b]0;title\x07\x9b31m\u202eABC\u2066\x08\x7f\r\n{FORGED}\n[red]x[/red] :smile:"
"""Clears the screen, names the window, C1, right-to-left, backspace, lines, markup of rich."""
NAMED = "odd"
ENDLESS = ("tenure demo", "tenure run", "tenure events tail")
READING = [path for path in COMMANDS if path not in (*ENDLESS, "tenure migrate")]

EVENTS = """
INSERT INTO tenure_event
    (namespace, id, topic, type, key, subject, time, data, headers, traceparent, recorded_at)
VALUES ('default', :e, :e, :e, :e, :e, 1, :e, json_object(:e, :e), :e, 1),
    ('default', 'odd', 'odd', :e, NULL, NULL, 1, :e, '{}', NULL, 1);
INSERT INTO tenure_event_group
VALUES ('default', 'odd', :e, 0, 1), ('default', 'odd', 'odd', 0, 1), ('default', :e, 'odd', 0, 1);
INSERT INTO tenure_relay (namespace, name, location, topics, position, trouble, ended, moved_at)
VALUES ('default', 'odd', :e, :e, 0, :e, :e, 1), ('default', :e, :e, '', 0, :e, NULL, 1);
INSERT INTO tenure_relay_lane VALUES ('default', 'odd', :e, :e, :e, 0, 1, 1, 1, :e, 1, 1);
INSERT INTO tenure_relay_parked VALUES ('default', 'odd', 2, :e, :e, 1, :e, 0, 1);
INSERT INTO tenure_audit
    (namespace, at, actor, place, via, action, subject, detail, outcome)
VALUES ('default', 1, :e, :e, :e, :e, :e, :e, :e),
    ('default', 1, :e, :e, :e, 'pause', 'odd', :e, :e)
"""
"""Of others, in the tables of those who read and deliver them; and who did what."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store in which somebody has written all that into whatever is text."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    scheduler = Scheduler(url)
    scheduler.task(every(hours=1), name=NAMED, lock="key")(lambda: None)
    scheduler.start()
    scheduler.run_now(NAMED)
    until(lambda: [r for r in scheduler.runs() if r.state == "succeeded"], "the run")
    scheduler.stop()
    with Leases(url) as leases:
        assert leases.acquire(NAMED, ttl=600) is not None
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute(
            "INSERT INTO tenure_attempt (run_id, claim, attempt, node, started_at, error, progress,"
            " message, log) SELECT id, attempt, 1, :e, claimed_at, :e, 0.5, :e, :e FROM tenure_run",
            {"e": EVIL},
        )
        for table, column, only in (
            ("schedule", "reason", ""),
            ("schedule", "tenant", ""),
            ("schedule", "task", ""),
            ("schedule", "kwargs", ""),
            ("run", "error", ""),
            ("run", "node", ""),
            ("run", "lock", ""),
            ("lease", "host", ""),
            ("lease", "holder", f"WHERE name = '{NAMED}'"),
            ("lease_history", "host", ""),
            ("lease_history", "reason", ""),
        ):
            connection.execute(f"UPDATE tenure_{table} SET {column} = ? {only}", [EVIL])
        for statement in EVENTS.split(";"):
            connection.execute(statement, {"e": EVIL})
        connection.execute("UPDATE tenure_schedule SET active = 0")
        connection.execute("UPDATE tenure_run SET state = 'claimed'")
        connection.execute(
            "UPDATE tenure_schedule SET name = ? WHERE name = ?", [f"{NAMED}{EVIL}", NAMED]
        )
    return tmp_path


def harmless(text: str, *, colours: bool = False) -> None:
    if colours:  # those that rich writes itself
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    bad = {c for c in text if not c.isprintable()} - {"\n", "\r" if colours else "\n"}
    assert not bad, (bad, text)
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith((FORGED, "2026-01-01 00:00"))], text


@pytest.mark.parametrize("path", READING)
def test_commands_show_it_as_what_it_is(path: str, folder: Path) -> None:
    store = ("--url", "sqlite:///jobs.db")
    for name in (NAMED, f"{NAMED}{EVIL}"):
        given = [name if word == "x" else word for word in words(path, COMMANDS[path])]
        given = ["1" if word == "7" else word for word in given]
        answer = at_hand(folder, *given, *store)
        harmless(answer.out)
        harmless(answer.err)
        if has(COMMANDS[path], "--json"):
            told = at_hand(folder, *given, *store, "--json")
            harmless(told.out)
            if told.code == 0:
                assert json.loads(told.out) is not None


def test_json_has_it_unchanged(folder: Path) -> None:
    store = ("--url", "sqlite:///jobs.db")
    found = at_hand(folder, "schedules", "list", "--json", *store).json
    assert [each["reason"] for each in found] == [EVIL]
    assert "[red]x[/red] :smile:" in at_hand(folder, "schedules", "list", *store).out


@pytest.mark.slow
def test_on_a_terminal(folder: Path) -> None:
    """With its colours and its width, and with the question before a lease is evicted."""
    for given in (["schedules", "list"], ["doctor"], ["runs", "list"]):
        harmless(on_a_terminal(folder, *given, "--url", "sqlite:///jobs.db"), colours=True)
    text = on_a_terminal(folder, "leases", "evict", NAMED, "--url", "sqlite:///jobs.db")
    harmless(text, colours=True)
    assert "Evict it?" in text
    assert "\\x1b[2J" in text, "the host was not shown"


def on_a_terminal(folder: Path, *given: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [EXECUTABLE, *given],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=PATIENCE)
    os.close(ours)
    return said.decode()


def test_reason_of_a_pause_and_what_conflicts(folder: Path) -> None:
    store = ("--url", "sqlite:///jobs.db")
    assert (
        at_hand(folder, "schedules", "add", "b", "--every", "1h", "--task", "x", *store).code == 0
    )
    for given in (
        ("pause", "b", "--reason", EVIL),
        ("pause", "b"),
        ("resume", "b", "--expected-version", "99"),
        ("add", f"b{EVIL}", "--every", "1h", "--task", "x"),
        ("add", "c", "--every", "1h", "--task", EVIL),
        ("add", "d", "--every", EVIL, "--task", "x"),
        ("update", "b", "--kwargs", EVIL),
        ("show", EVIL),
        (EVIL,),
    ):
        answer = at_hand(folder, "schedules", *given, *store)
        harmless(answer.out)
        harmless(answer.err)


# -- logs -----------------------------------------------------------------------------------------


class Written(logging.Handler):
    """A log as `tenure run` sets it up."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


@pytest.fixture
def written() -> Iterator[Written]:
    handler, logger = Written(), logging.getLogger("tenure")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_error_of_a_task_is_one_line_of_the_log(tmp_path: Path, written: Written) -> None:
    scheduler, told = Scheduler(f"sqlite:///{tmp_path}/jobs.db"), list[Any]()

    @scheduler.task(every(hours=1))
    def broken() -> None:
        raise ValueError(EVIL)

    scheduler.on("run.failed", told.append)
    scheduler.start()
    try:
        scheduler.run_now("broken")
        until(lambda: told, "the failure")
    finally:
        scheduler.stop()
    harmless(written.text)
    (failed,) = [line for line in written.text.splitlines() if "run.failed" in line]
    assert failed.rstrip().endswith('[red]x[/red] :smile:"'), "the whole traceback, in quotes"
    (forged,) = [line for line in written.text.splitlines() if "forged=yes" in line]
    assert forged == failed, "all of it is one line"
    assert "\x1b" in told[0].error, "whoever listens has it as it was"


def test_field_of_a_fact_cannot_pass_for_another() -> None:
    from datetime import UTC, datetime

    fact = RunFailed(
        run=1,
        task="a node=b",
        schedule='say "hi"',
        nominal=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=1,
        node="host:1:ab",
        error="",
    )
    assert str(fact) == (
        'run.failed run=1 task="a node=b" schedule="say \\"hi\\""'
        ' nominal=2026-01-01T00:00:00+00:00 attempt=1 node=host:1:ab error=""'
    )
