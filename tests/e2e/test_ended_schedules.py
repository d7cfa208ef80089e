"""Schedules that have fired for the last time leave the listings, and do not come back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import Leases, Scheduler, Settings, at
from tests.e2e.command import at_hand, until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow
QUICK = Settings(retention=0.5, jump_hold=0.5, reap_every=0.1)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database("ended")


def test_at_that_has_fired_leaves_the_listings_and_is_not_fired_again(
    url: str, tmp_path: Path
) -> None:
    with Leases(url) as leases:
        leases.acquire("made")  # the tables, which take a while
    soon, done = datetime.now(UTC) + timedelta(seconds=3), list[str]()

    def started() -> Scheduler:
        scheduler = Scheduler(url, settings=QUICK)

        @scheduler.task(at(soon))
        def declared() -> None:
            done.append("declared")

        @scheduler.task
        def added() -> None:
            done.append("added")

        scheduler.start()
        return scheduler

    scheduler = started()
    try:
        scheduler.add("added", at(soon), task="added")
        listed = [schedule.name for schedule in scheduler.schedules()]
        assert listed == ["added", "declared"]
        until(lambda: len(done) == 2, "both have fired")
        until(lambda: not scheduler.schedules(), "the listing is empty")
        assert [schedule.name for schedule in scheduler.schedules(ended=True)] == ["declared"]
        assert scheduler.get("declared").active
        assert scheduler.runs() == []
    finally:
        scheduler.stop()
    shown = at_hand(tmp_path, "schedules", "list", "--url", url)
    assert "No schedules" in shown.out
    shown = at_hand(tmp_path, "schedules", "list", "--ended", "--url", url)
    assert "declared" in shown.out
    assert "ended" in shown.out

    scheduler = started()
    try:
        until(lambda: scheduler.is_leader, "a leader")
        scheduler.enqueue("added")
        until(lambda: len(done) > 2, "that it works")
        assert scheduler.schedules() == []
    finally:
        scheduler.stop()
    assert done.count("declared") == 1
