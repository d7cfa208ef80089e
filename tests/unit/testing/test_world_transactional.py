"""Transactional tasks in a world: on connections that the test supplies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tenure import ConfigError, Run, Scheduler, every
from tenure.testing import testing as in_world


@pytest.fixture
def shop() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE bill (run INTEGER)")
        connection.commit()
        yield connection


def bills(shop: sqlite3.Connection) -> int:
    shop.rollback()  # what was not committed is not there
    return int(shop.execute("SELECT count(*) FROM bill").fetchone()[0])


def scheduler(fails: int = 0) -> Scheduler:
    made = Scheduler("memory://")

    @made.task(every(hours=1), transactional=True, retries=3)
    def bill(run: Run, connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO bill VALUES (?)", (run.id,))
        if run.attempt <= fails:
            raise ZeroDivisionError
        return "paid"

    return made


def test_task_has_a_connection_and_its_effects_are_committed(shop: sqlite3.Connection) -> None:
    with in_world(scheduler(), lend=lambda: shop) as world:
        world.advance(hours=3)
        assert world.ran("bill") == bills(shop) == 3
        assert [run.result for run in world.runs()] == ['"paid"'] * 3


def test_attempt_that_raises_leaves_nothing(shop: sqlite3.Connection) -> None:
    with in_world(scheduler(fails=2), lend=lambda: shop) as world:
        world.advance(hours=1, minutes=1)
        assert len(world.failures) == 2
        assert world.ran("bill") == bills(shop) == 1


@pytest.mark.parametrize("harm", ["kill_during", "freeze_during"])
def test_node_that_dies_in_the_middle_leaves_nothing(shop: sqlite3.Connection, harm: str) -> None:
    with in_world(scheduler(), nodes=2, lend=lambda: shop) as world:
        getattr(world, harm)("bill")
        world.advance(hours=1, minutes=5)
        [harmed] = [node for node in world.nodes if node.state != "running"]
        assert world.ran("bill") == bills(shop) == 1
        harmed.revive()
        world.advance(minutes=5)
        assert world.ran("bill") == bills(shop) == 1
        assert world.failures == []


async def test_coroutine_has_one_too(shop: sqlite3.Connection) -> None:
    made = Scheduler("memory://")

    @made.task(every(hours=1), transactional=True)
    async def bill(run: Run, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO bill VALUES (?)", (run.id,))

    async with in_world(made, lend=lambda: shop) as world:
        world.advance(hours=2)
        assert world.ran("bill") == bills(shop) == 2


def test_without_a_connection_it_says_what_to_do() -> None:
    with in_world(scheduler()) as world:
        world.advance(hours=1)
        assert "testing(scheduler, lend=" in str(world.failures[0].error)
    with pytest.raises(ConfigError, match="must be a function that returns a connection"):
        in_world(scheduler(), lend="shop.db")  # type: ignore[arg-type]


ENDS = {
    "commit": lambda connection: connection.commit(),
    "rollback": lambda connection: connection.rollback(),
    "close": lambda connection: connection.close(),
    "with": lambda connection: connection.__enter__(),
    "script": lambda connection: connection.executescript("SELECT 1"),
}


class Own(sqlite3.Connection):
    """Of an application's own."""


class Driver:
    """A class of Python's, as most drivers have: not sqlite3's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self._connection = connection

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_other_drivers_connections_are_the_same_again(shop: sqlite3.Connection, end: str) -> None:
    made, connection = Scheduler("memory://"), Driver(shop)

    @made.task(every(hours=1), transactional=True)
    def bill(run: Run, connection: Driver) -> None:
        connection.execute("INSERT INTO bill VALUES (?)", (run.id,))
        if run.id == 1:
            getattr(connection, end)()

    with in_world(made, lend=lambda: connection) as world:
        world.advance(hours=2)
        assert "lent to a transactional task" in str(world.failures[0].error)
        assert world.ran("bill") == bills(shop) == 1
    connection.commit()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", [sqlite3.Connection, Own])
def test_transaction_is_not_the_task_s_to_end(kind: type[sqlite3.Connection], end: str) -> None:
    made = Scheduler("memory://")
    with closing(sqlite3.connect(":memory:", factory=kind)) as shop:
        shop.execute("CREATE TABLE bill (run INTEGER)")

        @made.task(every(hours=1), transactional=True)
        def bill(run: Run, connection: sqlite3.Connection) -> None:
            assert isinstance(connection, sqlite3.Connection)
            connection.execute("INSERT INTO bill VALUES (?)", (run.id,))
            if run.id == 1:
                ENDS[end](connection)

        with in_world(made, lend=lambda: shop) as world:
            world.advance(hours=2)
            [failure] = world.failures
            assert isinstance(failure.error, ConfigError)
            assert "lent to a transactional task" in str(failure.error)
            assert world.ran("bill") == bills(shop) == 1


async def test_lend_that_cannot_serve_is_refused_at_the_start() -> None:
    async def later() -> sqlite3.Connection: ...  # type: ignore[empty-body]

    with pytest.raises(ConfigError, match="is called without arguments, but missing a required"):
        in_world(scheduler(), lend=lambda url: url)  # type: ignore[arg-type, misc]
    with pytest.raises(ConfigError, match="coroutine function, and task 'bill' is a plain one"):
        in_world(scheduler(), lend=later)
    with in_world(scheduler(), lend=lambda: "shop.db") as world:
        world.advance(hours=1)
        assert "'shop.db', which has no commit()" in str(world.failures[0].error)
