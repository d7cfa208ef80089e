"""`tenure copy` as people meet it; and what a store that was moved says to everybody else."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.sqlite import SQLiteBackend
from tenure.copying.copier import DRAINING, Copier
from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import PATIENCE, Node, at_hand, node, until
from tests.support.servers import PostgresServer

PAGE = ROOT / "docs" / "howto" / "sqlite-to-postgresql.md"
ON_PAGE = "postgresql://app@db/app"
FILE = "sqlite:///tenure.db"


@pytest.fixture
def target(postgres: PostgresServer) -> str:
    return postgres.create_database("copied")


def test_the_page_word_by_word(tmp_path: Path, target: str) -> None:
    (program,) = [block for block in blocks(PAGE) if block.language == "python"]
    (tmp_path / "app.py").write_text(program.text)
    nodes = [old := Node(tmp_path, "app:scheduler", name="old")]
    try:
        until(lambda: old.said("run.succeeded"), "a run")
        for command in _commands():
            words = shlex.split(command.replace(ON_PAGE, target))
            if "--abort" in words:
                continue
            if words[1] == "run":
                nodes.append(new := Node(tmp_path, *words[2:], name="new", TENURE_URL=target))
                until(lambda new=new: new.said("run.succeeded"), "a run")  # type: ignore[misc]
                continue
            answer = at_hand(tmp_path, *words[1:])
            assert answer.code == 0, answer
        until(lambda: old.said("this store was moved to postgresql://"), "the old one's error")
        assert [node.stop() for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait(PATIENCE)
    (abort,) = [command for command in _commands() if "--abort" in command]
    refused = at_hand(tmp_path, *shlex.split(abort.replace(ON_PAGE, target))[1:])
    assert refused.code == 1
    assert "is complete and may have fired since" in refused.err
    _each_time_once(target)


def _commands() -> list[str]:
    shown = [block.text for block in blocks(PAGE) if not block.language]
    return [line for text in shown for line in text.splitlines() if line.startswith("tenure ")]


def _each_time_once(url: str) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT (extract(epoch FROM nominal))::float, (extract(epoch FROM last))::float"
            " FROM tenure.occurrence WHERE kind = 'planned' ORDER BY nominal"
        ).fetchall()
    for (_, last), (first, _) in pairwise(rows):
        assert first - last == pytest.approx(1.0, abs=0.001)


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A file that was moved to another."""
    assert at_hand(tmp_path, "migrate", "--url", FILE).code == 0
    added = at_hand(tmp_path, "enqueue", "sweep", "--url", FILE)
    assert added.code == 0, added
    answer = at_hand(tmp_path, "copy", FILE, "sqlite:///new.db", "--json")
    assert answer.json["complete"] is True
    assert answer.json["tables"]["run"]["rows"] == 1
    return tmp_path


def test_a_moved_store_says_so(moved: Path) -> None:
    status = at_hand(moved, "status", "--url", FILE, "--json")
    assert status.json["moved"].startswith(f"this store was moved to sqlite:///{moved}/new.db")
    doctor = at_hand(moved, "doctor", "--url", FILE, "--json")
    (found,) = [f for f in doctor.json["findings"] if f["check"] == "copy"]
    assert found["severity"] == "problem"
    assert found["remedy"].startswith("Start nodes and commands with that URL")
    assert at_hand(moved, "status", "--url", "sqlite:///new.db", "--json").json["moved"] is None
    refused = at_hand(moved, "enqueue", "sweep", "--url", FILE)
    assert refused.code == 1
    assert "this store was moved to" in refused.err


def test_programs_that_know_nothing_of_it_are_refused(moved: Path) -> None:
    with closing(sqlite3.connect(moved / "tenure.db")) as c:
        tables = c.execute("SELECT name FROM sqlite_master WHERE name GLOB 'tenure_*'").fetchall()
        assert len(tables) > 10
        for statement in (
            "DELETE FROM tenure_run",
            "UPDATE tenure_run SET state = 'claimed'",
            "INSERT INTO tenure_lease_floor VALUES ('x', 1)",
            "DELETE FROM tenure_meta",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="copying: this store was moved"):
                c.execute(statement)


def test_a_password_is_not_shown_anywhere(tmp_path: Path, target: str) -> None:
    secret = re.sub(r"//(\w+)@", r"//\1:hunter2@", target)
    (tmp_path / "url").write_text(secret)
    assert at_hand(tmp_path, "migrate", "--url", FILE).code == 0
    answer = at_hand(tmp_path, "copy", FILE, "@url")
    assert answer.code == 0, answer
    said = answer.out + answer.err + at_hand(tmp_path, "status", "--url", FILE).out
    with closing(sqlite3.connect(tmp_path / "tenure.db")) as c:
        said += "".join(str(row) for row in c.execute("SELECT * FROM sqlite_master, tenure_meta"))
    assert "postgresql://" in said
    assert "hunter2" not in said


