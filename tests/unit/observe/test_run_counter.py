"""Facts of runs are counted in batches: each once, and soon."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Scheduler, every
from tenure.facts import Fact, Facts, RunFailed, RunRefused, RunSucceeded
from tenure.model import ClaimBatch, Kind, OnCrash, RunRecord, RunState
from tenure.observe import catalogue as c
from tenure.observe.metrics import metrics_of
from tenure.observe.run_counter import RunCounter
from tenure.observe.tally import Tally
from tenure.process.clock import SystemClock
from tests.unit.observe.observing import ANYWHERE, until

METRICS = (c.RUNS, c.RUN_LATENESS, c.RUN_DURATION, c.SCHEDULE_RUNS, c.SCHEDULE_SUCCESS)
CLOCK = SystemClock()
DUE = datetime(2026, 1, 1, tzinfo=UTC)
ABOUT = (7, "sweep", "nightly", DUE, 1, "host:1:x")
CLAIMED = RunRecord(
    id=7,
    schedule="nightly",
    uid=1,
    kind=Kind.PLANNED,
    nominal=DUE,
    task="sweep",
    arguments="{}",
    state=RunState.CLAIMED,
    due=DUE,
    attempt=1,
    crashes=0,
    failures=0,
    lock=None,
    priority=0,
    timeout=None,
    retries=0,
    on_crash=OnCrash.RERUN,
    term=1,
    node="host:1:x",
    created_at=DUE,
    claimed_at=None,
    finished_at=None,
    error=None,
)


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def _counter(*, by_schedule: bool = False) -> tuple[Tally, RunCounter, Facts]:
    tally, facts = Tally(METRICS), Facts()
    counter = RunCounter(tally, by_schedule=by_schedule)
    for kind, handler in counter.handlers.items():
        facts.on(kind.name, handler, at_once=True)
    return tally, counter, facts


@pytest.mark.usefixtures("often")
def test_every_fact_is_counted_once_whichever_threads_count_meanwhile() -> None:
    tally, counter, facts = _counter()
    over = threading.Event()

    def scrape() -> None:
        while not over.is_set():
            counter.count(CLOCK)

    scrapers = [threading.Thread(target=scrape) for _ in range(2)]
    for scraper in scrapers:
        scraper.start()
    for number in range(5_000):
        facts.tell(RunSucceeded(*ABOUT, took=0.5))
        if number % 50 == 0:
            counter.count(CLOCK)  # as the loop does
    over.set()
    for scraper in scrapers:
        scraper.join(60)
    counter.count(CLOCK)
    assert tally.numbers(c.RUNS) == {("succeeded", "sweep"): 5_000}
    duration = tally.histogram(c.RUN_DURATION)
    assert (sum(duration.counts), duration.total) == (5_000, 2_500.0)


def test_attempts_that_failed_count_with_their_time_and_by_schedule() -> None:
    tally, counter, facts = _counter(by_schedule=True)
    facts.tell(RunFailed(*ABOUT, took=3.0, error="no such customer"))
    facts.tell(RunFailed(*ABOUT, error="not begun: its arguments are no JSON"))
    facts.tell(RunRefused(*ABOUT, took=0.002))
    assert tally.numbers(c.RUNS) == {}  # nobody has counted yet
    counter.count(CLOCK)
    assert tally.numbers(c.RUNS) == {("failed", "sweep"): 2, ("refused", "sweep"): 1}
    assert tally.numbers(c.SCHEDULE_RUNS) == {("failed", "nightly"): 2, ("refused", "nightly"): 1}
    assert tally.numbers(c.SCHEDULE_SUCCESS) == {}
    duration = tally.histogram(c.RUN_DURATION)
    assert (sum(duration.counts), duration.total) == (2, 3.002)
    assert counter.succeeded == {}


def test_runs_are_as_late_as_they_were_claimed() -> None:
    tally, counter, _ = _counter()
    claimed = [DUE + timedelta(seconds=seconds) for seconds in (0.5, 2.0, -1.0)]
    runs = [replace(CLAIMED, claimed_at=moment) for moment in claimed]
    runs.append(replace(CLAIMED, claimed_at=claimed[1], unreadable="due: 'soon'"))
    counter.claimed(ClaimBatch(DUE, runs, None))
    lateness = tally.histogram(c.RUN_LATENESS)
    assert (sum(lateness.counts), lateness.total) == (3, 2.5)


def test_facts_are_counted_although_nobody_scrapes() -> None:
    """Or they would fill the memory, and a task's last success would be the time of the scrape."""
    scheduler = Scheduler("memory://", health=ANYWHERE)
    scheduler.task(every(seconds=0.05), name="sweep")(lambda: None)
    metrics = metrics_of(scheduler._runtime.observers)
    counter, tally = metrics._hearing.runs, metrics._tally

    def waiting() -> list[Sequence[Fact]]:
        return list(counter._ended.values())

    with scheduler:
        until(lambda: tally.numbers(c.RUNS).get(("succeeded", "sweep"), 0) > 5, "runs")
        until(lambda: not any(waiting()), "all to be counted")
    assert not any(waiting())  # those of the stop, too
