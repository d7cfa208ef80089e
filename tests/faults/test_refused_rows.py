"""An event that the store refuses, because a user's trigger on the log raises: it alone fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Event, NewSchedule, Run, Scheduler, StoreError, at
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

MANY = 60
_RAISES = {
    "sqlite": """
        CREATE TRIGGER refuse AFTER INSERT ON tenure_event WHEN NEW.key = 'bad' BEGIN
            SELECT RAISE(ABORT, 'not on a Sunday');
        END
    """,
    "sqlite-rollback": """
        CREATE TRIGGER refuse AFTER INSERT ON tenure_event WHEN NEW.key = 'bad' BEGIN
            SELECT RAISE(ROLLBACK, 'not on a Sunday');
        END
    """,
    "postgres": """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.key = 'bad' THEN
                RAISE EXCEPTION 'not on a Sunday';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse AFTER INSERT ON tenure.event
            FOR EACH ROW EXECUTE FUNCTION refuse();
    """,
    "postgres-deferred": """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.key = 'bad' THEN
                RAISE EXCEPTION 'not on a Sunday';
            END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON tenure.event
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
    """,
    "postgres-check": """
        ALTER TABLE tenure.event ADD CONSTRAINT "not on a Sunday" CHECK (key <> 'bad')
    """,
}
_NEEDS = {
    "sqlite": """
        CREATE TRIGGER copies AFTER INSERT ON tenure_event BEGIN
            INSERT INTO forgotten VALUES (NEW.id);
        END
    """,
    "postgres": """
        CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO forgotten VALUES (NEW.id);
            RETURN NEW;
        END $$;
        CREATE TRIGGER copies AFTER INSERT ON tenure.event
            FOR EACH ROW EXECUTE FUNCTION copies();
    """,
}
_COPIES = """
    CREATE TABLE public.copied (id text);
    CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.copied VALUES (NEW.id);
        RETURN NEW;
    END $$;
    CREATE TRIGGER copies AFTER INSERT ON tenure.event FOR EACH ROW EXECUTE FUNCTION copies();
