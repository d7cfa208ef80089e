"""Triggers in a scheduler: its zone as the default, and its answers about stored schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import (
    AsyncScheduler,
    InvalidTrigger,
    NewSchedule,
    NotFound,
    Scheduler,
    Tasks,
    at,
    cron,
    every,
)
from tenure.triggers import Reason, Trigger, dump


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db", tz="Europe/Berlin")
    scheduler.task(work)
    yield scheduler
    scheduler.stop()


def work() -> None: ...


def zone_of(scheduler: Scheduler, name: str) -> str | None:
    zone: str | None = json.loads(scheduler.get(name).spec.trigger).get("tz")
    return zone


@pytest.mark.parametrize(
    ("trigger", "zone"),
    [
        (cron("0 7 * * *"), "Europe/Berlin"),
        (cron("0 7 * * *", tz="Asia/Kolkata"), "Asia/Kolkata"),
        (every(days=1), "Europe/Berlin"),
        (every(months=1, tz="UTC"), "UTC"),
        (every(minutes=5), None),  # a length of time has no use for a zone
        (every(minutes=5, except_dates=["2030-01-01"]), "Europe/Berlin"),
        (at("2030-01-01T07:00"), "Europe/Berlin"),
        (at("2030-01-01T07:00Z"), None),
    ],
)
def test_schedulers_zone_is_for_local_times_that_name_none(
    scheduler: Scheduler, trigger: Trigger, zone: str | None
) -> None:
    scheduler.add("added", trigger, task=work)
    assert zone_of(scheduler, "added") == zone
    scheduler.update("added", trigger=every(seconds=1))
    scheduler.update("added", trigger=trigger)
    assert zone_of(scheduler, "added") == zone


def test_trigger_may_be_text_wherever_one_is_taken(scheduler: Scheduler) -> None:
    declared = Tasks()
    declared.task("every 5m", name="decorated")(work)
    declared.declare(work, trigger="@daily", name="declared")
    made: list[Trigger | None] = [every(minutes=5), cron("@daily")]
    assert [task.trigger for task in declared] == made
    daily = scheduler.add("added", "0 7 * * *", task=work).spec.trigger
    assert daily == dump(cron("0 7 * * *", tz="Europe/Berlin"))
    scheduler.add_many(
        [
            NewSchedule("new", "0 7 * * *", task=work),
            {"name": "dict", "trigger": "0 7 * * *", "task": work},
        ]
    )
    assert {s.spec.trigger for s in scheduler.schedules()} == {daily}
    changed = scheduler.update("new", trigger="0 8 * * *")
    assert changed.spec.trigger == dump(cron("0 8 * * *", tz="Europe/Berlin"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("daily", "'daily' is not a trigger"), ("0 25 * * *", "the hour is wrong")],
)
def test_wrong_text_is_refused_before_anything_is_stored(
    scheduler: Scheduler, text: str, said: str
) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        scheduler.task(text)(work)
    with pytest.raises(InvalidTrigger, match=said):
        scheduler.add("added", text, task=work)
    scheduler.add("mine", "@daily", task=work)
    with pytest.raises(InvalidTrigger, match=said):
        scheduler.update("mine", trigger=text)
    assert [(s.name, s.version) for s in scheduler.schedules()] == [("mine", 1)]


def test_schedulers_zone_is_for_the_triggers_of_the_code(scheduler: Scheduler) -> None:
    tasks, elsewhere = Tasks(), Tasks(tz="Asia/Kolkata")
    tasks.task(cron("0 7 * * *"), name="here")(work)
    elsewhere.task(cron("0 7 * * *"), name="elsewhere")(work)
    scheduler.include(tasks)
    scheduler.include(elsewhere)
    scheduler.start()
    assert zone_of(scheduler, "here") == "Europe/Berlin"
    assert zone_of(scheduler, "elsewhere") == "Asia/Kolkata"


def test_local_start_is_in_the_schedulers_zone(scheduler: Scheduler) -> None:
    scheduler.add("daily", every(days=1, start="2030-07-01T07:30"), task=work)
    assert scheduler.get("daily").next_nominal == datetime(2030, 7, 1, 5, 30, tzinfo=UTC)
    scheduler.add("cron", cron("30 7 * * *", start="2030-07-01T07:30"), task=work)
    assert scheduler.get("cron").next_nominal == datetime(2030, 7, 1, 5, 30, tzinfo=UTC)


def test_unknown_zone_is_refused_at_once() -> None:
    with pytest.raises(InvalidTrigger, match="did you mean 'Europe/Berlin'"):
        Scheduler("memory://", tz="Europe/Berlln")


def test_preview_begins_with_what_is_planned(scheduler: Scheduler) -> None:
    scheduler.add("digest", cron("30 2 * * *", start="2030-03-30", jitter=60), task=work)
    schedule = scheduler.get("digest")
    first, second = scheduler.preview("digest", 2)
    assert first.moment == schedule.next_nominal
    assert first.due is not None
    assert timedelta(0) <= first.due - first.moment <= timedelta(seconds=60)
    assert second.reason is Reason.GAP
    assert second.moment == datetime(2030, 3, 31, 1, tzinfo=UTC)
    scheduler.pause("digest")
    assert len(scheduler.preview("digest")) == 5


def test_explain_takes_local_times(scheduler: Scheduler) -> None:
    scheduler.add("digest", cron("30 2 * * *"), task=work)
    told = scheduler.explain("digest", "2030-03-31T02:30")
    assert (told.occurs, told.reason) == (True, Reason.GAP)
    assert told.moment == datetime(2030, 3, 31, 1, tzinfo=UTC)
    assert not scheduler.explain("digest", "2030-03-31T02:30Z").occurs


def test_unknown_schedule_is_not_found(scheduler: Scheduler) -> None:
    scheduler.start()
    with pytest.raises(NotFound):
        scheduler.preview("nobody")
    with pytest.raises(NotFound):
        scheduler.explain("nobody", "2030-01-01")


async def test_async_scheduler_answers_too(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/tenure.db", tz="Europe/Berlin")
    scheduler.task(work)
    await scheduler.add("daily", cron("0 7 * * *"), task=work)
    assert len(await scheduler.preview("daily", 3)) == 3
    assert (await scheduler.explain("daily", "2030-01-01T07:00")).occurs
    await scheduler.stop()
