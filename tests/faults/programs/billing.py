"""A node whose task writes a row into the application's own table, and completes its run with it.

    python -m tests.faults.programs.billing URL complete|transactional|engine CHANCE

Either the task completes its run in a transaction of its own, or it is transactional, on a
connection of the store or of an SQLAlchemy engine. Between any two steps it rests by chance, so
that whoever kills or freezes it does so anywhere.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from typing import Any

import psycopg
import sqlalchemy

from tenure import Run, Scheduler, Settings

URL, HOW, CHANCE = sys.argv[1:]
SETTINGS = Settings(ttl=1.5, reap_every=0.2, backoff=0.05, max_crashes=1_000, concurrency=4)

engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
scheduler = Scheduler(engine if HOW == "engine" else URL, settings=SETTINGS)


def rest() -> None:
    if random.random() < float(CHANCE):
        time.sleep(random.random() * 0.05)


def connect() -> Any:
    if URL.startswith("sqlite"):
        return sqlite3.connect(URL.removeprefix("sqlite:///"), isolation_level="IMMEDIATE")
    return psycopg.connect(URL)


def bill(run: Run) -> None:
    connection = connect()
    try:
        rest()
        connection.execute(f"INSERT INTO bill VALUES ({run.id})")
        rest()
        run.complete(connection)
        rest()
        connection.commit()
        rest()
    finally:
        connection.close()


def bill_in_its_transaction(run: Run, connection: Any) -> None:
    rest()
    execute = connection.exec_driver_sql if HOW == "engine" else connection.execute
    execute(f"INSERT INTO bill VALUES ({run.id})")
    rest()


TRANSACTIONAL = HOW != "complete"
TASK = bill_in_its_transaction if TRANSACTIONAL else bill
scheduler.tasks.declare(TASK, name="bill", transactional=TRANSACTIONAL)

if __name__ == "__main__":
    scheduler.run()
