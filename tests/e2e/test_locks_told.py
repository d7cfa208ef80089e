"""What a real node says about locks and clocks, on SQLite and PostgreSQL."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenure import Scheduler
from tests.e2e.command import Node, at_hand, node, until
from tests.faults.test_clock import WallClock
from tests.support.servers import PostgresServer

BUSY = """
from pathlib import Path
from time import sleep
from tenure import Scheduler, every

scheduler = Scheduler({url!r})

@scheduler.task(every(seconds=1), overlap="skip")
def slow():
    while not Path("let-go").exists():
        sleep(0.02)
"""
AHEAD = 40


def pack() -> None: ...


def test_what_is_skipped_names_the_node_that_is_at_work(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database("skipped")
    (tmp_path / "app.py").write_text(BUSY.format(url=url))
    with node(tmp_path, "app:scheduler", "--log-level", "debug") as running:
        says = re.compile(
            r"occurrence\.skipped schedule=slow reason=\".*already running on node"
            rf" (\S+:{running.pid}:\S+) since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\""
        )
        told = until(lambda: says.search(running.log.read_text()), "that it is skipped")
        [run] = at_hand(tmp_path, "runs", "list", "--state", "claimed", "--json", "--url", url).json
        assert run["node"] == told[1]
        (tmp_path / "let-go").touch()


def test_node_with_a_wrong_clock_is_told_of(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.create_database("skewed")
    (tmp_path / "let-go").touch()
    (tmp_path / "app.py").write_text(BUSY.format(url=url))
    wall = WallClock(tmp_path / "wall")
    wall.set(AHEAD)
    running = Node(tmp_path, "app:scheduler", **wall.env)
    try:
        until(lambda: running.said("clock.skewed"), "the warning")
        [line] = [each for each in running.log.read_text().splitlines() if "clock.skewed" in each]
        assert "WARNING" in line
        assert re.search(r"seconds=(39|40)[.\d]* limit=2", line), line

        def seen() -> float:
            [only] = at_hand(tmp_path, "status", "--json", "--url", url).json["nodes"] or [{}]
            return float(only.get("skew", 0))

        assert until(seen, "that others know") == pytest.approx(AHEAD, abs=1)
        told = at_hand(tmp_path, "status", "--url", url, COLUMNS="200").out
        assert "SKEW" in told
        assert re.search(r"\+(39|40)[.\d]*s", told), told
        doctor = at_hand(tmp_path, "doctor", "--url", url)
        assert re.search(r"is (39|40)[.\d]* s ahead of the store's", doctor.out), doctor
    finally:
        running.process.kill()
        running.process.wait(timeout=30)


def test_of_those_that_put_at_one_moment_one_is_told_that_it_is_new(
    postgres: PostgresServer,
) -> None:
    url, many = postgres.create_database("put"), 6
    ready = threading.Barrier(many)
    schedulers = [Scheduler(url) for _ in range(many)]

    def put(number: int) -> list[bool]:
        scheduler = schedulers[number]
        scheduler.task(name="pack")(pack)
        assert scheduler.schedules() == []  # connected
        news = []
        for turn in range(5):
            ready.wait(60)
            schedule, new = scheduler.put(f"put-{turn}", "every 5m", task="pack")
            assert schedule.name == f"put-{turn}"
            news.append(new)
        return news

    try:
        with ThreadPoolExecutor(many) as pool:
            news = list(pool.map(put, range(many)))
        assert [sum(each) for each in zip(*news, strict=True)] == [1] * 5
        assert [each.version for each in schedulers[0].schedules()] == [1] * 5
    finally:
        for scheduler in schedulers:
            scheduler.stop()
