"""`tenure import redbeat` and `django-celery-beat`: lines for `schedules add`, and reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenure.cli import main
from tests.support.servers import ValkeyServer

CRONTAB = {
    "__type__": "crontab",
    "minute": "0",
    "hour": [9, 17],
    "day_of_week": "fri-mon",
    "day_of_month": "*",
    "month_of_year": "*",
}
INTERVAL = {"__type__": "interval", "every": 30.0, "relative": False}


def entry(name: str, schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As RedBeat keeps it."""
    usual = {"task": "proj.report", "args": [], "kwargs": {}, "options": {}, "enabled": True}
    return {**usual, "name": name, "schedule": schedule, **more}


ENTRIES = [
    entry("often", INTERVAL, kwargs={"day": 1}),
    entry("weekends", CRONTAB, options={"queue": "slow"}, enabled=False),
    entry("aligned", {"__type__": "interval", "every": 7200.0, "relative": True}),
    entry("by-place", INTERVAL, args=[1, 2]),
    entry("by-rule", {"__type__": "rrule", "freq": 3}),
    {"name": "half"},
]


def imported(*words: str) -> Result:
    return CliRunner().invoke(main, ["import", *words])


def schedules(result: Result) -> dict[str, dict[str, Any]]:
    return {told["name"]: told for told in map(json.loads, result.stdout.splitlines())}


@pytest.mark.slow
def test_the_entries_of_redbeat_become_paused_schedules() -> None:
    server = ValkeyServer()
    server.settings["enable-debug-command"] = "local"
    try:
        server.start()
        for told in ENTRIES:
            server.command("HSET", f"redbeat:{told['name']}", "definition", json.dumps(told))
        server.command("SET", "redbeat::lock", "somebody")
        server.command("ZADD", "redbeat::schedule", 1, "redbeat:often")
        server.command("HSET", "others:often", "definition", json.dumps(ENTRIES[0]))
        before = server.command("DEBUG", "DIGEST")
        result = imported("redbeat", server.url, "--tz", "Europe/Berlin")
        assert server.command("DEBUG", "DIGEST") == before
    finally:
        server.close()
    assert result.exit_code == 1
    found = schedules(result)
    assert found.keys() == {"often", "weekends", "aligned"}
    assert found["often"] == {
        "name": "often",
        "trigger": {"type": "every", "v": 1, "seconds": 30.0},
        "task": "proj.report",
        "kwargs": {"day": 1},
        "overlap": "allow",
        "paused": "imported, not reviewed yet",
    }
    assert found["weekends"]["trigger"] == {
        "type": "cron",
        "v": 2,
        "expression": "0 9,17 * * fri-mon",
        "dialect": "celery",
        "tz": "Europe/Berlin",
    }
    assert found["weekends"]["paused"] == "it was disabled"
    assert found["aligned"]["trigger"]["seconds"] == 7200
    assert "note: weekends: its option queue='slow' is left out" in result.stderr
    assert "left out: by-place: it has positional arguments, [1, 2]" in result.stderr
    assert "left out: redbeat:by-rule: it cannot be read" in result.stderr
    assert "left out: redbeat:half: it cannot be read: KeyError" in result.stderr


def test_a_redis_that_is_not_there_is_named_without_its_password() -> None:
    result = imported("redbeat", "redis://:secret@127.0.0.1:1/0")
    assert result.exit_code == 1
    assert "redis://127.0.0.1:1/0 cannot be read" in result.stderr
    assert "secret" not in result.output


def row(model: str, key: int, **fields: Any) -> dict[str, Any]:
    return {"model": f"django_celery_beat.{model}", "pk": key, "fields": fields}


def periodic(key: int, name: str, **fields: Any) -> dict[str, Any]:
    none = ("interval", "crontab", "solar", "clocked", "queue", "priority", "start_time")
    usual = {"task": "proj.report", "args": "[]", "kwargs": "{}", "enabled": True, "one_off": False}
    return row("periodictask", key, name=name, **{**dict.fromkeys(none), **usual, **fields})


DUMP = [
    row("intervalschedule", 1, every=2, period="hours"),
    row(
        "crontabschedule",
        1,
        minute="0",
        hour="7",
        day_of_month="1-7",
        month_of_year="*",
        day_of_week="1",
        timezone="Asia/Tokyo",
    ),
    row("clockedschedule", 1, clocked_time="2099-01-01T00:00:00Z"),
    row("solarschedule", 1, event="sunrise", latitude="52.5", longitude="13.4"),
    row("periodictasks", 1, last_update="2026-01-01T00:00:00Z"),
    periodic(1, "often", interval=1, kwargs='{"day": 1}', start_time="2020-01-01T00:00:00Z"),
    periodic(2, "mondays", crontab=1, enabled=False, queue="slow"),
    periodic(3, "then", clocked=1, one_off=True),
    periodic(4, "dawn", solar=1),
    periodic(5, "once", interval=1, one_off=True),
    periodic(6, "by-place", interval=1, args="[1]"),
    periodic(7, "later", interval=1, start_time="2099-01-01T00:00:00Z"),
    periodic(8, "celery.backend_cleanup", crontab=1, task="celery.backend_cleanup"),
    periodic(9, "gone", interval=9),
    {"model": "auth.user", "pk": 1, "fields": {}},
]


def test_periodic_tasks_of_django_become_paused_schedules(tmp_path: Path) -> None:
    dump, stub = tmp_path / "beat.json", tmp_path / "schedule.py"
    dump.write_text(json.dumps(DUMP))
    result = imported("django-celery-beat", str(dump), "--stub", str(stub))
    found = schedules(result)
    assert found.keys() == {"often", "mondays", "then"}
    assert found["often"]["trigger"] == {"type": "every", "v": 1, "seconds": 7200.0}
    assert found["often"]["kwargs"] == {"day": 1}
    assert found["mondays"]["trigger"] == {
        "type": "cron",
        "v": 2,
        "expression": "0 7 1-7 * 1",
        "dialect": "celery",
        "tz": "Asia/Tokyo",
    }
    assert found["mondays"]["paused"] == "it was disabled"
    for said in (
        "dawn: it cannot be read: ValueError: it follows the sun",
        "once: it cannot be read: ValueError: one_off",
        "by-place: it has positional arguments, [1]",
        "later: it cannot be read: ValueError: its start_time",
        "celery.backend_cleanup: celery.backend_cleanup is Celery's own",
        "gone: it cannot be read: KeyError",
    ):
        assert f"left out: {said}" in result.stderr
    assert "3 schedules carried over, 6 left out" in result.stderr
    assert "include(scheduler, app)" in stub.read_text()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"model": 1}]', "[]"])
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, text: str) -> None:
    dump = tmp_path / "beat.json"
    dump.write_text(text)
    result = imported("django-celery-beat", str(dump))
    assert result.exit_code == 1
    assert "dumpdata" in result.stderr or "no periodic task" in result.stderr
