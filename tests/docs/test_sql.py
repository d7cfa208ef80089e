"""docs/sql.md names views with their columns, functions with their arguments, and tables."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tenure.backends.shared.sql import migrations
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text()
VIEWS = (
    *("schedule_status", "active_lock", "every_lock"),
    *("run_history", "attempt_history", "parked_event", "audit_log", "why_not"),
)


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for _, _, text in migrations("tenure.backends.sqlite"):
            connection.executescript(text)
        yield connection


@pytest.mark.parametrize("view", VIEWS)
def test_columns_of_a_view_are_on_the_page(view: str, database: sqlite3.Connection) -> None:
    columns = [row[1] for row in database.execute(f"PRAGMA table_info(tenure_{view})")]
    section = PAGE.partition(f"\n### {view}\n")[2].partition("\n#")[0]
    first_cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    assert [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)] == columns


def test_views_and_tables_are_on_the_page(database: sqlite3.Connection) -> None:
    names = database.execute(
        "SELECT name, type FROM sqlite_master WHERE name LIKE 'tenure\\_%' ESCAPE '\\'"
    ).fetchall()
    views = {name for name, kind in names if kind == "view"}
    tables = {name.removeprefix("tenure_") for name, kind in names if kind == "table"}
    assert views == {f"tenure_{view}" for view in VIEWS}
    listed = PAGE.partition("\n## Tables\n")[2]
    assert tables <= set(re.findall(r"`(\w+)`", listed))


def test_functions_and_their_arguments_are_on_the_page() -> None:
    text = "".join(sql for _, _, sql in migrations("tenure.backends.postgres"))
    found = re.findall(r"CREATE FUNCTION \{schema\}\.(\w+)\((.*?)\)\s*RETURNS", text, re.DOTALL)
    functions = {name: re.findall(r"(?:^|,)\s*(\w+) ", arguments) for name, arguments in found}
    internal = {"wake", "locked_schedule", "mark_next", "number_schedule"}
    internal |= {"try_cancel", "try_clear", "try_retry", "wrong_name", "wrong_argument"}
    internal |= {"wrong_event", "change_relay"}
    assert functions.keys() - internal == {
        *("add_schedule", "pause_schedule", "resume_schedule", "remove_schedule", "run_now"),
        "rename_schedule",
        *("enqueue", "cancel_run", "clear_lock", "retry_run", "emit", "add_event_schedule"),
        *("replay_parked", "drop_parked"),
    }
    section = PAGE.partition("\n## Functions, on PostgreSQL\n")[2].partition("\n## ")[0]
    for name in functions.keys() - internal:
        (shown,) = re.findall(rf"`tenure\.{name}\((.*?)\)`", section)
        given = [word for word in shown.split(", ") if word != "…"]
        assert given == functions[name][: len(given)], name
        for rest in functions[name][len(given) :]:
            assert f"`{rest}`" in section, (name, rest)
