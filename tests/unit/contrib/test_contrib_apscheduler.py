"""The guard around an APScheduler, with a leadership that is given and taken by hand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED
from apscheduler.schedulers.blocking import BlockingScheduler

from tenure.contrib.apscheduler import ASK_AGAIN, Guard, guard
from tenure.errors import ConfigError

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Leadership:
    """What the guard uses of the real one."""

    def __init__(self, guarded: Guard) -> None:
        self.is_leader = False
        self.campaigns = False
        self._guarded = guarded

    def gain(self, term: int) -> None:
        self.is_leader = True
        self._guarded._gained(SimpleNamespace(term=term))  # type: ignore[arg-type]

    def lose(self) -> None:
        self.is_leader = False
        self._guarded._not_sure()

    def start(self) -> None:
        self.campaigns = True

    def stop(self) -> None:
        if self.is_leader:
            self.lose()
        self.campaigns = False

    async def __aenter__(self) -> None:
        self.start()

    async def __aexit__(self, *exc: object) -> None:
        self.stop()


def _grew(found: list[bool], before: int) -> bool:
    return len(found) > before


def under_guard(scheduler: Any) -> tuple[Guard, Leadership]:
    guarded = guard(scheduler, "memory://")
    leadership = Leadership(guarded)
    guarded._leadership = leadership  # type: ignore[assignment]
    return guarded, leadership


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def jobs() -> Iterator[Any]:
    scheduler = BackgroundScheduler(job_defaults={"misfire_grace_time": None})
    yield scheduler
    if scheduler.running:
        scheduler.shutdown(wait=False)


def test_runs_while_leading_and_at_no_other_time(jobs: Any) -> None:
    ran: list[bool] = []
    guarded, leadership = under_guard(jobs)
    jobs.add_job(lambda: ran.append(leadership.is_leader), "interval", seconds=0.01)
    with guarded:
        assert leadership.campaigns
        assert jobs.state == STATE_STOPPED
        for term in (1, 1, 2):
            before = len(ran)
            leadership.gain(term)
            assert jobs.state == STATE_RUNNING
            until(partial(_grew, ran, before))
            leadership.lose()
            assert jobs.state == STATE_PAUSED
    assert jobs.state == STATE_STOPPED
    assert not leadership.campaigns


def test_whoever_starts_it_nothing_runs_unguarded(jobs: Any) -> None:
    ran = threading.Event()
    guarded, leadership = under_guard(jobs)
    jobs.add_job(ran.set, "interval", seconds=0.01)
    jobs.start()
    time.sleep(0.05)  # it comes due
    assert jobs._process_jobs() is None
    with guarded:
        assert jobs.state == STATE_PAUSED
        assert not ran.is_set()
        leadership.gain(1)
        until(ran.is_set)


def test_what_wakes_up_after_its_lease_asks_before_it_runs_anything(jobs: Any) -> None:
    ran = threading.Event()
    guarded, leadership = under_guard(jobs)
    with guarded:
        leadership.gain(1)
        leadership.is_leader = False  # nobody has told it yet
        jobs.add_job(ran.set, next_run_time=LONG_AGO)
        assert jobs._process_jobs() == ASK_AGAIN
        assert not ran.is_set()
        leadership.is_leader = True  # renewed in time, and nobody need tell
        until(ran.is_set)


def test_what_came_due_under_the_same_term_is_run(jobs: Any) -> None:
    ran = threading.Event()
    guarded, leadership = under_guard(jobs)
    with guarded:
        leadership.gain(1)
        leadership.lose()
        jobs.add_job(ran.set, "interval", hours=1, next_run_time=LONG_AGO)
        leadership.gain(1)
        until(ran.is_set)


def test_what_came_due_under_anothers_term_is_left_out(jobs: Any) -> None:
    ran = threading.Event()
    guarded, leadership = under_guard(jobs)
    with guarded:
        leadership.gain(1)
        leadership.lose()
        hourly = jobs.add_job(ran.set, "interval", hours=1, next_run_time=LONG_AGO)
        once = jobs.add_job(ran.set, "date", run_date=LONG_AGO)
        paused = jobs.add_job(ran.set, "interval", hours=1, next_run_time=None)
        leadership.gain(3)
        assert hourly.next_run_time > datetime.now(UTC)
        assert jobs.get_job(once.id) is None
        assert paused.next_run_time is None
    assert not ran.is_set()


def test_a_shared_job_store_knows_better(jobs: Any, tmp_path: Path) -> None:
    guarded, leadership = under_guard(jobs)
    # A file: in memory each thread has a connection that no other thread can close.
    jobs.add_jobstore(SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db"))
    with guarded:
        leadership.gain(1)
        leadership.lose()
        jobs.add_job(print, "interval", args=[""], weeks=9_000, next_run_time=LONG_AGO, id="due")
        guarded._leave_out_the_past()
        assert jobs.get_job("due").next_run_time == LONG_AGO


def test_running_jobs_end_before_another_may_lead(jobs: Any) -> None:
    begun, let_go = threading.Event(), threading.Event()
    guarded, leadership = under_guard(jobs)

    def job() -> None:
        begun.set()
        let_go.wait(20)

    jobs.add_job(job)
    guarded.start()
    leadership.gain(1)
    until(begun.is_set)
    stopping = threading.Thread(target=guarded.stop)
    stopping.start()
    until(lambda: jobs.state == STATE_STOPPED)
    assert leadership.campaigns
    let_go.set()
    stopping.join(20)
    assert not leadership.campaigns


def test_leading_after_the_stop_starts_nothing(jobs: Any) -> None:
    guarded, leadership = under_guard(jobs)
    guarded.start()
    guarded.stop()
    leadership.gain(1)
    assert jobs.state == STATE_STOPPED


async def test_asyncio_scheduler() -> None:
    jobs = AsyncIOScheduler()
    ran: asyncio.Queue[bool] = asyncio.Queue()
    guarded, leadership = under_guard(jobs)

    async def job() -> None:
        ran.put_nowait(leadership.is_leader)

    jobs.add_job(job, "interval", seconds=0.01)
    async with asyncio.timeout(20), guarded:
        for term in (1, 2):
            await asyncio.to_thread(leadership.gain, term)
            assert await ran.get()
            leadership.lose()
            assert jobs.state == STATE_PAUSED
            while not ran.empty():
                assert ran.get_nowait()
    assert jobs.state == STATE_STOPPED
    assert not leadership.campaigns


async def test_background_scheduler_in_a_lifespan(jobs: Any) -> None:
    guarded, leadership = under_guard(jobs)
    async with guarded.lifespan(object()):
        leadership.gain(1)
        assert jobs.state == STATE_RUNNING
    assert jobs.state == STATE_STOPPED


class Extension:
    """What has an APScheduler, as Flask-APScheduler does."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler


def test_an_extension_that_has_one_is_guarded(jobs: Any) -> None:
    ran = threading.Event()
    jobs.add_job(ran.set, "interval", seconds=0.01)
    guarded, leadership = under_guard(Extension(jobs))
    with guarded:
        assert jobs.state == STATE_STOPPED
        leadership.gain(1)
        until(ran.is_set)
    assert jobs.state == STATE_STOPPED


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a scheduler of APScheduler 3"):
        guard(Extension(None), "memory://")
    with pytest.raises(ConfigError, match="BackgroundScheduler"):
        guard(BlockingScheduler(), "memory://")
    with pytest.raises(ConfigError, match="async with"):
        guard(AsyncIOScheduler(), "memory://").start()
    with pytest.raises(ConfigError, match="reserved for Tenure"):
        guard(BackgroundScheduler(), "memory://", name="tenure/leader")


def test_disabled_starts_nothing(jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_ENABLED", "0")
    guarded, leadership = under_guard(jobs)
    with guarded:
        assert not leadership.campaigns
    assert jobs.state == STATE_STOPPED


def test_interval_keeps_its_grid(jobs: Any) -> None:
    guarded, leadership = under_guard(jobs)
    with guarded:
        leadership.gain(1)
        leadership.lose()
        start = datetime.now(UTC) - timedelta(hours=10, minutes=7)
        job = jobs.add_job(print, "interval", hours=1, start_date=start, next_run_time=start)
        leadership.gain(2)
        assert (job.next_run_time - start) % timedelta(hours=1) == timedelta(0)


def test_heartbeat_is_checked_against_the_ttl() -> None:
    guard(BackgroundScheduler(), "memory://", ttl=30, heartbeat=10)
    with pytest.raises(ConfigError, match="heartbeat must satisfy 0 < heartbeat <= ttl/3"):
        guard(BackgroundScheduler(), "memory://", ttl=15, heartbeat=6)
