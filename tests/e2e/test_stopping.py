"""`stop` may be called twice at once, and calls may meet in each life of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tenure import Scheduler

PATIENCE = 30.0


def at_once(pool: ThreadPoolExecutor, calls: int, call: Callable[[], object]) -> list[object]:
    """Their results: they begin together."""
    barrier = threading.Barrier(calls)

    def begin() -> object:
        barrier.wait(PATIENCE)
        return call()

    return [future.result(PATIENCE) for future in [pool.submit(begin) for _ in range(calls)]]


def test_a_second_stop_waits_for_the_first(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db")
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    @scheduler.task
    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE)
        ended.set()

    seen: list[bool] = []

    def stop() -> None:
        scheduler.stop(grace=PATIENCE)
        seen.append(ended.is_set())

    scheduler.start()
    scheduler.enqueue(work)
    assert begun.wait(PATIENCE)
    with ThreadPoolExecutor(2) as pool:
        stops: list[Future[None]] = [pool.submit(stop) for _ in range(2)]
        # One that does not wait is done at once.
        assert not wait(stops, 0.5, FIRST_COMPLETED).done
        may_end.set()
        for future in stops:
            future.result(PATIENCE)
    assert seen == [True, True]


def test_calls_meet_in_each_life(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert at_once(pool, 8, scheduler.schedules) == [[]] * 8
            scheduler.stop()
