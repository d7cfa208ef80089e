"""Bad input: a precise error that says what to do, before anything is changed."""

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
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tenure import (
    ConfigError,
    Conflict,
    InvalidSchedule,
    InvalidTrigger,
    Leases,
    Run,
    Scheduler,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    UnknownTask,
    every,
    single_instance,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tenure.db"


@pytest.fixture
def scheduler(database: Path) -> Iterator[Scheduler]:
    made = Scheduler(f"sqlite:///{database}")

    @made.task
    def invoice(run: Run, customer: str, cents: int = 0) -> None: ...

    yield made
    made.stop()


def _nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


def _within_itself() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def content(folder: Path) -> dict[str, str]:
    """Every file in it, by what is in it."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


# -- URLs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Scheduler, Leases, single_instance])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://localhost/jobs", "unknown URL scheme 'mysql'"),
        ("tenure.db", "write sqlite:///tenure.db"),
        ("sqlite://tenure.db", "two slashes where three are needed: write sqlite:///tenure.db"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///", "names no file"),
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


# -- declarations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seconds": 0}, "the interval is 0; it must be greater than 0, such as every(seconds=10)"),
        ({}, "the interval is 0"),
        ({"seconds": -1}, "must not be negative"),
        ({"seconds": "ten"}, "the count must be a number"),
        ({"seconds": 0.001}, "the shortest interval is 0.01 seconds"),
        ({"seconds": float("inf")}, "the longest interval is 100 years"),
        ({"days": 1, "hours": 1}, "either clock units"),
        ({"days": 1, "tz": "Europe/Atlantis"}, "unknown time zone 'Europe/Atlantis'"),
    ],
)
def test_interval_that_cannot_be_right_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        every(**arguments)
    assert says in str(caught.value)


def test_two_tasks_with_one_name_are_refused_and_both_are_named(scheduler: Scheduler) -> None:
    def another() -> None: ...

    with pytest.raises(InvalidSchedule) as caught:
        scheduler.task(every(seconds=1), name="invoice")(another)
    said = str(caught.value)
    assert "two tasks are named 'invoice'" in said
    assert said.count("test_bad_input.py:") == 2
    assert "name=" in said


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({}, "missing a required argument: 'customer'"),
        ({"customer": "acme", "euros": 5}, "unexpected keyword argument 'euros'"),
        ({"customer": "acme", "run": 1}, "'run' is filled in with the Run"),
    ],
)
def test_arguments_that_the_function_does_not_take_are_refused(
    scheduler: Scheduler, database: Path, kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs=kwargs)
    assert says in str(caught.value)
    _nothing_was_stored(scheduler)
    with pytest.raises(InvalidSchedule, match=r"cannot be called with|is filled in"):

        @scheduler.task(every(days=1), kwargs=kwargs)
        def declared(run: Run, customer: str) -> None: ...


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "of type datetime, which JSON cannot carry"),
        (Decimal("1.5"), "of type Decimal, which JSON cannot carry"),
        (b"bytes", "of type bytes, which JSON cannot carry"),
        ({1, 2}, "of type set, which JSON cannot carry"),
        (float("nan"), "is nan, which JSON does not have"),
        ((1, 2), "is a tuple, which would come back as a list"),
        ({"deep": [{"er": {1: 2}}]}, "['deep'][0]['er'] has the key 1; JSON keys are strings"),
        (object(), "of type object"),
        ("\ud800", "which is not Unicode"),
        (_nested(1_000), "is nested too deeply"),
        (_within_itself(), "is nested too deeply"),
    ],
)
def test_arguments_that_json_cannot_carry_are_refused(
    scheduler: Scheduler, value: object, says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs={"customer": value})
    assert says in str(caught.value)
    assert "kwargs['customer']" in str(caught.value)
    assert len(str(caught.value)) < 500
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize("size", [262_144, 10_000_000])
def test_payload_over_the_limit_is_refused(scheduler: Scheduler, size: int) -> None:
    kwargs = {"customer": "x" * size}
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("acme", every(days=1), task="invoice", kwargs=kwargs)
    said = str(caught.value)
    assert f"the keyword arguments are {size + 15:,} bytes of JSON; the limit is 262,144" in said
    assert "pass its key, or raise payload_limit" in said
    assert len(said) < 500  # and does not repeat ten megabytes
    _nothing_was_stored(scheduler)


def test_declared_payload_over_the_limit_is_refused_at_start(database: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{database}")

    @scheduler.task(every(days=1), kwargs={"text": "x" * 300_000})
    def declared(text: str) -> None: ...

    with pytest.raises(InvalidSchedule, match="the limit is 262,144"):
        scheduler.start()
    assert not scheduler.running
    _nothing_was_stored(scheduler)
    scheduler.stop()


def test_unknown_task_is_refused_and_the_known_ones_are_named(scheduler: Scheduler) -> None:
    with pytest.raises(UnknownTask) as caught:
        scheduler.add("acme", every(days=1), task="invioce")
    said = str(caught.value)
    assert "unknown task 'invioce'" in said
    assert "Declared here: invoice" in said
    assert "@scheduler.task" in said
    with pytest.raises(UnknownTask, match=r"Decorate it with @scheduler\.task"):
        scheduler.add("acme", every(days=1), task=_start)
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines"])
def test_name_that_cannot_be_shown_is_refused(scheduler: Scheduler, name: str) -> None:
    with pytest.raises(InvalidSchedule, match="1 to 200 printable characters"):
        scheduler.add(name, every(days=1), task="invoice", kwargs={"customer": "acme"})
    _nothing_was_stored(scheduler)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"overlapp": "skip"}, "unknown option 'overlapp'. Options are:"),
        ({"overlap": "sometimes"}, "choose from 'skip', 'queue', 'allow'"),
        ({"on_crash": "cry"}, "choose from 'rerun', 'abandon'"),
        ({"retries": -1}, "retries=-1 must be between 0 and 2,147,483,647"),
        ({"retries": "3"}, "retries='3' is not a whole number"),
        ({"priority": "high"}, "priority='high' is not a whole number"),
        ({"timeout": float("inf")}, "timeout=inf must be greater than 0 seconds, and at most"),
        ({"timeout": 0}, "must be greater than 0 seconds"),
        ({"lock": "customer:{nobody}"}, "cannot be filled in from the keyword arguments"),
    ],
)
def test_policy_that_does_not_exist_is_refused(
    scheduler: Scheduler, policy: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        scheduler.add("a", every(days=1), task="invoice", kwargs={"customer": "b"}, **policy)
    assert says in str(caught.value)
    _nothing_was_stored(scheduler)


def test_name_that_is_taken_is_refused_and_the_first_one_stays(scheduler: Scheduler) -> None:
    first = scheduler.add("acme", every(days=1), task="invoice", kwargs={"customer": "a"})
    with pytest.raises(Conflict, match="a schedule named 'acme' exists already"):
        scheduler.add("acme", every(days=2), task="invoice", kwargs={"customer": "b"})
    assert scheduler.get("acme") == first


def test_start_on_an_unavailable_store_leaves_a_scheduler_that_can_be_started_later(
    tmp_path: Path,
) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/later/tenure.db")
    with pytest.raises(ConfigError):
        scheduler.start()
    (tmp_path / "later").mkdir()
    with scheduler:
        assert scheduler.running


def _nothing_was_stored(scheduler: Scheduler) -> None:
    assert scheduler.schedules() == []
    assert scheduler.runs() == []


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
