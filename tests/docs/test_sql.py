"""docs/sql.md names views with their columns, functions with their arguments, and tables."""

from __future__ import annotations

import re
import sqlite3

import pytest

from tenure.backends.sql import migrations
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text()
VIEWS = ("schedule_status", "active_lock", "run_history", "why_not")


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for _, _, text in migrations("tenure.backends.sqlite"):
        connection.executescript(text)
    return connection


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
    (text,) = [sql for _, name, sql in migrations("tenure.backends.postgres") if name == "sql"]
    found = re.findall(r"CREATE FUNCTION \{schema\}\.(\w+)\((.*?)\)\s*RETURNS", text, re.DOTALL)
    functions = {name: re.findall(r"(?:^|,)\s*(\w+) ", arguments) for name, arguments in found}
    internal = {"wake", "locked_schedule"}
    assert functions.keys() - internal == {
        *("add_schedule", "pause_schedule", "resume_schedule", "remove_schedule", "run_now")
    }
    section = PAGE.partition("\n## Functions, on PostgreSQL\n")[2].partition("\n## ")[0]
    for name in functions.keys() - internal:
        (shown,) = re.findall(rf"`tenure\.{name}\((.*?)\)`", section)
        given = [word for word in shown.split(", ") if word != "…"]
        assert given == functions[name][: len(given)], name
        for rest in functions[name][len(given) :]:
            assert f"`{rest}`" in section, (name, rest)