"""


class Database:
    """A store with tables, to which a user adds triggers."""

    def __init__(self, url: str, ttl: float | None = None) -> None:
        self.url = url
        self.scheduler = Scheduler(url, ttl=ttl)
        self.scheduler.schedules()  # makes the tables

    @contextmanager
    def connect(self) -> Iterator[Any]:
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            connection: Any = sqlite3.connect(path, timeout=20, isolation_level=None)
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    def execute(self, text: str) -> None:
        with self.connect() as connection:
            connection.execute(text)

    def events(self) -> list[tuple[Any, ...]]:
        table = "tenure_event" if self.url.startswith("sqlite") else "tenure.event"
        with self.connect() as connection:
            found = connection.execute(f"SELECT subject, key FROM {table}").fetchall()
        return [tuple(row) for row in found]


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param.startswith("sqlite"):
        url = f"sqlite:///{tmp_path}/refused.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database(f"refused_{id(tmp_path)}")
    database = Database(url)
    yield database
    database.scheduler.stop()


def of(kinds: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("database", "trigger"), list(kinds.items()), indirect=["database"], ids=list(kinds)
    )


@of(_RAISES)
def test_schedule_whose_event_is_refused_is_put_off_and_the_others_fire(
    database: Database, trigger: str
) -> None:
    scheduler = database.scheduler

    @scheduler.task
    def nothing() -> None: ...

    due = at(datetime.now(UTC) + timedelta(seconds=3))
    keys = {f"s{n:02}": "bad" if n == MANY // 3 else "good" for n in range(MANY)}
    scheduler.add_many(
        [NewSchedule(n, due, emit=Event("ledger", "Due", key=k)) for n, k in keys.items()]
    )
    scheduler.add("runs", due, task=nothing)
    database.execute(trigger)
    [bad] = [name for name, key in keys.items() if key == "bad"]
    with scheduler:
        until(lambda: len(database.events()) == MANY - 1, "the others emit", 30)
        assert {subject for subject, _ in database.events()} == keys.keys() - {bad}
        until(lambda: scheduler.get(bad).reason, "it is put off", 30)
        refused = scheduler.get(bad)
        assert refused.active
        assert (refused.reason or "").startswith("put off: its firing failed")
        assert "not on a Sunday" in (refused.reason or "")
        [run] = until(lambda: scheduler.runs(schedule="runs"), "a task fires in the same batch")
        until(lambda: scheduler.get_run(run.id).state == "succeeded", "and is executed")
        assert scheduler.occurrences(bad) == []
        # By hand it is refused to its face, and changes nothing.
        with pytest.raises(StoreError, match="not on a Sunday"):
            scheduler.run_now(bad)
        with pytest.raises(StoreError, match="not on a Sunday"):
            scheduler.emit(Event("ledger", "Due", key="bad"))
    assert len(database.events()) == MANY - 1


@of(_RAISES)
def test_run_whose_event_is_refused_fails_and_keeps_no_other_back(
    database: Database, trigger: str
) -> None:
    scheduler = database.scheduler

    @scheduler.task(retries=3)
    def tells(run: Run, key: str) -> None:
        run.emit(Event("ledger", "Told", key=key))

    database.execute(trigger)
    runs = [
        scheduler.enqueue(tells, kwargs={"key": key}) for key in ("good", "bad", "good", "good")
    ]
    with scheduler:
        until(lambda: all(_ended(scheduler, run.id) for run in runs), "all runs end", 30)
        later = scheduler.enqueue(tells, kwargs={"key": "good"})
        until(lambda: _ended(scheduler, later.id), "the node goes on", 30)
        ended = [scheduler.get_run(run.id) for run in (*runs, later)]
    assert [run.state for run in ended] == [
        "succeeded",
        "failed",
        "succeeded",
        "succeeded",
        "succeeded",
    ]
    error = ended[1].error or ""
    assert error.startswith("it succeeded, but the store refused that: ")
    assert "not on a Sunday" in error
    assert [key for _, key in database.events()] == ["good"] * 4


def test_run_whose_event_waits_for_a_lock_keeps_no_other_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """A trigger copies events into a table that somebody has locked."""
    url = postgres.create_database(f"locked_{id(tmp_path)}")
    database = Database(url, ttl=3)  # a transaction has 0.9 s
    scheduler = database.scheduler

    @scheduler.task
    def tells(run: Run) -> None:
        run.emit(Event("ledger", "Told"))

    @scheduler.task
    def works() -> None: ...

    database.execute(_COPIES)
    with scheduler, psycopg.connect(url) as other:
        other.execute("LOCK TABLE public.copied")
        held = scheduler.enqueue(tells)
        until(lambda: scheduler.get_run(held.id).state == "claimed", "it is executed", 30)
        for _ in range(5):
            run = scheduler.enqueue(works)
            until(lambda at=run.id: _ended(scheduler, at), "others are executed", 30)  # type: ignore[misc]
        assert scheduler.get_run(held.id).state == "claimed"
        other.rollback()
        until(lambda: scheduler.get_run(held.id).state == "succeeded", "it is recorded", 60)
    assert len(database.events()) == 1
    with database.connect() as connection:
        assert connection.execute("SELECT count(*) FROM public.copied").fetchone() == (1,)


@of(_NEEDS)
def test_trigger_that_cannot_work_is_told_as_what_it_is(database: Database, trigger: str) -> None:
    """Not as a schema that is too old: no migration would help, and results would wait for one."""
    scheduler = database.scheduler

    @scheduler.task
    def tells(run: Run) -> None:
        run.emit(Event("ledger", "Told"))

    database.execute(trigger)
    with pytest.raises(StoreError, match=r"forgotten.* A trigger of yours needs it"):
        scheduler.emit(Event("ledger", "Told"))
    run = scheduler.enqueue(tells)
    with scheduler:
        until(lambda: _ended(scheduler, run.id), "the run ends", 30)
        ended = scheduler.get_run(run.id)
    assert ended.state == "failed"
    assert "forgotten" in (ended.error or "")


def _ended(scheduler: Scheduler, run_id: int) -> bool:
    return scheduler.get_run(run_id).state not in ("waiting", "claimed")
