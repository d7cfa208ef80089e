"""Events by plain SQL, in the caller's transaction: emitting, schedules, what is parked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InvalidParameterValue

from tenure import Event, Scheduler
from tests.e2e.command import at_hand
from tests.e2e.test_events import read
from tests.support.servers import PostgresServer


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.create_database("sql_events")


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url)
    scheduler.schedules()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def line(url: str, scheduler: Scheduler) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url) as line:
        line.execute(
            "TRUNCATE tenure.event, tenure.schedule, tenure.occurrence, tenure.relay,"
            " tenure.relay_lane, tenure.relay_parked"
        )
        line.commit()
        yield line
        line.rollback()


def call(line: psycopg.Connection[Any], text: str) -> Any:
    row = line.execute(f"SELECT tenure.{text}".encode()).fetchone()
    assert row is not None
    return row[0]


def test_event_is_there_if_the_caller_commits(
    line: psycopg.Connection[Any], scheduler: Scheduler
) -> None:
    call(line, "emit('ledger', 'Never')")
    line.rollback()
    arguments = "'ledger', 'Opened', '{\"a\": 1}', 'k', '{\"x\": \"y\"}', 'mine'"
    assert call(line, f"emit({arguments})") == "mine"
    assert call(line, "emit('ledger', 'Repeated', id => 'mine')") == "mine"
    line.commit()
    with scheduler:
        [event] = read(scheduler)
    assert (event.id, event.type, event.key, event.headers) == ("mine", "Opened", "k", {"x": "y"})
    assert event.data == '{"a": 1}'


def test_doctor_tells_of_events_that_nobody_can_read(
    line: psycopg.Connection[Any], url: str, tmp_path: Path
) -> None:
    """As where only a program emits and `tenure relay` runs: nobody gives positions."""
    call(line, "emit('ledger', 'Opened', id => 'unplaced')")
    line.execute("UPDATE tenure.event SET recorded_at = now() - interval '1 minute'")
    call(line, "emit('ledger', 'Opened', id => 'fresh')")
    line.commit()
    told = at_hand(tmp_path, "doctor", "--url", url, "--json")
    problems = {f["check"]: f["text"] for f in told.json["findings"] if f["severity"] == "problem"}
    assert told.code == 1
    assert "'unplaced'" in problems["events"]
    assert "leader" in problems


def test_schedule_by_sql_emits(line: psycopg.Connection[Any], scheduler: Scheduler) -> None:
    arguments = "'tick', 'every 1s', 'ledger', 'Ticked', '[1]', tenant => 't'"
    uid = call(line, f"add_event_schedule({arguments})")
    line.commit()
    with scheduler:
        [event, *_] = read(scheduler)
    assert (event.id.startswith(f"{uid}/planned/"), event.subject) == (True, "tick")
    schedule = scheduler.get("tick")
    assert schedule.spec.event is not None
    assert (schedule.spec.event.data, schedule.spec.tenant) == ("[1]", "t")
    assert (schedule.spec.task, schedule.spec.overlap) == ("", "allow")
    row = line.execute(
        "SELECT target, topic, event_type, event_data FROM tenure.schedule_status"
    ).fetchone()
    assert row == ("event", "ledger", "Ticked", "[1]")


def test_run_now_by_sql_emits_once(line: psycopg.Connection[Any], scheduler: Scheduler) -> None:
    uid = call(line, "add_event_schedule('tick', 'every 1d', 'ledger', 'Ticked')")
    assert call(line, "run_now('tick', 'key')") is None
    assert call(line, "run_now('tick', 'key')") is None
    line.commit()
    with scheduler:
        [event] = read(scheduler)
    assert (event.id, event.data) == (f"{uid}/manual/key", "null")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'a b', 't'", "topic: 1 to 200"),
        ("NULL, 't'", "topic: 1 to 200"),
        ("'a', ''", "type: 1 to 200"),
        ("'a', 't', NULL", "data: give JSON"),
        ("'a', 't', to_jsonb(repeat('x', 65535))", "the limit is 65536"),
        ("'a', 't', key => ''", "key: 1 to 200"),
        ("'a', 't', headers => '[]'", "headers: give a JSON object"),
        ("'a', 't', headers => '{\"ce-id\": \"1\"}'", "headers: names are"),
        ("'a', 't', headers => '{\"a\": 1}'", "headers: names are"),
    ],
)
def test_what_python_refuses_is_refused(
    line: psycopg.Connection[Any], arguments: str, words: str
) -> None:
    for function in ("emit(", "add_event_schedule('a', 'every 1d', "):
        with pytest.raises(InvalidParameterValue, match=words):
            call(line, f"{function}{arguments})")
        line.rollback()


def test_ids_and_the_rest_are_checked_too(line: psycopg.Connection[Any]) -> None:
    for text, words in (
        ("emit('a', 't', id => '1/planned/2')", "without a slash"),
        ("emit('a', 't', namespace => '')", "namespace"),
        ("add_event_schedule('a', 'never', 'a', 't')", "trigger: it begins with"),
        ("add_event_schedule('a', 'every 1d', 'a', 't', catch_up => 'x')", "catch_up"),
    ):
        with pytest.raises(InvalidParameterValue, match=words):
            call(line, text)
        line.rollback()


def test_parked_events_are_seen_and_settled_by_sql(
    line: psycopg.Connection[Any], scheduler: Scheduler
) -> None:
    for n in range(3):
        scheduler.emit(Event("ledger", "Said", n, key="k"), id=f"parked-{n}")
    with scheduler:
        positions = [event.position for event in read(scheduler, count=3)]
    line.execute(
        "INSERT INTO tenure.relay (namespace, name, location, topics, position, moved_at)"
        " VALUES ('default', 'kafka', 'kafka://a', '', 9, now())"
    )
    line.execute(
        "INSERT INTO tenure.relay_lane VALUES ('default', 'kafka', 'x', 'ledger', 'k', 0, %s, 10,"
        " now(), 'refused', true, now())",
        [positions[0]],
    )
    line.execute(
        "INSERT INTO tenure.relay_parked VALUES ('default', 'kafka', %s, 'ledger', 'k', 3, 'never',"
        " false, now())",
        [positions[1]],
    )
    rows = line.execute(
        "SELECT position, id, holds, replayed FROM tenure.parked_event ORDER BY position"
    ).fetchall()
    assert rows == [
        (positions[0], "parked-0", True, False),
        (positions[1], "parked-1", False, False),
    ]
    assert call(line, f"drop_parked('kafka', ARRAY[{positions[2]}])") == 0
    assert call(line, "replay_parked('kafka', namespace => 'other')") == 0
    assert call(line, f"drop_parked('kafka', ARRAY[{positions[0]}])") == 1
    assert call(line, "replay_parked('kafka')") == 1
    left = line.execute("SELECT id, replayed FROM tenure.parked_event").fetchall()
    assert left == [("parked-1", True)]
    [lane] = line.execute("SELECT position, parked, tries FROM tenure.relay_lane").fetchall()
    assert lane == (positions[0] + 1, False, 0)
    [relay] = line.execute("SELECT revision FROM tenure.relay").fetchall()
    assert relay == (3,)
