"""A node on PostgreSQL to which odd things happen.

machine     the machine that it believes to be on; see machine.py
newer       it has one more migration than the others, as newer code has
stops       it stops itself (SIGSTOP) inside its next firing transaction, each time it is told to:
            stop-1, stop-2: after that many of its statements, sent one by one
            stop-rows: while the server sends it rows
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

from tenure.backends.postgres import migrate
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.statements import Rows, Statement
from tenure.backends.shared.sql import migrations
from tests.faults.programs import node
from tests.faults.programs.common import Options, start
from tests.faults.programs.machine import pretend

MANY_ROWS = "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
PLACES = ("1", "2", "rows")
NEWER = (9999, "newer", "ALTER TABLE {schema}.run ADD COLUMN newer text")


def main(options: Options) -> None:
    pretend(options.get("machine"))
    if options.get("newer"):
        vars(migrate)["migrations"] = lambda package: [*migrations(package), NEWER]
    if options.get("stops"):
        _stop_inside(options)
    node.main(options)


def _stop_inside(options: Options) -> None:
    run = Database.run

    async def instead(
        self: Database,
        *statements: Statement,
        **more: Any,
    ) -> list[Rows]:
        fires = any("planned AS" in text for text, _ in statements)
        where = _told_where(options) if fires else None
        if where is None:
            return await run(self, *statements, **more)
        try:
            result = await self.use(lambda c: _by_hand(options, self, c, statements, where))
        except BaseException as error:
            options.write("failed", error=f"{type(error).__name__}: {error.__cause__ or error}")
            raise
        options.write("committed")
        return result

    Database.run = instead  # type: ignore[method-assign]


def _told_where(options: Options) -> str | None:
    for where in PLACES:
        word = options.journal.path.with_name(f"{options.who}.stop-{where}")
        if word.exists():
            word.unlink()
            return where
    return None


async def _by_hand(
    options: Options,
    database: Database,
    connection: Connection,
    statements: tuple[Statement, ...],
    where: str,
) -> list[Rows]:
    results: list[Rows] = []
    async with database.begun(connection, database.longest):
        for text, values in statements:
            cursor = await connection.execute(text, values)
            results.append(await cursor.fetchall() if cursor.description else [])
            if where == str(len(results)):
                _stop(options)
            elif where == "rows" and len(results) == 1:
                # Sent, and not read: the server goes on until the line is full.
                reading = asyncio.create_task(connection.cursor().execute(MANY_ROWS))
                for _ in range(5):
                    await asyncio.sleep(0)
                _stop(options)
                await reading
    return results


def _stop(options: Options) -> None:
    options.write("stopping")
    # To this very thread. What is sent to the process is for the main thread to take, and this one
    # goes on until it did: on a busy machine past the end of the transaction.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


if __name__ == "__main__":
    start(main)
