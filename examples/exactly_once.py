"""Effects that happen exactly once, though their node is killed: python examples/exactly_once.py

The task books a payment in the application's own table and completes its run in the same
transaction. The first node is killed after it wrote and before it committed; the next one repeats
the run. The table has the payment once. The program shows that and ends.
"""

import os
import sqlite3
import sys
import time
from contextlib import closing, suppress
from multiprocessing import get_context

from tenure import Conflict, Run, Scheduler, at

FILE = "payments.db"
scheduler = Scheduler(f"sqlite:///{FILE}", ttl=2)


@scheduler.task
def pay(run: Run) -> None:
    with closing(sqlite3.connect(FILE)) as connection, connection:  # commits at the end
        connection.execute("INSERT INTO payment VALUES (?, ?)", (run.id, run.attempt))
        run.complete(connection)  # the run has succeeded if, and only if, this commits
        if run.attempt == 1:
            os._exit(1)  # as kill -9 would


def node() -> None:
    scheduler.run()


def main() -> None:
    with closing(sqlite3.connect(FILE)) as connection, connection:
        connection.execute("DROP TABLE IF EXISTS payment")
        connection.execute("CREATE TABLE payment (run INTEGER, attempt INTEGER)")
    with suppress(Conflict):  # it is there from the last time
        scheduler.add("payments", at("2100-01-01T00:00+00:00"), task=pay)
    run = scheduler.run_now("payments")
    assert run is not None
    scheduler.stop()
    processes = get_context("spawn")
    first = processes.Process(target=node)
    first.start()
    first.join()
    print(f"the first node was killed inside its transaction (exit code {first.exitcode})")
    second = processes.Process(target=node)
    second.start()
    while next(r for r in scheduler.runs() if r.id == run.id).state != "succeeded":
        time.sleep(0.1)
    second.terminate()
    second.join()
    with closing(sqlite3.connect(FILE)) as connection:
        rows = connection.execute("SELECT run, attempt FROM payment").fetchall()
    print(f"payments: {len(rows)}, made by attempt {rows[0][1]}")
    scheduler.stop()
    sys.exit(0 if len(rows) == 1 else 1)


if __name__ == "__main__":
    main()
