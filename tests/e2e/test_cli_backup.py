"""`tenure backup` copies a store that is in use: whole, checked, and over nothing that exists."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from tenure.backends.sqlite import SQLiteBackend, backup
from tenure.errors import StoreError
from tests.e2e.command import APP, EXECUTABLE, PATIENCE, at_hand, node, tenure, until

JOBS = ("--url", "sqlite:///jobs.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store in it, of a few megabytes."""
    assert at_hand(tmp_path, "migrate", *JOBS).code == 0
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.executemany("INSERT INTO customers VALUES (?)", [("x" * 3_000,)] * 1_500)
        connection.execute("CREATE INDEX by_name ON customers (name)")
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True)) as connection:
        return connection.execute(query).fetchall()


def test_a_store_that_a_cluster_works_on_is_copied(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "kept").mkdir()
    with node(tmp_path) as running:
        until(lambda: _succeeded(tmp_path), "a first run")
        added = at_hand(tmp_path, "schedules", "add", "acme", "--every", "1h", "--task", "t", *JOBS)
        assert added.code == 0
        known = rows(tmp_path / "jobs.db", "SELECT id FROM tenure_run ORDER BY id")

        answer = tenure(tmp_path, "backup", "kept/copy.db", "--json", *JOBS)

        assert answer.code == 0, answer
        copy = tmp_path / "kept" / "copy.db"
        assert answer.json["file"] == str(copy)
        assert answer.json["bytes"] == copy.stat().st_size
        assert names(tmp_path / "kept") == {"copy.db"}
        assert rows(copy, "PRAGMA integrity_check") == [("ok",)]
        assert set(known) <= set(rows(copy, "SELECT id FROM tenure_run"))
        # The cluster goes on as if nothing had been.
        term = rows(tmp_path / "jobs.db", "SELECT term FROM tenure_lease WHERE name LIKE '%leader'")
        before = _succeeded(tmp_path)
        until(lambda: _succeeded(tmp_path) > before, "another run")
        assert term == [(1,)]
        assert running.process.poll() is None
    listed = at_hand(tmp_path, "schedules", "list", "--json", "--url", f"sqlite:///{copy}")
    assert {"acme", "sweep"} <= {schedule["name"] for schedule in listed.json}


def test_the_copy_is_of_one_instant_however_much_is_written_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "PAGES", 100)
    told: list[tuple[int, int]] = []
    with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as writer:

        def progress(done: int, total: int) -> None:
            told.append((done, total))
            writer.execute("INSERT INTO customers VALUES ('meanwhile')")

        SQLiteBackend(folder / "jobs.db").back_up(
            folder / "copy.db", replace=False, progress=progress
        )
    assert len(told) > 10, "it did not begin again, nor take all at once"
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    count = "SELECT count(*) FROM customers"
    assert rows(folder / "copy.db", count) == [(1_500,)]
    assert rows(folder / "jobs.db", count) == [(1_500 + len(told),)]


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal", "-tenure"])
def test_the_store_itself_is_never_overwritten(folder: Path, ending: str) -> None:
    with closing(sqlite3.connect(folder / "jobs.db")) as connection:
        connection.execute("SELECT * FROM customers").fetchone()
        answer = at_hand(folder, "backup", f"jobs.db{ending}", "--force", *JOBS)
    assert answer.code == 1, answer
    assert "is a file of the database itself" in answer.err
    assert rows(folder / "jobs.db", "PRAGMA integrity_check") == [("ok",)]


def test_the_store_under_another_name_is_not_overwritten_either(folder: Path) -> None:
    (folder / "link.db").symlink_to("jobs.db")
    (folder / "hard.db").hardlink_to(folder / "jobs.db")
    before = (folder / "jobs.db").stat().st_ino
    for name in ("link.db", "hard.db", f"../{folder.name}/jobs.db"):
        answer = at_hand(folder, "backup", name, "--force", *JOBS)
        assert answer.code == 1, answer
        assert "is a file of the database itself" in answer.err
    assert (folder / "jobs.db").stat().st_ino == before
    assert (folder / "link.db").is_symlink()


def test_what_exists_is_replaced_only_when_told(folder: Path) -> None:
    (folder / "copy.db").write_text("precious")
    refused = at_hand(folder, "backup", "copy.db", *JOBS)
    assert refused.code == 1
    assert "--force" in refused.err
    assert (folder / "copy.db").read_text() == "precious"
    replaced = at_hand(folder, "backup", "copy.db", "--force", *JOBS)
    assert replaced.code == 0, replaced
    assert "and checked" in replaced.out
    assert rows(folder / "copy.db", "SELECT count(*) FROM customers") == [(1_500,)]


