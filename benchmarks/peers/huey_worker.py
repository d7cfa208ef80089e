"""huey's consumer on a SQLite file: tasks that wait are dequeued and run by its threads.

Twenty at a time, as a node of ours does by default. A task is deleted when it is taken, before it
runs, and nothing is recorded of one that returns nothing: so they are counted as they run.
"""
# Not type-checked: it is not installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import logging
import threading
import time

from huey import SqliteHuey

from benchmarks.peers.workload import Options, options, tell


def main(given: Options) -> None:
    huey = SqliteHuey(filename=given.url.removeprefix("sqlite:///"), fsync=True)
    lock, done, ran = threading.Lock(), threading.Event(), 0

    @huey.task()
    def nothing(user: int) -> None:
        nonlocal ran
        with lock:
            ran += 1
            if ran == given.due:
                done.set()

    for _ in range(given.due):
        nothing(1)
    consumer = huey.create_consumer(workers=20, worker_type="thread", periodic=False)
    begun = time.perf_counter()
    consumer.start()
    assert done.wait(240)
    ended = time.perf_counter()
    consumer.stop(graceful=True)
    tell(ran, begun + time.perf_counter() - ended)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    main(options())
