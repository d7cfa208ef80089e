"""A URL, a path or a database that cannot be right: a precise error, before anything is changed."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure import (
    ConfigError,
    Leases,
    Scheduler,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    single_instance,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tenure.db"


def content(folder: Path) -> dict[str, str]:
    """Every file in it, by what is in it."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


@pytest.mark.parametrize("make", [Scheduler, Leases, single_instance])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://localhost/jobs", "unknown URL scheme 'mysql'"),
        ("tenure.db", "write sqlite:///tenure.db"),
        ("sqlite://tenure.db", "two slashes where three are needed: write sqlite:///tenure.db"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///file:app?mode=memory&cache=shared", "a file: URI in place of a path"),
        ("sqlite:///file:app.db", "a file: URI in place of a path"),
        ("sqlite:///jobs.db?timeout=5", "leave them out (sqlite:///jobs.db)"),
        ("sqlite:///jobs.db?", "leave them out (sqlite:///jobs.db)"),
    ],
)
def test_url_that_cannot_be_right_is_refused_by_the_constructor(
    make: Any, url: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        make(url)
    assert says in str(caught.value)
    assert "sqlite:///" in str(caught.value)  # and what would be right
    assert not list(tmp_path.iterdir())


def test_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    for use in (_start, _hold):
        with pytest.raises(ConfigError) as caught:
            use(f"sqlite:///{folder}/tenure.db")
        assert f"the folder {folder} does not exist. Create it" in str(caught.value)
    assert not folder.exists()


def test_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder; the URL must name a file in it"):
        _start(f"sqlite:///{tmp_path}")
    assert not list(tmp_path.iterdir())


def test_file_that_is_not_a_database_is_left_alone(database: Path, tmp_path: Path) -> None:
    database.write_text("Dear diary, this is not a database. " * 100)
    before = content(tmp_path)
    for use in (_start, _hold):
        with pytest.raises(StoreError) as caught:
            use(f"sqlite:///{database}")
        assert f"{database} is not a SQLite database" in str(caught.value)
        assert "Check the URL" in str(caught.value)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    "newer",
    [
        "UPDATE tenure_meta SET value = '2' WHERE key = 'major'",
        "UPDATE tenure_meta SET value = '999' WHERE key = 'serves'",
    ],
)
def test_database_of_a_newer_version_is_left_alone(
    database: Path, tmp_path: Path, newer: str
) -> None:
    _start(f"sqlite:///{database}")
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute(newer).rowcount == 1
    before = content(tmp_path)
    for use in (_start, _hold):
        with pytest.raises(SchemaMismatch) as caught:
            use(f"sqlite:///{database}")
        assert "made by a newer Tenure" in str(caught.value)
        assert "Upgrade the tenure package here; nothing was changed" in str(caught.value)
    assert content(tmp_path) == before


def test_database_without_tables_is_left_alone_unless_migration_is_wanted(
    database: Path, tmp_path: Path
) -> None:
    scheduler = Scheduler(f"sqlite:///{database}", migrate=False)
    with pytest.raises(SchemaMismatch, match="tenure migrate --url"):
        scheduler.start()
    assert not list(tmp_path.iterdir())
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE of_the_application (a)")
    before = content(tmp_path)
    with pytest.raises(SchemaMismatch, match="tenure migrate --url"):
        scheduler.start()
    assert content(tmp_path) == before
    scheduler.stop()


@pytest.mark.as_user
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "says"),
    [
        (0o555, None, "cannot be written"),
        (0o777, 0o444, "cannot be written"),
        (0o555, 0o666, "cannot be written"),
        (0o700, 0o666, "cannot be reached"),
    ],
)
def test_path_that_this_user_may_not_write_is_refused_with_the_remedy(
    folder_mode: int, file_mode: int | None, says: str, open_folder: Path
) -> None:
    folder = open_folder / "data"
    folder.mkdir()
    database = folder / "tenure.db"
    if file_mode is not None:
        _start(f"sqlite:///{database}")
        database.chmod(file_mode)
    before = content(folder)
    owner = os.geteuid()
    folder.chmod(folder_mode if owner == 0 or folder_mode != 0o700 else 0o000)
    try:
        said = _as_nobody(f"sqlite:///{database}")
    finally:
        folder.chmod(0o755)
    assert said.startswith("StoreUnavailable: ")
    assert f"{database} {says}" in said
    assert "writable" in said or "Give it the permission" in said
    assert content(folder) == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users can get into, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-bad-input-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _as_nobody(url: str) -> str:
    """What an unprivileged user is told who starts a scheduler there.

    Where the tests run as root the interpreter may be out of everybody else's reach: so everything
    is imported first, by using it elsewhere, and the privileges are dropped then.
    """
    script = """
        import os, sys, tempfile
        from tenure import Scheduler, TenureError
        with tempfile.TemporaryDirectory() as folder, Scheduler(f"sqlite:///{folder}/tenure.db"):
            pass
        user = int(sys.argv[2])
        if user != os.geteuid():
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        scheduler = Scheduler(sys.argv[1])
        try:
            scheduler.start()
        except TenureError as error:
            print(f"{type(error).__name__}: {error}")
        else:
            scheduler.stop()
            print("started")
    """
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), url, str(user)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_start_on_an_unavailable_store_leaves_a_scheduler_that_can_be_started_later(
    tmp_path: Path,
) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/later/tenure.db")
    with pytest.raises(ConfigError):
        scheduler.start()
    (tmp_path / "later").mkdir()
    with scheduler:
        assert scheduler.running


def _start(url: str) -> None:
    scheduler = Scheduler(url)
    try:
        with scheduler:
            pass
    finally:
        scheduler.stop()


def _hold(url: str) -> None:
    with Leases(url) as leases, leases.hold("anything"):
        pass


def test_store_errors_are_of_one_family() -> None:
    assert issubclass(StoreUnavailable, StoreError)
    assert issubclass(SchemaMismatch, StoreError)
