"""`tenure schedules backfill`, and `Scheduler.backfill`, on a stretch of the past."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import BeyondHistory, InvalidSchedule, NotFound, Run, Scheduler, cron
from tenure.backends.sqlite import SQLiteBackend
from tests.e2e.command import at_hand, tenure, until

RULE = "cron 0 6 * * * (Europe/Berlin)"
WEEK = ("--from", "2026-03-01", "--to", "2026-03-07")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db")
    scheduler.task(_report)
    scheduler.add("report", cron("0 6 * * *", tz="Europe/Berlin"), task=_report)
    scheduler.stop()
    return tmp_path


def _report(run: Run) -> None:
    _done.append(run.nominal)


_done: list[datetime] = []


def test_dry_run_says_what_would_be_run_and_changes_nothing(folder: Path) -> None:
    answer = tenure(folder, "schedules", "backfill", "report", *WEEK, "--dry-run")
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert lines[0] == f"7 occurrences of report would be run, times of {RULE}:"
    assert lines[1] == "  2026-03-01T05:00:00.000000Z"
    assert len(lines) == 8
    assert json.loads(at_hand(folder, "runs", "list", "--json").out) == []


def test_each_is_run_once_in_order_however_often_it_is_asked_for(folder: Path) -> None:
    first = at_hand(folder, "schedules", "backfill", "report", *WEEK, "--json")
    assert len(json.loads(first.out)["nominal"]) == 7
    again = at_hand(folder, "schedules", "backfill", "report", *WEEK)
    assert again.out == f"Nothing to do: between these two, all times of {RULE} were fired.\n"
    _done.clear()
    scheduler = Scheduler(f"sqlite:///{folder}/tenure.db")
    scheduler.task(_report)
    with scheduler:
        until(lambda: len(_done) == 7, "all are done")
    begin = datetime(2026, 3, 1, 5, tzinfo=UTC)
    assert _done == [begin + timedelta(days=day) for day in range(7)]


def test_stretch_that_is_too_long_is_refused_as_a_whole(folder: Path) -> None:
    answer = at_hand(folder, "schedules", "backfill", "report", *WEEK, "--limit", 6)
    assert answer.code == 1, answer
    assert "more than limit=6 occurrences" in answer.err
    assert json.loads(at_hand(folder, "runs", "list", "--json").out) == []


def test_times_are_those_of_the_trigger_as_it_is_now(folder: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{folder}/tenure.db")
    begin = datetime(2026, 3, 1, 5, tzinfo=UTC)
    days = begin, begin + timedelta(days=1)  # long before the schedule existed
    try:
        assert scheduler.backfill("report", *days) == list(days)
        scheduler.update("report", trigger=cron("30 6 * * *", tz="Europe/Berlin"))
        assert scheduler.backfill("report", *days) == [begin + timedelta(minutes=30)]
        assert scheduler.backfill("report", *days) == []
    finally:
        scheduler.stop()


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("report", "--from", "2026-03-07", "--to", "2026-03-01"), 2, "is before start"),
        (("report", "--from", "March", "--to", "2026-03-01"), 2, "--from"),
        (("never", *WEEK), 1, "no schedule named 'never'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, given: tuple[str, ...], code: int, said: str
) -> None:
    answer = at_hand(folder, "schedules", "backfill", *given)
    assert answer.code == code, answer
    assert said in answer.err


def test_the_future_is_left_to_the_plan(folder: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{folder}/tenure.db")
    try:
        now = datetime.now(UTC)
        chosen = scheduler.backfill("report", now - timedelta(days=2), now + timedelta(days=9))
        assert all(nominal <= now for nominal in chosen)
        assert 1 <= len(chosen) <= 2
        with pytest.raises(NotFound):
            scheduler.backfill("never", now - timedelta(days=2), now)
        with pytest.raises(InvalidSchedule, match="time zone"):
            scheduler.backfill("report", datetime(2026, 1, 1), now)  # noqa: DTZ001
    finally:
        scheduler.stop()


def test_what_may_have_been_run_and_pruned_is_run_again_only_on_demand(folder: Path) -> None:
    assert at_hand(folder, "schedules", "backfill", "report", *WEEK).code == 0
    scheduler = Scheduler(f"sqlite:///{folder}/tenure.db")
    scheduler.task(_report)
    with scheduler:
        until(lambda: len(scheduler.runs(state="succeeded")) == 7, "all are done")
    asyncio.run(_prune(folder / "tenure.db"))
    refused = at_hand(folder, "schedules", "backfill", "report", *WEEK, "--dry-run")
    assert refused.code == 1, refused
    assert "history reaches back to 20" in refused.err
    assert "7 of these times, from 2026-03-01T05:00:00+00:00" in refused.err
    assert "--beyond-history" in refused.err
    reaches = refused.err.partition("reaches back to ")[2].partition(". ")[0]
    covered = ("--from", reaches, "--to", "2027-01-01")
    assert at_hand(folder, "schedules", "backfill", "report", *covered, "--dry-run").code == 0
    with pytest.raises(BeyondHistory) as error:
        scheduler.backfill("report", *(datetime(2026, 3, day, tzinfo=UTC) for day in (1, 7)))
    assert error.value.since > datetime(2026, 3, 7, tzinfo=UTC)
    scheduler.stop()
    insisted = at_hand(folder, "schedules", "backfill", "report", *WEEK, "--beyond-history")
    assert insisted.code == 0, insisted
    assert "7 occurrences of report will be run" in insisted.out


async def _prune(path: Path) -> None:
    backend = SQLiteBackend(path)
    await backend.open()
    assert (await backend.runs.prune(None, 0.0, 100)).count == 14
    await backend.close()
