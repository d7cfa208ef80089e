"""`tenure enqueue`: a task run once, from the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Answer, at_hand, node, until

APP = """
from pathlib import Path
from tenure import Scheduler, Settings

# Unless it is woken, a node looks for work once in ten minutes.
scheduler = Scheduler("sqlite:///jobs.db", settings=Settings(idle_poll=600, ttl=15))

@scheduler.task(retries=2, lock="order:{order}")
def pack(order: int) -> None:
    with Path("packed").open("a") as file:
        file.write(f"{order} ")
"""
STORE = ("--url", "sqlite:///jobs.db")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "app", raising=False)
    assert at_hand(tmp_path, "migrate", *STORE).code == 0
    return tmp_path


def runs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = at_hand(folder, "runs", "list", "--json", *STORE).json
    return found


@pytest.mark.slow
def test_node_runs_it_at_once(folder: Path) -> None:
    with node(folder):
        command = ("enqueue", "pack", "--kwargs", '{"order": 7}', "--key", "7", *STORE)
        first, again = at_hand(folder, *command), at_hand(folder, *command)
        assert (first.code, first.err, again.code, again.err) == (0, "", 0, "")
        assert "has that key already" in again.out
        until(lambda: [run["state"] for run in runs(folder)] == ["succeeded"], "the run")
    assert (folder / "packed").read_text() == "7 "


def test_options(folder: Path) -> None:
    told = at_hand(
        *(folder, "enqueue", "pack", "--kwargs", '{"order": 7}', "--app", "app:scheduler"),
        *("--at", "2030-01-31T07:00", "--tz", "Europe/Berlin", "--priority", "5", "--json"),
    )
    assert told.code == 0, told
    assert "No node is running" in told.err
    run = told.json
    assert (run["schedule"], run["kind"], run["state"]) == (None, "enqueued", "waiting")
    assert (run["nominal"], run["due"]) == ("2030-01-31T06:00:00.000000Z",) * 2
    assert (run["lock"], run["retries"], run["priority"]) == ("order:7", 2, 5)
    assert (run["new"], run["task_declared"], run["kwargs"]) == (True, False, {"order": 7})
    told = at_hand(folder, "enqueue", "ship", "--delay", "1h30m", "--tenant", "acme", *STORE)
    assert told.code == 0
    assert "of ship waits; due" in told.out
    [ship, _] = runs(folder)
    assert (ship["task"], ship["lock"], ship["retries"]) == ("ship", None, 0)
    shown = at_hand(folder, "runs", "list", *STORE).out
    assert "(ship)" in shown
    shown = at_hand(folder, "runs", "show", ship["id"], *STORE).out
    assert "enqueued" in shown
    assert "Schedule" not in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pack", "--kwargs", "{"], "is not JSON"),
        (["pack", "--kwargs", "[1]"], "is not a JSON object"),
        (["pack", "--at", "2030-01-01", "--delay", "5m"], "both given"),
        (["pack", "--at", "tomorrow"], "is not a time"),
        (["pack", "--at", "2030-01-01", "--tz", "Europe/Berln"], "did you mean 'Europe/Berlin'"),
        (["pack", "--tz", "Europe/Berlin"], "--tz belongs to --at"),
        (["pack", "--delay", "-5"], "is not a duration"),
        (["pack", "--delay", "40000d"], "100 years"),
        (["pack", "--key", "x" * 201], "1 to 200 characters"),
        (["pack", "--lock", "x" * 501], "is not a lock key"),
        (["pack", "--priority", str(2**31)], "between"),
        (["x" * 201], "a task's name is 1 to 200"),
        (["pack", "--app", "app:scheduler"], "cannot be called with"),
        (["sned", "--app", "app:scheduler"], "unknown task 'sned'"),
    ],
)
def test_wrong_usage_changes_nothing(folder: Path, arguments: list[str], says: str) -> None:
    answer: Answer = at_hand(folder, "enqueue", *arguments)
    assert answer.code == 2, answer
    assert says in answer.err
    assert runs(folder) == []


def test_task_that_no_node_has_waits_and_says_so(folder: Path) -> None:
    with node(folder):
        told = at_hand(folder, "enqueue", "ship", "--json", *STORE)
        assert told.json["task_declared"] is False
        assert "does not execute task 'ship': runs will wait" in told.err
        with closing(sqlite3.connect(folder / "jobs.db")) as connection, connection:
            look = "SELECT schedule, what, run_id, reason FROM tenure_why_not"
            expected = (None, "waiting", told.json["id"], "no live node executes task ship")
            until(lambda: connection.execute(look).fetchall() == [expected], "the reason")
        connection.close()
