"""A commit of the application wakes the cluster: nodes that hardly ever look by themselves."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure import Scheduler, every
from tests.e2e.command import node, until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.slow

APP = """
from pathlib import Path
from tenure import Scheduler, Settings, every

# Unless it is woken, a node looks for work once in ten minutes.
scheduler = Scheduler({url!r}, settings=Settings(idle_poll=600, ttl=15))

@scheduler.task
def pack(order: str) -> None:
    with Path("packed").open("a") as file:
        file.write(order + "\\n")

@scheduler.task(every(hours=1), kwargs={{"order": "all"}})
def hourly(order: str) -> None:
    pack(order)
"""

# Commits, and is gone.
SCRIPT = """
import sqlite3, sys
from tenure import Scheduler
scheduler = Scheduler("sqlite:///shop.db")
scheduler.schedules()
shop = sqlite3.connect("shop.db")
scheduler.run_now("hourly", connection=shop)
shop.commit()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database("wakes")


def connect(url: str) -> sqlite3.Connection | psycopg.Connection:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"))
    return psycopg.connect(url)


def pack(order: str) -> None: ...


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url)
    scheduler.task(pack)
    yield scheduler
    scheduler.stop()


def packed(folder: Path) -> list[str]:
    file = folder / "packed"
    return file.read_text().split() if file.exists() else []


def test_commit_is_heard_at_once(url: str, scheduler: Scheduler, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(url=url))
    with node(tmp_path):
        shop = connect(url)
        scheduler.run_now("hourly", connection=shop)
        shop.commit()
        until(lambda: packed(tmp_path) == ["all"], "the run that was asked for")
        scheduler.enqueue(pack, kwargs={"order": "single"}, connection=shop)
        shop.rollback()
        scheduler.enqueue(pack, kwargs={"order": "once"}, connection=shop)
        shop.commit()
        until(lambda: packed(tmp_path) == ["all", "once"], "the run that was enqueued")
        scheduler.add(
            "often", every(seconds=1), task=pack, kwargs={"order": "often"}, connection=shop
        )
        shop.commit()
        until(lambda: "often" in packed(tmp_path), "the schedule that was added")
        scheduler.pause("often", connection=shop)
        shop.rollback()
        count = len(packed(tmp_path))
        until(lambda: len(packed(tmp_path)) > count, "it was not paused, and goes on")
        shop.close()


def test_process_that_ends_at_once_has_told_of_its_commit(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(url="sqlite:///shop.db"))
    with node(tmp_path):
        subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, check=True, timeout=30)
        until(lambda: packed(tmp_path) == ["all"], "the run that was asked for")
