"""`carry_over` and `tenure import apscheduler`: each job a schedule, or a reason why not."""

from __future__ import annotations

import hashlib
import json
import pickle
import runpy
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from click.testing import CliRunner

from tenure import AsyncScheduler, Scheduler, every
from tenure.cli import main
from tenure.contrib.apscheduler import Carried, carry_over
from tenure.contrib.apscheduler.translation import translated
from tenure.errors import ConfigError, InvalidTrigger
from tenure.model import CatchUp, Overlap
from tenure.testing import testing

LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)


def send(to: str, copies: int = 1) -> None: ...


def sweep() -> None: ...


def made() -> Scheduler:
    scheduler = Scheduler("memory://")
    scheduler.task(send)
    scheduler.task(sweep)
    return scheduler


def over(jobs: Any) -> dict[str, Carried]:
    return {one.id: one for one in carry_over(jobs, made(), dry_run=True)}


def test_jobs_become_schedules_with_the_same_times() -> None:
    jobs = BackgroundScheduler(timezone="Europe/Berlin")
    jobs.add_job(send, "interval", hours=6, args=["a"], kwargs={"copies": 2}, id="interval")
    tuesdays = CronTrigger.from_crontab("0 9 * * 1", timezone="Europe/Berlin")
    jobs.add_job(sweep, tuesdays, id="cron", misfire_grace_time=None, coalesce=False)
    jobs.add_job(sweep, "date", run_date=LATER, id="once", max_instances=3)
    jobs.add_job(sweep, "cron", hour="*/3", second=30, id="paused", next_run_time=None)
    scheduler = made()
    with testing(scheduler):
        found = {one.id: one for one in carry_over(jobs, scheduler)}
        assert [one.reason for one in found.values()] == [None] * 4
        interval, cron, once, paused = map(scheduler.get, ("interval", "cron", "once", "paused"))
    assert interval.kwargs == {"to": "a", "copies": 2}
    assert (interval.spec.catch_up, interval.spec.catch_up_grace) == (CatchUp.NONE, 16)
    assert str(cron.trigger) == "cron 0 9 * * 1 dialect=apscheduler (Europe/Berlin)"
    assert (cron.spec.catch_up, cron.spec.overlap) == (CatchUp.ALL, Overlap.SKIP)
    assert (once.next_nominal, once.spec.overlap) == (LATER, Overlap.ALLOW)
    assert (paused.active, paused.reason) == (False, "paused: it was paused in APScheduler")
    assert found["once"].notes[0] == "max_instances=3: give its task max_running"


def test_the_jobs_of_an_extension_that_has_one() -> None:
    class Extension:  # as Flask-APScheduler is
        scheduler = BackgroundScheduler(timezone="UTC")

    Extension.scheduler.add_job(sweep, "interval", hours=1, id="hourly")
    assert over(Extension())["hourly"].entry is not None


def test_what_cannot_be_carried_over_is_named_with_the_reason() -> None:
    jobs = BackgroundScheduler(timezone="UTC")
    jobs.add_job(lambda: None, "interval", hours=1, id="lambda")
    jobs.add_job(send, "interval", hours=1, args=[object()], id="object")
    jobs.add_job(print, "interval", hours=1, id="undeclared")
    jobs.add_job(sweep, OrTrigger([IntervalTrigger(hours=1)]), id="or")
    jobs.add_job(sweep, "cron", week="*/2", id="week")
    jobs.add_job(sweep, "cron", day="3rd fri", id="third")
    jobs.add_job(sweep, "date", run_date="2020-01-01", id="past")
    reasons = {name: str(one.reason) for name, one in over(jobs).items()}
    assert "a lambda, or inside of another" in reasons["lambda"]
    assert "object" in reasons["object"]
    assert "builtins:print is not declared" in reasons["undeclared"]
    assert "its trigger is a OrTrigger" in reasons["or"]
    assert "week='*/2'" in reasons["week"]
    assert "such as FRI#3" in reasons["third"]
    assert "its time has passed: 2020-01-01" in reasons["past"]


def test_a_time_that_the_clocks_skip_is_a_note() -> None:
    jobs = BackgroundScheduler(timezone="Europe/Berlin")
    jobs.add_job(sweep, CronTrigger.from_crontab("30 2 * 3 sun", "Europe/Berlin"), id="night")
    (night,) = over(jobs).values()
    assert night.entry is not None
    assert any("the clocks skip one of its times" in note for note in night.notes)


