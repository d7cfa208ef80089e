"""`tenure doctor` finds what is wrong, and says what to do."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.sqlite.diagnose import WAL_LARGE
from tests.e2e.command import APP, PATIENCE, Answer, at_hand, node, tenure, until

WRITER = """
import sqlite3, sys
connection = sqlite3.connect("jobs.db", isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def examine(folder: Path) -> tuple[Answer, dict[str, dict[str, Any]]]:
    answer = tenure(folder, "doctor", "--json", "--url", "sqlite:///jobs.db")
    findings = {finding["check"]: finding for finding in answer.json["findings"]}
    assert answer.json["ok"] is (answer.code == 0)
    return answer, findings


@contextmanager
def _program(code: str, folder: Path, ready: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{ready}\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@contextmanager
def frozen_writer(folder: Path) -> Iterator[int]:
    """A process that was stopped while it had the write lock."""
    with _program(WRITER, folder, "locked") as process:
        process.send_signal(signal.SIGSTOP)
        yield process.pid


def test_a_healthy_cluster_is_found_healthy(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with node(tmp_path) as running:
        answer, findings = examine(tmp_path)
        assert answer.code == 0, answer
        for check in ("SQLite", "file", "schema", "journal", "lock file", "write lock", "clock"):
            assert findings[check]["severity"] == "ok", findings[check]
        assert f"pid {running.pid}" in findings["leader"]["text"]
        assert "ttl 5 s" in findings["leader"]["text"]
        assert "1 live node" in findings["nodes"]["text"]
        text = at_hand(tmp_path, "doctor", "--url", "sqlite:///jobs.db")
        assert "no problems" in text.out


@pytest.mark.as_user
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux's /proc/locks")
def test_a_frozen_writer_is_named(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", "--url", "sqlite:///jobs.db").code == 0
    with frozen_writer(tmp_path) as pid:
        answer, findings = examine(tmp_path)
        assert answer.code == 1
        found = findings["write lock"]
        assert found["severity"] == "problem"
        assert f"process {pid} ({sys.executable} -c" in found["text"]
        assert "stopped (frozen)" in found["text"]
        assert f"kill -CONT {pid}" in found["remedy"]
        stuck = at_hand(tmp_path, "schedules", "pause", "x", "--url", "sqlite:///jobs.db")
        assert stuck.code == 1, "reading goes on while nobody can write"
    _, findings = examine(tmp_path)
    assert findings["write lock"]["severity"] == "ok"


LONG_READER = """
import sqlite3, sys
connection = sqlite3.connect("jobs.db", isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM tenure_schedule").fetchone()
print("reading", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux's /proc/locks")
def test_a_reader_behind_which_the_log_grows_is_named(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", "--url", "sqlite:///jobs.db").code == 0
    with (
        _program(LONG_READER, tmp_path, "reading") as reader,
        closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as writer,
    ):
        writer.execute("PRAGMA synchronous = OFF")
        writer.execute("CREATE TABLE of_the_application (data)")
        while (tmp_path / "jobs.db-wal").stat().st_size < WAL_LARGE:
            writer.execute("INSERT INTO of_the_application VALUES (zeroblob(8000000))")
        answer, findings = examine(tmp_path)
        assert answer.code == 0, "a warning"
        found = findings["log size"]
        assert found["severity"] == "warning"
        assert f"Reading now: process {reader.pid} ({sys.executable} -c" in found["text"]
        assert "end its read transaction" in found["remedy"]
    _, findings = examine(tmp_path)
    assert "Reading now" not in findings["log size"]["text"]
    _, findings = examine(tmp_path)
    assert "log size" not in findings, "the last one to close the database has emptied the log"


def test_what_a_killed_node_left_behind_is_found(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with node(tmp_path) as running:
        url = ("--url", "sqlite:///jobs.db")
        assert at_hand(tmp_path, "schedules", "run-now", "held", *url).code == 0
        until(
            lambda: at_hand(tmp_path, "runs", "list", "--state", "claimed", "--json", *url).json,
            "the run to be claimed",
        )
        running.stop(signal.SIGKILL)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute(
            "UPDATE tenure_schedule SET active = 0, reason = 'set aside: its trigger is odd'"
            " WHERE name = 'broken'"
        )
        connection.execute("UPDATE tenure_run SET created_at = created_at + 3600000000")
    (tmp_path / "jobs.db-tenure").unlink()
    answer, findings = examine(tmp_path)
    assert answer.code == 1
    assert findings["lock file"]["severity"] == "warning"
    assert findings["leader"]["severity"] == "problem"
    assert "not live but with claimed runs" in findings["nodes"]["text"]
    assert "its trigger is odd" in findings["schedules"]["text"]
    assert "schedules resume broken" in findings["schedules"]["remedy"]
    assert "in the future" in findings["clock"]["text"]