def test_the_url_may_be_in_a_file_and_a_name_commands_no_terminal(folder: Path) -> None:
    (folder / "url").write_text("sqlite:///jobs.db\n")
    answer = at_hand(folder, "backup", "a\x1b[2Jb.db", "--url-file", "url")
    assert answer.code == 0, answer
    assert (folder / "a\x1b[2Jb.db").exists()
    assert "copied to a\\x1b[2Jb.db" in answer.out


def test_places_where_no_copy_can_be(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "used.db-wal").touch()
    os.mkfifo(folder / "pipe")
    before = names(folder)
    for name, says in (
        ("sub", "is a folder; name a file in it"),
        ("missing/copy.db", "does not exist. Create it"),
        ("used.db", "SQLite would take it for part of the copy"),
        ("pipe", "is not a plain file"),
        ("x" * 300, "cannot be written: File name too long"),
    ):
        answer = at_hand(folder, "backup", name, "--force", *JOBS)
        assert answer.code == 1, answer
        assert says in answer.err
    assert names(folder) == before


@pytest.mark.as_user
def test_folders_that_are_closed_to_this_user(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("no folder is closed to root; scripts/test runs this again as an ordinary user")
    closed, unreadable = folder / "closed", folder / "unreadable"
    closed.mkdir(0o000)
    unreadable.mkdir(0o300)
    refused = at_hand(folder, "backup", "closed/copy.db", *JOBS)
    assert refused.code == 1
    assert "cannot be written: Permission denied" in refused.err
    assert at_hand(folder, "backup", "unreadable/copy.db", *JOBS).code == 0
    closed.chmod(0o700)
    unreadable.chmod(0o700)
    assert names(closed) == set()
    assert names(unreadable) == {"copy.db"}


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "backup", "copy.db", *JOBS)
    assert answer.code == 1
    assert f"there is no database {tmp_path / 'jobs.db'}" in answer.err
    assert names(tmp_path) == set()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_copy_has_the_rights_of_the_store(folder: Path, mode: int) -> None:
    (folder / "jobs.db").chmod(mode)
    before = os.umask(0o077)
    try:
        assert at_hand(folder, "backup", "copy.db", *JOBS).code == 0
    finally:
        os.umask(before)
    assert S_IMODE((folder / "copy.db").stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another group")
def test_root_makes_a_copy_for_the_group_of_the_store(folder: Path) -> None:
    (folder / "jobs.db").chmod(0o640)
    os.chown(folder / "jobs.db", 64_001, 64_100)
    assert at_hand(folder, "backup", "copy.db", *JOBS).code == 0
    found = (folder / "copy.db").stat()
    assert (found.st_gid, S_IMODE(found.st_mode)) == (64_100, 0o640)


def test_a_copy_that_is_interrupted_leaves_nothing_behind(folder: Path) -> None:
    (folder / "copy.db").write_text("the last one")
    before = names(folder)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SQLiteBackend(folder / "jobs.db").back_up(
            folder / "copy.db", replace=True, progress=interrupt
        )
    assert names(folder) == before
    assert (folder / "copy.db").read_text() == "the last one"


def test_a_disk_that_is_full_leaves_nothing_behind(folder: Path) -> None:
    before = names(folder)
    limit = (1_000_000, 1_000_000)  # no file may be longer: that is what a full disk is like
    done = subprocess.run(
        [EXECUTABLE, "backup", "copy.db", *JOBS],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 1, done.stderr
    assert "could not be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(folder) == before


def test_a_damaged_store_gives_no_copy(folder: Path) -> None:
    damaged = bytearray((folder / "jobs.db").read_bytes())
    damaged[-3 * 4096 : -2 * 4096] = b"\x0d" * 4096
    (folder / "jobs.db").write_bytes(damaged)
    with pytest.raises(StoreError, match="damaged"):
        SQLiteBackend(folder / "jobs.db").back_up(
            folder / "copy.db", replace=False, progress=lambda done, total: None
        )
    assert "copy.db" not in names(folder)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://app@127.0.0.1:1/app", "use pg_dump"),
        ("redis://127.0.0.1:1", "need no backup"),
    ],
)
def test_other_stores_have_other_tools(tmp_path: Path, url: str, says: str) -> None:
    answer = at_hand(tmp_path, "backup", "copy.db", "--url", url)
    assert answer.code == 2, answer
    assert says in answer.err
    assert names(tmp_path) == set()


def _succeeded(folder: Path) -> int:
    query = "SELECT count(*) FROM tenure_run WHERE state = 'succeeded'"
    (count,) = rows(folder / "jobs.db", query)[0]
    assert isinstance(count, int)
    return count