def test_what_apscheduler_passes_over_is_a_note() -> None:
    midnight = CronTrigger.from_crontab("0 0 * * *", "Europe/Berlin")
    made, notes = translated(midnight, datetime(2026, 3, 20, tzinfo=UTC))
    missed = datetime(2026, 3, 29, 22, tzinfo=UTC)
    assert notes == [f"APScheduler passes over {missed:%F %T} UTC, where the clocks went forward"]
    assert made.next(missed - timedelta(hours=1)) == missed


def test_times_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    hourly = IntervalTrigger(hours=1, start_date=LATER)
    wrong = every(hours=2, start=LATER)
    monkeypatch.setattr("tenure.contrib.apscheduler.translation._made", lambda trigger: wrong)
    with pytest.raises(InvalidTrigger, match="its times differ: every 2 hours"):
        translated(hourly, datetime.now(UTC))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A job store with two jobs, and a row that cannot be read."""
    path = tmp_path / "jobs.sqlite"
    jobs = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(f"sqlite:///{path}")}, timezone="UTC"
    )
    jobs.add_job(send, "interval", hours=6, args=["a"], id="interval")
    jobs.add_job(sweep, "cron", hour=7, id="cron")
    jobs.start(paused=True)
    jobs.shutdown()
    jobs._jobstores["default"].engine.dispose()
    with closing(sqlite3.connect(path)) as connection, connection:
        gone = pickle.dumps({"func": "gone:away"})
        connection.execute("INSERT INTO apscheduler_jobs VALUES ('gone', 1, ?)", (gone,))
    return path


def test_the_job_store_stays_as_it_was(stored: Path) -> None:
    before = hashlib.sha256(stored.read_bytes()).hexdigest()
    store = SQLAlchemyJobStore(f"sqlite:///{stored}")
    found = over(BackgroundScheduler(jobstores={"default": store}, timezone="UTC"))
    store.engine.dispose()
    assert sorted(found) == ["cron", "gone", "interval"]
    assert found["cron"].entry is not None
    assert found["interval"].entry is not None
    assert "its row cannot be read: KeyError" in str(found["gone"].reason)
    assert hashlib.sha256(stored.read_bytes()).hexdigest() == before
    assert [path.name for path in stored.parent.iterdir()] == [stored.name]


def test_the_command_writes_lines_and_tasks(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "app_with_jobs.py").write_text(
        "from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore\n"
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        f"store = SQLAlchemyJobStore({f'sqlite:///{stored}'!r})\n"
        "jobs = BackgroundScheduler(jobstores={'default': store}, timezone='UTC')\n"
    )
    command = ["import", "apscheduler", "app_with_jobs:jobs"]
    dry = CliRunner().invoke(main, [*command, "--dry-run"])
    assert dry.exit_code == 1
    assert "left out: gone: its row cannot be read" in dry.stderr
    files = ["--write", "schedules.jsonl", "--stub", "job_tasks.py"]
    CliRunner().invoke(main, [*command, *files])
    lines = (tmp_path / "schedules.jsonl").read_text().splitlines()
    names = {(line["name"], line["task"]) for line in map(json.loads, lines)}
    assert names == {("interval", "send"), ("cron", "sweep")}
    tasks = runpy.run_path(str(tmp_path / "job_tasks.py"))["tasks"]
    assert sorted(task.name for task in tasks) == ["send", "sweep"]


def test_what_is_not_one_or_is_running_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a scheduler of APScheduler 3"):
        carry_over(object(), made())
    with pytest.raises(ConfigError, match=r"of an AsyncScheduler its \.blocking"):
        carry_over(BackgroundScheduler(), AsyncScheduler("memory://"))  # type: ignore[arg-type]
    missing = SQLAlchemyJobStore(f"sqlite:///{tmp_path / 'missing.db'}")
    with pytest.raises(ConfigError, match="does not exist"):
        carry_over(BackgroundScheduler(jobstores={"default": missing}), made())
    assert not list(tmp_path.iterdir())
    running = BackgroundScheduler()
    running.start(paused=True)
    try:
        with pytest.raises(ConfigError, match="is running"):
            carry_over(running, made())
    finally:
        running.shutdown()
