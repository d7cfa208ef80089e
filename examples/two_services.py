"""Two services that talk by events, exactly once: python examples/two_services.py

The shop stores each order and an event about it in one transaction; a schedule of its emits another
event when a day has ended, every second here. Billing writes an invoice for each order, in the
transaction that moves it on in the log. It is killed on the way and started again. In the end each
order has one invoice, though no constraint prevents a second. The program shows that and ends.
"""

import json
import sqlite3
import sys
import time
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

from tenure import Event, Scheduler, every

FILE, ORDERS = "shop.db", 60
TABLES = """
    CREATE TABLE customer_order (n INTEGER);
    CREATE TABLE invoice (n INTEGER);
    CREATE TABLE closed_day (day TEXT);
"""
COUNTS = """
    SELECT (SELECT count(*) FROM customer_order), (SELECT count(*) FROM invoice),
        (SELECT count(DISTINCT n) FROM invoice), (SELECT count(*) FROM closed_day)
"""


def shop() -> None:
    scheduler = Scheduler(f"sqlite:///{FILE}")
    with scheduler, closing(sqlite3.connect(FILE)) as connection:
        scheduler.add("day-end", every(seconds=1), emit=Event("shop", "DayEnded"))
        for order in range(1, ORDERS + 1):
            placed = Event("shop", "OrderPlaced", {"order": order}, key=str(order))
            with connection:  # the order and its event, or neither
                connection.execute("INSERT INTO customer_order VALUES (?)", [order])
                scheduler.emit(placed, connection=connection)
            time.sleep(0.05)


def billing() -> None:
    scheduler = Scheduler(f"sqlite:///{FILE}")
    with scheduler.consumer("shop", group="billing", limit=10) as consumer:
        for batch in consumer:
            with batch.transaction() as connection:  # what it writes, and how far it has read
                for event in batch:
                    if event.type == "OrderPlaced":
                        order = json.loads(event.data)["order"]
                        connection.execute("INSERT INTO invoice VALUES (?)", [order])
                    else:
                        day = event.time.isoformat()
                        connection.execute("INSERT INTO closed_day VALUES (?)", [day])


def counts() -> tuple[int, int, int, int]:
    """Orders, invoices, orders that have an invoice, and days."""
    with closing(sqlite3.connect(FILE)) as connection:
        row: tuple[int, int, int, int] = connection.execute(COUNTS).fetchone()
    return row


def main() -> None:
    for old in Path().glob(f"{FILE}*"):  # of the last time, which may have ended half-way
        old.unlink()
    with closing(sqlite3.connect(FILE)) as connection:
        connection.executescript(TABLES)
    processes = get_context("spawn")
    seller, biller = processes.Process(target=shop), processes.Process(target=billing)
    seller.start()
    biller.start()
    while counts()[1] < ORDERS // 3:
        time.sleep(0.01)
    biller.kill()
    biller.join()
    print(f"billing was killed (exit code {biller.exitcode}), and is started again", flush=True)
    biller = processes.Process(target=billing)
    biller.start()
    seller.join()
    until = time.monotonic() + 30
    while counts()[1] < ORDERS and time.monotonic() < until:
        time.sleep(0.01)
    biller.terminate()
    biller.join()
    orders, invoices, billed, days = counts()
    print(f"{orders} orders, {invoices} invoices for {billed} of them")
    print(f"{days} days were closed")
    sys.exit(0 if orders == invoices == billed == ORDERS else 1)


if __name__ == "__main__":
    main()