def test_abort_goes_back_and_begins_again(tmp_path: Path) -> None:
    copy = ("copy", FILE, "sqlite:///new.db")
    assert at_hand(tmp_path, "migrate", "--url", FILE).code == 0
    assert at_hand(tmp_path, "enqueue", "sweep", "--url", FILE).code == 0
    nothing = at_hand(tmp_path, *copy[:2], "sqlite:///tenure.db")
    assert nothing.code == 2
    _stop_while_draining(tmp_path)
    assert "nothing fires" in at_hand(tmp_path, "status", "--url", FILE).out
    elsewhere = at_hand(tmp_path, *copy[:2], "sqlite:///third.db")
    assert elsewhere.code == 1
    assert "is being moved to" in elsewhere.err
    filling = at_hand(tmp_path, "enqueue", "sweep", "--url", "sqlite:///new.db")
    assert "cannot be used yet" in filling.err
    aborted = at_hand(tmp_path, *copy, "--abort")
    assert aborted.code == 0, aborted
    assert at_hand(tmp_path, "enqueue", "sweep", "--url", FILE).code == 0
    assert "to abort" in at_hand(tmp_path, *copy, "--abort").err
    before = at_hand(tmp_path, *copy, "--dry-run", "--json").json
    assert before["tables"]["run"] == 2
    assert at_hand(tmp_path, *copy).code == 0
    assert "complete already" in at_hand(tmp_path, *copy).out


def test_abort_as_on_the_page_lets_the_source_fire_again(tmp_path: Path, target: str) -> None:
    (program,) = [block for block in blocks(PAGE) if block.language == "python"]
    (tmp_path / "app.py").write_text(program.text)
    assert at_hand(tmp_path, "migrate", "--url", FILE).code == 0
    assert at_hand(tmp_path, "enqueue", "sweep", "--url", FILE).code == 0
    _stop_while_draining(tmp_path, PostgresBackend(target))
    refused = at_hand(tmp_path, "enqueue", "sweep", "--url", target)
    assert "cannot be used yet" in refused.err
    (abort,) = [command for command in _commands() if "--abort" in command]
    aborted = at_hand(tmp_path, *shlex.split(abort.replace(ON_PAGE, target))[1:])
    assert aborted.code == 0, aborted
    with psycopg.connect(target) as connection:
        assert connection.execute("SELECT count(*) FROM tenure.run").fetchone() == (0,)
    with node(tmp_path) as again:
        until(lambda: again.said("run.succeeded"), "a run")
        copy = next(command for command in _commands() if command.endswith(ON_PAGE))
        copied = at_hand(tmp_path, *shlex.split(copy.replace(ON_PAGE, target))[1:])
        assert copied.code == 0, copied
    _each_time_once(target)


def _stop_while_draining(folder: Path, target: PostgresBackend | None = None) -> None:
    backends: list[Any] = [SQLiteBackend(folder / "tenure.db")]
    backends.append(target or SQLiteBackend(folder / "new.db"))

    async def prepare() -> None:
        for backend in backends:
            await backend.open()
            await backend.close()

    def stop(step: str) -> None:
        if step == DRAINING:
            raise KeyboardInterrupt

    asyncio.run(prepare())
    source, other = (backend.copy_side() for backend in backends)
    with closing(source), closing(other), pytest.raises(KeyboardInterrupt):
        Copier(source, other, drain=0, told=stop).run()


def test_progress_is_shown_also_while_nothing_fires(tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", "--url", FILE).code == 0
    assert at_hand(tmp_path, "enqueue", "sweep", "--url", FILE).code == 0
    with closing(sqlite3.connect(tmp_path / "tenure.db")) as c, c:
        names = [str(row[1]) for row in c.execute("PRAGMA table_info(tenure_run)")]
        values = ", ".join(
            {"id": "t.id + n.value", "key": "t.key || n.value"}.get(n, f"t.{n}") for n in names
        )
        c.execute(
            f"INSERT INTO tenure_run ({', '.join(names)}) SELECT {values}"
            " FROM tenure_run t, json_each(?) n",
            (json.dumps(list(range(1, 1500))),),
        )
    said = at_hand(tmp_path, "copy", FILE, "sqlite:///new.db").err
    # The runs, and the line of the audit about the first.
    assert "1,501 rows (run 1,500, audit 1): about 1s. Then nothing fires for about 1s." in said
    assert "Copying: 1,501 of 1,501 rows" in said
    refused, compared = said.index("The source refuses"), said.index("Comparing: ")
    assert refused < compared < said.index("Both stores have the same rows")
    again = at_hand(tmp_path, "copy", FILE, "sqlite:///new.db")
    assert again.code == 0
    assert "nothing fires" not in again.err


def test_leases_alone_cannot_be_moved(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "copy", "redis://127.0.0.1:1/0", FILE)
    assert answer.code == 2
