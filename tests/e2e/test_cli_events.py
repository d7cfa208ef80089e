"""`tenure events`, and schedules that emit, from the command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenure import Event, Scheduler
from tests.e2e.command import EXECUTABLE, PATIENCE, at_hand

STORE = ("--url", "sqlite:///jobs.db")
EMIT = (
    '{"topic": "ledger", "type": "MonthEnded", "data": {"books": 7}, "key": "7",'
    ' "headers": {"region": "north"}}'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert at_hand(tmp_path, "migrate", *STORE).code == 0
    return tmp_path


@pytest.fixture
def events(folder: Path) -> list[str]:
    """The ids of three events, which a group has read but for the last."""
    scheduler = Scheduler(f"sqlite:///{folder / 'jobs.db'}")
    ids = [scheduler.emit(Event("ledger", "Said", {"n": n}, key="k")) for n in range(2)]
    with scheduler.consumer("ledger", group="billing", wait=0) as consumer:
        for batch in consumer:
            with batch.transaction():
                pass
    ids.append(scheduler.emit(Event("ledger", "Unread", headers={"by": "tests"})))
    scheduler.emit(Event("audit", "Other"))
    scheduler.stop()
    return ids


def asked(folder: Path, *words: str) -> Any:
    answer = at_hand(folder, *words, *STORE, "--json")
    assert answer.code == 0, answer
    return answer.json


def test_events_are_listed_and_shown(folder: Path, events: list[str]) -> None:
    listed = asked(folder, "events", "list", "--topic", "ledger")
    assert [event["id"] for event in listed] == events[::-1]
    assert len(asked(folder, "events", "list")) == 4
    assert [e["id"] for e in asked(folder, "events", "list", "--key", "k")] == events[1::-1]
    assert asked(folder, "events", "list", "--type", "Said", "--limit", "1")[0]["id"] == events[1]
    shown = asked(folder, "events", "show", events[1])
    assert (shown["topic"], shown["type"], shown["data"]) == ("ledger", "Said", {"n": 1})
    assert shown["key_number"] == shown["position"] == 2
    text = at_hand(folder, "events", "show", events[2], *STORE).out
    assert "Header by" in text
    assert "Unread" in at_hand(folder, "events", "list", *STORE).out
    missing = at_hand(folder, "events", "show", "none", *STORE)
    assert (missing.code, "no event 'none'" in missing.err) == (1, True)


def test_events_are_followed(folder: Path, events: list[str]) -> None:
    command: list[str] = [
        str(EXECUTABLE),
        "events",
        "tail",
        "audit",
        "--after",
        "0",
        "--json",
        *STORE,
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            text = ""
            for line in process.stdout:
                text += line
                if line.startswith("}"):
                    break
            assert json.loads(text)["type"] == "Other"
        finally:
            process.kill()
            process.wait(PATIENCE)


def test_groups_tell_what_they_have_read_and_read_it_again(folder: Path, events: list[str]) -> None:
    [group] = asked(folder, "events", "groups")
    assert (group["topic"], group["group"], group["unread"]) == ("ledger", "billing", 1)
    status = at_hand(folder, "status", *STORE, "--json").json
    assert status["events"] == [group]
    assert "ledger, group billing: 1 event unread" in at_hand(folder, "status", *STORE).out
    findings = at_hand(folder, "doctor", *STORE, "--json").json["findings"]
    assert [f["severity"] for f in findings if f["check"] == "events"] == ["ok"]
    replay = ("events", "replay", "ledger", "--group", "billing")
    assert asked(folder, *replay, "--after", "0")["unread"] == 3
    assert asked(folder, *replay, "--since", "2100-01-01")["unread"] == 0
    assert asked(folder, *replay, "--since", "2020-01-01T00:00")["unread"] == 3
    told = at_hand(folder, *replay, "--after", "2", *STORE).out
    assert "1 event to read" in told
    beyond = at_hand(folder, *replay, "--after", "1000", *STORE)
    assert (beyond.code, "last position in the log" in beyond.err) == (1, True)
    assert asked(folder, "events", "groups")[0]["unread"] == 1
    for wrong in ([], ["--after", "1", "--since", "2020-01-01"], ["--since", "yesterday"]):
        assert at_hand(folder, *replay, *wrong, *STORE).code == 2
    unknown = at_hand(folder, "events", "replay", "x", "--group", "y", "--after", "0", *STORE)
    assert (unknown.code, "has no group 'y'" in unknown.err) == (1, True)


def test_group_is_dropped_when_one_is_sure(folder: Path, events: list[str]) -> None:
    drop = ("events", "groups", "--topic", "ledger", "--drop", "billing", *STORE)
    assert at_hand(folder, *drop, stdin="n\n").code == 1
    assert len(asked(folder, "events", "groups")) == 1
    assert at_hand(folder, *drop, "--yes").code == 0
    assert asked(folder, "events", "groups") == []
    assert at_hand(folder, *drop, "--yes").code == 1
    assert at_hand(folder, "events", "groups", "--drop", "billing", *STORE).code == 2


def test_schedule_that_emits_is_added_shown_changed_and_run(folder: Path) -> None:
    add = ("schedules", "add", "month-end", "--every", "30d", "--emit")
    added = asked(folder, *add, EMIT)["added"]
    assert added["emit"]["data"] == {"books": 7}
    assert "emits MonthEnded to ledger" in at_hand(folder, "schedules", "list", *STORE).out
    shown = at_hand(folder, "schedules", "show", "month-end", *STORE).out
    assert '{"books":7}' in shown
    assert "overlap" not in shown
    assert re.search(r"^Header region +north$", shown, re.MULTILINE)
    changed = '{"topic": "audit", "type": "Ended"}'
    update = ("schedules", "update", "month-end", "--emit")
    assert asked(folder, *update, changed)["emit"]["topic"] == "audit"
    made = asked(folder, "schedules", "run-now", "month-end", "--key", "once")
    assert (made["event"], made["new"]) == (f"{added['uid']}/manual/once", True)
    assert asked(folder, "events", "show", made["event"])["type"] == "Ended"
    again = at_hand(folder, "schedules", "run-now", "month-end", "--key", "once", *STORE)
    assert "before: the key is known" in again.out
    lines = '{"name": "b", "trigger": "every 5m", "emit": ' + EMIT + "}\n"
    stdin = at_hand(folder, "schedules", "add", "--file", "-", *STORE, stdin=lines)
    assert stdin.code == 0, stdin
    assert asked(folder, "schedules", "show", "b")["emit"]["topic"] == "ledger"


@pytest.mark.parametrize(
    ("emit", "words"),
    [
        ("[]", "is not a JSON object"),
        ('{"topic": "ledger"}', "the event has no 'type'"),
        ('{"topic": "a b", "type": "t"}', "a topic's name"),
        ('{"topic": "a", "type": "t", "queue": 1}', "an event has no 'queue'"),
    ],
)
def test_wrong_event_is_refused_before_a_store_is_opened(
    tmp_path: Path, emit: str, words: str
) -> None:
    told = at_hand(tmp_path, "schedules", "add", "a", "--every", "1d", "--emit", emit, *STORE)
    assert told.code == 2
    assert words in told.err
    assert not (tmp_path / "jobs.db").exists()
