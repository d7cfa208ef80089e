"""The server's queue of notifications is full, by the doing of a role that can only connect: that
costs promptness, and nothing else."""

from __future__ import annotations

import logging
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Leases, Scheduler, Settings, every
from tenure.backends.base import RUNS
from tenure.backends.postgres.notifications import SILENCE
from tenure.backends.postgres.wakeups import CHECK, POLL, PostgresWakeups
from tenure.errors import StoreUnavailable
from tests.e2e.command import Answer, tenure
from tests.faults.postgres import running_pooler
from tests.faults.support import until
from tests.support.servers import PostgresServer

FULL = "NOTIFY queue"
SELDOM = Settings(ttl=5, idle_poll=600.0)
BUSY = 20.0
"""On top of a promised time: these tests run on busy machines."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off", max_notify_queue_pages="64")
    try:
        said = subprocess.run(
            [server.binaries / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        version = re.search(r"\d+", said.stdout)
        assert version is not None, said.stdout
        if int(version[0]) < 17:
            pytest.skip("before PostgreSQL 17 the queue takes 8 GB to fill")
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE stranger LOGIN; CREATE ROLE other LOGIN")
        yield server
    finally:
        server.close()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


@contextmanager
def full_queue(server: PostgresServer) -> Iterator[int]:
    """As long as it is open nobody can notify, in no database. The process that is in the way."""
    elsewhere = f"postgresql://stranger@127.0.0.1:{server.port}/postgres"
    with (
        psycopg.connect(elsewhere, autocommit=True) as listener,
        psycopg.connect(elsewhere, autocommit=True) as sender,
    ):
        listener.execute("LISTEN zz")
        listener.execute("BEGIN")
        listener.execute("SELECT 1")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            _fill(sender)
        yield listener.info.backend_pid


def _fill(sender: psycopg.Connection) -> None:
    for _ in range(1_000):
        sender.execute(
            "SELECT count(pg_notify('zz', repeat('x', 7900) || g)) FROM generate_series(1, 50) g"
        )


@contextmanager
def leading(scheduler: Scheduler) -> Iterator[Scheduler]:
    with scheduler:
        until(lambda: scheduler.is_leader, "a leader")
        yield scheduler


def is_heard(url: str, scheduler: Scheduler, act: Callable[[], object]) -> bool:
    """By one that waits for runs."""
    wakeups = getattr(scheduler._runtime._backend, "wakeups", None)
    assert isinstance(wakeups, PostgresWakeups)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"LISTEN {wakeups.own_channel(connection.info.backend_pid)}")
        connection.execute(
            "SELECT pg_advisory_lock_shared(hashtextextended(%s, 0))", (wakeups.channel_of(RUNS),)
        )
        act()
        return bool(list(connection.notifies(timeout=1.0, stop_after=1)))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r for r in caplog.records if r.levelno >= logging.WARNING]
    return [record.getMessage() for record in found if record.name.startswith("tenure")]


def examined(folder: Path, url: str) -> dict[str, Any]:
    """What the doctor says of the queue."""
    found = tenure(folder, "doctor", "--json", "--url", url).json["findings"]
    [queue] = [finding for finding in found if finding["check"] == "notifications"]
    assert isinstance(queue, dict)
    return queue


def says_yes(answer: Answer) -> None:
    assert answer.code == 0, answer


@pytest.mark.slow
def test_firing_goes_on(
    server: PostgresServer, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenure")
    done: list[float] = []
    added: list[float] = []
    scheduler = Scheduler(url, ttl=5)
    scheduler.task(every(seconds=1), name="tick")(lambda: done.append(time.monotonic()))
    scheduler.task(every(hours=1), name="other")(lambda: added.append(time.monotonic()))
    with leading(scheduler):
        until(lambda: done, "the first run")
        with full_queue(server) as culprit:
            before, begun = len(done), time.monotonic()
            until(lambda: len(done) >= before + 6, "six more runs")
            assert time.monotonic() - begun < 6 + BUSY

            add = ("schedules", "add", "z2", "--every", "1s", "--task", "other", "--url", url)
            says_yes(tenure(tmp_path, *add))
            until(lambda: added, "the run of another process's schedule", CHECK + POLL + BUSY)
            scheduler.pause("z2")
            scheduler.run_now("other")
            with Leases(url) as leases:
                for _ in range(2):
                    lease = leases.acquire("lock", ttl=5)
                    assert lease is not None
                    lease.release()
            with psycopg.connect(url) as connection, connection.transaction():
                scheduler.resume("z2", connection=connection)

            queue = examined(tmp_path, url)
            assert queue["severity"] == "problem"
            assert f"pid {culprit} (role 'stranger', idle in transaction" in queue["text"]
            assert "pg_terminate_backend(" in queue["remedy"]
            assert "pg_read_all_stats" not in queue["remedy"]
            queue = examined(tmp_path, url.replace("tenure@", "other@"))
            assert queue["severity"] == "problem"
            assert "pid" not in queue["text"]
            assert "pg_read_all_stats" in queue["remedy"]

            told = warnings(caplog)
            assert [text for text in told if FULL not in text] == []
            # Once by the node, and once by the leases, which are another store.
            assert len(told) <= 2
            assert "pg_notification_queue_usage()" in told[0]
            assert not is_heard(url, scheduler, lambda: scheduler.run_now("other"))
        until(
            lambda: is_heard(url, scheduler, lambda: scheduler.run_now("other")),
            "notifications again",
        )
        assert [text for text in warnings(caplog) if FULL not in text] == []
        assert examined(tmp_path, url)["severity"] == "ok"
    with psycopg.connect(url) as connection:
        reasons = connection.execute("SELECT reason FROM tenure.schedule WHERE reason IS NOT NULL")
        assert reasons.fetchall() == []


@pytest.mark.slow
def test_other_nodes_look_for_themselves(server: PostgresServer, url: str) -> None:
    """Within seconds, however seldom they look while others tell them."""
    done: list[float] = []
    leader = Scheduler(url, app="leader", settings=SELDOM)
    worker = Scheduler(url, app="worker", settings=SELDOM)
    worker.task(every(seconds=1), name="tick")(lambda: done.append(time.monotonic()))
    with leading(leader), worker:
        until(lambda: done, "the first run")
        assert leader.is_leader
        with full_queue(server):
            before = len(done)
            until(lambda: len(done) > before + 1, "a run", CHECK + 2 * POLL + BUSY)
            before, begun = len(done), time.monotonic()
            until(lambda: len(done) >= before + 4, "four more runs")
            assert time.monotonic() - begun < 4 * (1 + POLL) + BUSY


@pytest.mark.slow
def test_behind_a_pooler(
    server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server does not empty the queue by itself when it could: somebody has to ask for it."""
    done: list[float] = []
    with running_pooler(server) as pooler:
        scheduler = Scheduler(url.replace(f":{server.port}/", f":{pooler.port}/"), ttl=5)
        scheduler.task(every(seconds=1), name="tick")(lambda: done.append(time.monotonic()))
        with leading(scheduler):
            until(lambda: done, "the first run")
            with full_queue(server):
                begun, before = time.monotonic(), len(done)
                until(lambda: time.monotonic() > begun + SILENCE + 2, "another try")
                until(lambda: len(done) >= before + SILENCE / 2, "runs all the while", BUSY)
            until(
                lambda: is_heard(url, scheduler, lambda: scheduler.run_now("tick")),
                "notifications again",
            )
    told = warnings(caplog)
    assert told
    assert all(FULL in line for line in told)  # again, if it was emptied and filled meanwhile


TRIGGER = """
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('yours', new.name); RETURN NULL; END $$;
CREATE TRIGGER tell AFTER UPDATE ON tenure.schedule FOR EACH ROW EXECUTE FUNCTION tell();
"""


@pytest.mark.slow
def test_notifications_that_are_not_ours(server: PostgresServer, url: str) -> None:
    """Those cannot be left out: the error says what is wrong, and what to do. SQL says it too."""
    scheduler = Scheduler(url)
    scheduler.task(every(hours=1), name="job")(lambda: None)
    with leading(scheduler):
        until(scheduler.schedules, "the schedule")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TRIGGER)
            with full_queue(server):
                with pytest.raises(StoreUnavailable, match=FULL) as refused:
                    scheduler.pause("job")
                assert "pg_terminate_backend" in str(refused.value)
                assert str(refused.value).endswith("Nothing was changed.")
                with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                    connection.execute("SELECT tenure.add_schedule('sql', 'every 1h', 'job')")
            assert [schedule.active for schedule in scheduler.schedules()] == [True]
            usage = "SELECT 1 WHERE pg_notification_queue_usage() < 0.5"
            until(lambda: connection.execute(usage).fetchone(), "room in the queue")
            scheduler.pause("job")
