"""`tenure import redbeat` and `django-celery-beat`: lines for `schedules add`, and reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tenure.cli import main
from tests.support.servers import ValkeyServer

RECORDED = Path(__file__).with_name("entries")
"""What the packages themselves have written: see entries/record.py."""


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
        entries = json.loads((RECORDED / "redbeat.json").read_text())
        for key, fields in entries.items():
            for field, text in fields.items():
                server.command("HSET", key, field, text)
        server.command("HSET", "redbeat:half", "definition", '{"name": "half"}')
        server.command("SET", "redbeat::lock", "somebody")
        server.command("ZADD", "redbeat::schedule", 1, "redbeat:often")
        server.command("HSET", "others:often", "definition", entries["redbeat:often"]["definition"])
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
    assert (
        "left out: redbeat:by-rule: a schedule of the kind 'rrule' is RedBeat's own"
        in result.stderr
    )
    assert "left out: redbeat:half: its field 'task' is missing." in result.stderr


def test_a_redis_that_is_not_there_is_named_without_its_password() -> None:
    result = imported("redbeat", "redis://:secret@127.0.0.1:1/0")
    assert result.exit_code == 1
    assert "redis://127.0.0.1:1/0 cannot be read" in result.stderr
    assert "refused.." not in result.stderr
    assert "secret" not in result.output


def dumped(tmp_path: Path) -> Path:
    """As recorded, and with entries that take time or damage to come by."""
    rows = json.loads((RECORDED / "beat.json").read_text())
    [often] = (row for row in rows if row["fields"].get("name") == "often")
    for key, fields in enumerate(
        (
            {"name": "later", "start_time": "2099-01-01T00:00:00Z"},
            {"name": "gone", "interval": 99},
            {"name": "cleanup", "task": "celery.backend_cleanup"},
            {"name": "nothing", "interval": None},
            {"name": "odd", "kwargs": "{"},
        ),
        100,
    ):
        rows.append({**often, "pk": key, "fields": often["fields"] | fields})
    dump = tmp_path / "beat.json"
    dump.write_text(json.dumps([*rows, {"model": "auth.user", "pk": 1, "fields": {}}]))
    return dump


def test_periodic_tasks_of_django_become_paused_schedules(tmp_path: Path) -> None:
    stub = tmp_path / "schedule.py"
    result = imported("django-celery-beat", str(dumped(tmp_path)), "--stub", str(stub))
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
        "dawn: it follows the sun",
        "once: it is a one_off, which ends after its next time",
        "by-place: it has positional arguments, [1]",
        "later: its start_time, 2099-01-01T00:00:00Z, has not come yet",
        "cleanup: celery.backend_cleanup is Celery's own",
        "nothing: it has no schedule.",
        "odd: it is not as its package writes it: Expecting property name",
        "gone: its interval schedule is not in the dump.",
    ):
        assert f"left out: {said}" in result.stderr
    assert "note: often: its option headers={'by': 'ann'} is left out" in result.stderr
    assert "Error" not in result.stderr
    assert "3 schedules carried over, 8 left out" in result.stderr
    assert "include(scheduler, app)" in stub.read_text()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"model": 1}]', "[]"])
def test_a_file_that_is_no_dump_is_refused(tmp_path: Path, text: str) -> None:
    dump = tmp_path / "beat.json"
    dump.write_text(text)
    result = imported("django-celery-beat", str(dump))
    assert result.exit_code == 1
    assert "dumpdata" in result.stderr or "no periodic task" in result.stderr
