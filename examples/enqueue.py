"""A shop that packs each order once, and not one that was never placed: python examples/enqueue.py

The run is enqueued in the transaction that stores the order: both are there, or neither. Whoever
asks again with the same key gets the same run. The program places some orders and ends.
"""

import sqlite3
import threading
from contextlib import closing

from tenure import Run, Scheduler

FILE = "shop.db"
scheduler = Scheduler(f"sqlite:///{FILE}")
packed = threading.Semaphore(0)


@scheduler.task(retries=3)
def pack(order: int, run: Run) -> None:
    print(f"order {order} is packed, run {run.id}", flush=True)
    packed.release()


def place_order(customer: str, *, paid: bool) -> int | None:
    with closing(sqlite3.connect(FILE)) as shop:
        placed = shop.execute("INSERT INTO orders (customer) VALUES (?)", (customer,))
        order = placed.lastrowid
        scheduler.enqueue(pack, kwargs={"order": order}, key=f"order-{order}", connection=shop)
        if not paid:
            shop.rollback()  # no order, and nothing to pack
            return None
        shop.commit()
        return order


def main() -> None:
    with scheduler:
        with closing(sqlite3.connect(FILE)) as shop, shop:
            shop.execute(
                "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT)"
            )
        assert place_order("bolt", paid=False) is None
        order = place_order("acme", paid=True)
        packed.acquire(timeout=20)
        again = scheduler.enqueue(pack, kwargs={"order": order}, key=f"order-{order}")
        print(f"asked again: run {again.id}, nothing new")
        scheduler.enqueue(pack, kwargs={"order": 100}, delay=0.5)
        packed.acquire(timeout=20)
    print(f"{len(scheduler.runs())} runs")
    scheduler.stop()


if __name__ == "__main__":
    main()
