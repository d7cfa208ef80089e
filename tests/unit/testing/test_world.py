"""A user's scheduler in virtual time: what ran, when, and what came of it."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tenure import (
    AsyncScheduler,
    ConfigError,
    Fact,
    Fenced,
    ResultNotKept,
    Retry,
    Run,
    Scheduler,
    Tasks,
    at,
    cron,
    every,
)
from tenure.model import RunState
from tenure.testing import testing

BERLIN = ZoneInfo("Europe/Berlin")


def make() -> Scheduler:
    """As an application has it; nothing must be opened at that address."""
    return Scheduler("postgresql://nobody@127.0.0.1:1/nowhere")


def test_what_comes_due_is_executed_the_last_instant_included() -> None:
    scheduler, seen = make(), list[str]()

    @scheduler.task(every(hours=2))
    def sweep(run: Run) -> None:
        seen.append(f"{run.nominal:%H:%M:%S.%f}")

    with testing(scheduler) as world:
        assert world.now == datetime(2026, 1, 1, tzinfo=UTC)
        world.advance(hours=6)
        assert world.ran("sweep") == world.ran(sweep) == 3
        assert world.now == datetime(2026, 1, 1, 6, tzinfo=UTC)
        assert [run.nominal.hour for run in world.runs("sweep")] == [2, 4, 6]
        assert [run.claimed_at for run in world.runs()] == [run.nominal for run in world.runs()]
    assert seen == ["02:00:00.000000", "04:00:00.000000", "06:00:00.000000"]


def test_nothing_is_touched_at_its_url_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "never.db"
    scheduler = Scheduler(f"sqlite:///{path}")
    scheduler.task(every(hours=1), name="tick")(lambda: None)
    for _ in range(2):  # and each world begins as the first
        with testing(scheduler) as world:
            assert scheduler.running
            world.advance(hours=1)
            assert world.ran("tick") == 1
    assert not path.exists()
    assert not scheduler.running
    scheduler.add("later", every(hours=1), task="tick")  # now it is its own store again
    assert path.exists()
    scheduler.stop()


def test_a_year_is_short() -> None:
    scheduler = make()
    scheduler.task(cron("0 4 1 * *", tz="Europe/Berlin"), name="monthly")(lambda: None)
    begun = time.process_time()  # whatever else the machine does
    with testing(scheduler) as world:
        world.advance(days=365)
        assert world.ran("monthly") == 12
    assert time.process_time() - begun < 5


def test_runs_that_retention_removed_are_still_counted() -> None:
    scheduler = make()
    scheduler.task(every(hours=1), name="hourly")(lambda: None)
    with testing(scheduler) as world:
        world.advance(days=40)
        assert world.ran("hourly") == 40 * 24
        assert len(scheduler.runs(limit=1_000)) < 40 * 24


def test_both_nights_of_daylight_saving() -> None:
    scheduler, seen = make(), list[str]()

    @scheduler.task(cron("30 2 * * *", tz="Europe/Berlin"))
    def nightly(run: Run) -> None:
        seen.append(f"{run.nominal.astimezone(BERLIN):%d %H:%M %Z}")

    with testing(scheduler, start=datetime(2026, 3, 28, tzinfo=BERLIN)) as world:
        world.advance_to(datetime(2026, 3, 31, tzinfo=BERLIN))
    assert seen == ["28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"]
    seen.clear()
    with testing(scheduler, start=datetime(2026, 10, 24, 12, tzinfo=BERLIN)) as world:
        world.advance_to(datetime(2026, 10, 26, 12, tzinfo=BERLIN))
    assert seen == ["25 02:30 CEST", "26 02:30 CET"]


def test_coroutines_wait_in_virtual_time_and_timeouts_come() -> None:
    scheduler, told = make(), list[str]()

    @scheduler.task(every(hours=1))
    async def slow(run: Run) -> None:
        await asyncio.sleep(20 * 60)
        told.append(await asyncio.to_thread(lambda: "from a thread"))

    @scheduler.task(every(hours=1), timeout=60)
    async def too_slow() -> None:
        await asyncio.sleep(3_600)

    begun = time.monotonic()
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert [run.state for run in world.runs(slow)] == [RunState.CLAIMED]
        world.advance(minutes=20)
        assert world.ran(slow) == 1
        assert told == ["from a thread"]
        (failed,) = world.failures
        assert failed.task == "too_slow"
        assert isinstance(failed.error, TimeoutError)
        (run,) = world.runs(too_slow)
        assert run.finished_at == run.nominal + timedelta(seconds=60)
    assert time.monotonic() - begun < 60


def test_what_a_task_raises_is_there_with_every_attempt() -> None:
    scheduler, attempts = make(), list[datetime]()

    @scheduler.task(every(hours=1), retries=2)
    def fails() -> None:
        attempts.append(world.now)
        raise LookupError(f"number {len(attempts)}")

    @scheduler.task(every(hours=1))
    def asks_again(run: Run) -> None:
        if run.attempt == 1:
            raise Retry("not yet", delay=120)

    with testing(scheduler) as world:
        world.advance(hours=1)
        assert [str(failure.error) for failure in world.failures] == ["number 1"]
        assert "number 1" in repr(world)
        world.advance(minutes=5)
        assert [str(failure.error) for failure in world.failures][1:] == ["number 2", "number 3"]
        assert [type(failure.error) for failure in world.failures] == [LookupError] * 3
        assert world.ran("fails") == 0
        assert world.ran("asks_again") == 1
        (run,) = world.runs("fails")
        assert (run.state, run.attempt) == (RunState.FAILED, 3)
        hour = datetime(2026, 1, 1, 1, tzinfo=UTC)
        assert attempts == [hour + timedelta(seconds=s) for s in (0, 1, 3)]


def test_edits_of_the_test_and_of_tasks() -> None:
    scheduler = make()

    @scheduler.task
    def invoice(customer: str) -> None:
        if world.ran("acme") == 0:
            scheduler.add("tip", at(world.now + timedelta(hours=3)), task="tip")

    @scheduler.task
    def tip() -> None:
        pass

    with testing(scheduler) as world:
        scheduler.add("acme", every(days=1), task=invoice, kwargs={"customer": "acme"})
        scheduler.run_now("acme")
        assert world.ran("acme") == 0
        assert world.run_due() == 1
        assert world.run_due() == 0
        assert world.ran("acme") == world.ran(invoice) == 1
        world.advance(hours=4)
        assert world.ran("tip") == 1
        assert [run.nominal.hour for run in world.runs("tip")] == [3]
        scheduler.pause("acme")
        world.advance(days=3)
        assert world.ran("acme") == 1
        scheduler.resume("acme")
        world.advance(days=1)
        assert world.ran("acme") == 2
        assert scheduler.get("acme").active
        scheduler.remove("acme")
        world.advance(days=2)
        assert world.ran("acme") == 2  # what happened stays on record


def test_a_change_in_the_users_transaction_is_made_at_once() -> None:
    scheduler = make()
    scheduler.task(name="job")(lambda: None)
    with testing(scheduler) as world:
        scheduler.add("j", every(hours=1), task="job", connection=object())
        world.advance(hours=1)
        assert world.ran("j") == 1


def test_result_of_a_completed_run_whose_node_died() -> None:
    scheduler = make()

    @scheduler.task
    def bill(run: Run) -> int:
        run.complete(object())
        return 7

    with testing(scheduler, nodes=2) as world:
        world.kill_during("bill")
        run = scheduler.enqueue(bill)
        world.advance(minutes=2)
        assert scheduler.get_run(run).state == "succeeded"
        with pytest.raises(ResultNotKept, match="ended before it could tell"):
            scheduler.result(run)
        again = scheduler.enqueue(bill)
        world.run_due()
        assert scheduler.result(again) == 7


def test_runs_that_are_completed_in_the_users_transaction() -> None:
    scheduler, attempts = make(), list[int]()

    @scheduler.task(every(hours=1))
    def book(run: Run) -> None:
        attempts.append(run.attempt)
        run.fence(object())
        run.complete(object())
        with pytest.raises(Fenced):
            run.fence(object())

    with testing(scheduler, nodes=2) as world:
        world.kill_during("book")  # it is on record all the same, so nobody repeats it
        world.advance(hours=1, minutes=5)
        assert not world.failures
        assert world.ran("book") == len(attempts) == 1


def test_runs_that_are_enqueued_and_what_they_return() -> None:
    scheduler = make()

    @scheduler.task
    def double(number: int) -> int:
        return 2 * number

    @scheduler.task
    async def slow(run: Run) -> None:
        await asyncio.sleep(3_600)

    with testing(scheduler) as world:
        now = scheduler.enqueue(double, kwargs={"number": 21})
        later = scheduler.enqueue(double, kwargs={"number": 4}, delay=3_600)
        with pytest.raises(ConfigError, match=r"call world\.run_due\(\)"):
            scheduler.result(now)
        assert world.run_due() == 1
        assert scheduler.result(now) == 42
        world.advance(hours=1)
        assert scheduler.result(later) == 8
        assert world.ran(double) == 2
        waits = scheduler.enqueue(slow)
        world.advance(minutes=1)
        scheduler.cancel(waits.id)
        world.advance(minutes=1)
        assert [run.state for run in world.runs(slow)] == [RunState.CANCELLED]
        assert not world.failures


def test_overlap_skips_as_in_production() -> None:
    scheduler = make()

    @scheduler.task(every(minutes=1))
    async def slow() -> None:
        await asyncio.sleep(90)

    with testing(scheduler) as world:
        world.advance(minutes=6, seconds=45)
        assert world.ran("slow") == 3
        states = [(o.state, o.nominal.minute) for o in reversed(scheduler.occurrences("slow"))]
        assert [m for s, m in states if s == "fired"] == [1, 3, 5]
        assert [m for s, m in states if s == "skipped"] == [2, 4, 6]


def test_listeners_and_the_wrapper_are_those_of_the_scheduler() -> None:
    scheduler, facts, wrapped = make(), list[str](), list[str]()
    tasks = Tasks()

    @tasks.task(every(hours=1))
    def job() -> None:
        scheduler.pause("job")

    def around(call: object, run: Run) -> object:
        wrapped.append(run.task)
        return call() if callable(call) else None

    def listen(fact: Fact) -> None:
        facts.append(fact.name)
        scheduler.get("job")  # a listener may ask, too

    scheduler.include(tasks)
    scheduler.on("run.*", listen)
    scheduler.around(around)
    with testing(scheduler) as world:
        later: list[str] = []
        scheduler.on("run.succeeded", lambda fact: later.append(fact.name))
        world.advance(hours=5)
        assert world.ran("job") == 1
    assert facts == ["run.started", "run.succeeded"]
    assert wrapped == ["job"]
    assert later == ["run.succeeded"]


@pytest.mark.parametrize("role", [{"concurrency": 0}, {"leads": False}, {"queues": ["mail"]}])
def test_a_process_that_does_only_a_part_has_others_for_the_rest(role: dict[str, Any]) -> None:
    scheduler = Scheduler("sqlite:///never.db", **role)
    scheduler.task(every(hours=1), name="job")(lambda: None)
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert world.ran("job") == 1


def test_a_healthy_world_says_nothing_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make()
    scheduler.task(every(hours=6), name="sweep")(lambda: None)
    caplog.set_level(logging.DEBUG, "tenure")
    with testing(scheduler, nodes=3) as world:
        world.advance(days=3)
        assert world.ran("sweep") == 12
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_the_same_world_twice_is_the_same() -> None:
    def story() -> list[str]:
        scheduler = make()
        for number in range(30):
            scheduler.task(every(minutes=7 + number % 3), name=f"t{number}")(lambda: None)
        with testing(scheduler, nodes=3) as world:
            world.advance(minutes=30)
            return [f"{run.id} {run.task} {run.node} {run.claimed_at}" for run in world.runs()]

    first = story()
    assert len(first) == 100
    assert story() == first


def test_plain_functions_may_use_asyncio_of_their_own() -> None:
    scheduler, seen = make(), list[int]()

    @scheduler.task(every(hours=1))
    def plain() -> None:
        async def inner() -> int:
            await asyncio.sleep(0)
            return 7

        seen.append(asyncio.run(inner()))

    with testing(scheduler) as world:
        world.advance(hours=1)
        assert not world.failures
    assert seen == [7]


async def test_async_with_an_async_scheduler() -> None:
    scheduler = AsyncScheduler("sqlite:///never.db")
    seen: list[str] = []

    @scheduler.task(every(hours=1))
    async def hourly(run: Run) -> None:
        await asyncio.sleep(60)
        if run.nominal.hour == 2:
            await scheduler.pause("hourly")
        seen.append(run.task)

    @scheduler.task
    def plain() -> None:
        seen.append("plain")

    task = asyncio.current_task()
    async with testing(scheduler) as world:
        world.advance(hours=5)
        assert world.ran("hourly") == 2
        await scheduler.add("p", every(minutes=1), task=plain)
        await scheduler.add_many([{"name": "q", "trigger": every(hours=1), "task": "plain"}])
        assert (await scheduler.run_now("q")) is not None
        world.run_due()
        world.advance(minutes=1)
        await asyncio.sleep(0)  # the test's own loop goes on as it did
        assert asyncio.current_task() is task
        assert len(await scheduler.runs()) == 4
    assert seen == ["hourly", "hourly", "plain", "plain"]
    assert not scheduler.running
