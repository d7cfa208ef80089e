"""Stores that are missing, wrong, foreign or too new; `migrate`. Looking changes nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure.cli.store import Store
from tenure.errors import StoreUnavailable
from tests.e2e.command import at_hand, tenure

JOBS = ("--url", "sqlite:///jobs.db")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://localhost/x", "unknown URL scheme 'mysql'"),
        ("jobs.db", "write sqlite:///jobs.db"),
        ("sqlite://jobs.db", "two slashes"),
        ("", "--url is empty"),
        ("memory://", "one process"),
    ],
)
def test_url_that_cannot_be_meant_is_wrong_usage(tmp_path: Path, url: str, expected: str) -> None:
    answer = at_hand(tmp_path, "status", "--url", url)
    assert answer.code == 2, answer
    assert expected in answer.err
    assert names(tmp_path) == set()


def test_store_that_stops_answering_while_it_is_watched_is_named(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", *JOBS).code == 0

    async def hangs(_: object) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    store = Store.parse(f"sqlite:///{tmp_path}/jobs.db", "default")
    with pytest.raises(StoreUnavailable, match=r"jobs\.db did not answer within"):
        store.ask(hangs, within=None)  # as status --watch and prune do


@pytest.mark.parametrize(
    "command",
    [["status"], ["schedules", "pause", "x"], ["migrate", "--check"], ["doctor"]],
    ids=" ".join,
)
def test_a_missing_database_is_said_and_not_created(tmp_path: Path, command: list[str]) -> None:
    answer = tenure(tmp_path, *command, *JOBS)
    assert answer.code == 1, answer
    assert str(tmp_path / "jobs.db") in answer.out + answer.err
    if command[0] != "migrate":
        assert "tenure migrate --url" in answer.out + answer.err
    assert names(tmp_path) == set()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("dear diary, " * 100)
    for command in ("status", "doctor", "migrate"):
        answer = at_hand(tmp_path, command, *JOBS)
        assert answer.code == 1, answer
        assert "is not a SQLite database" in answer.out + answer.err
        assert "Traceback" not in answer.err
    assert names(tmp_path) == {"jobs.db"}
    assert (tmp_path / "jobs.db").read_text().startswith("dear diary")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    for command in ("status", "doctor", "migrate"):
        answer = at_hand(tmp_path, command, "--url", "sqlite:///missing/jobs.db")
        assert answer.code == 1, answer
        assert f"the folder {tmp_path}/missing does not exist" in answer.out + answer.err
    assert names(tmp_path) == set()


def test_database_of_a_newer_major_version_is_left_alone(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", *JOBS).code == 0
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE tenure_meta SET value = '99' WHERE key = 'major'")
    for command in ("status", "doctor", "migrate"):
        answer = at_hand(tmp_path, command, *JOBS)
        assert answer.code == 1, answer
        assert "made by a newer Tenure" in answer.out + answer.err
        assert "Upgrade the tenure package" in answer.out + answer.err


def test_another_programs_database_is_only_looked_at(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    before = (tmp_path / "jobs.db").read_bytes()
    for command in (["status"], ["doctor"], ["migrate", "--check"], ["migrate", "--sql"]):
        answer = at_hand(tmp_path, *command, *JOBS)
        assert answer.code == (0 if "--sql" in command else 1), answer
    assert names(tmp_path) == {"jobs.db"}
    assert (tmp_path / "jobs.db").read_bytes() == before


@pytest.mark.as_user
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder closed even to root")
def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "migrate", "--url", "sqlite:////proc/jobs.db")
    assert answer.code == 1, answer
    assert "/proc/jobs.db cannot be " in answer.err
    assert "writable" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.as_user
def test_a_store_that_this_user_may_not_write(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything; scripts/test runs this again as an ordinary user")
    assert at_hand(tmp_path, "migrate", *JOBS).code == 0
    before = names(tmp_path)
    (tmp_path / "jobs.db").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        answer = tenure(tmp_path, "doctor", *JOBS)
        assert answer.code == 1, answer
        assert "not readable and writable for this user" in answer.out
        for command, url in (("migrate", "sqlite:///new.db"), ("status", "sqlite:///jobs.db")):
            answer = tenure(tmp_path, command, "--url", url)
            assert answer.code == 1, answer
            assert f"cannot be written: {tmp_path} is not readable and writable" in answer.err
            assert "Traceback" not in answer.err
        assert names(tmp_path) == before
    finally:
        tmp_path.chmod(0o755)


def test_migrate_creates_checks_and_says_what_it_did(tmp_path: Path) -> None:
    pending = at_hand(tmp_path, "migrate", "--check", "--json", *JOBS)
    assert pending.code == 1
    assert pending.json["pending"][0] == "0001_tables"
    done = tenure(tmp_path, "migrate", *JOBS)
    assert done.code == 0
    assert "applied 0001_tables" in done.out
    assert at_hand(tmp_path, "migrate", "--check", *JOBS).code == 0
    again = at_hand(tmp_path, "migrate", "--json", *JOBS)
    assert (again.code, again.json["applied"], again.json["pending"]) == (0, [], [])


def test_printed_sql_is_the_whole_migration(tmp_path: Path) -> None:
    script = at_hand(tmp_path, "migrate", "--sql", *JOBS)
    assert script.code == 0
    assert names(tmp_path) == set()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.executescript(script.out)
    assert at_hand(tmp_path, "migrate", "--check", *JOBS).code == 0
    assert "nothing is pending" in at_hand(tmp_path, "migrate", "--sql", *JOBS).out
    assert at_hand(tmp_path, "schedules", "list", "--json", *JOBS).json == []
    assert at_hand(tmp_path, "migrate", "--sql", "--check", *JOBS).code == 2
