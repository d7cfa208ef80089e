"""Transactional tasks that wait for a connection: their time passes, and they may be cancelled."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.e2e.command import until
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import a_scheduler, ended


@pytest.mark.parametrize("ends", ["its time", "a cancellation"])
def test_task_that_waited_too_long_is_not_begun(postgres_url: str, ends: str) -> None:
    scheduler = a_scheduler(postgres_url, lent_connections=1)
    has_it, go_on = threading.Event(), threading.Event()
    begun: list[str] = []

    @scheduler.task(transactional=True)
    def first(connection: psycopg.Connection) -> None:
        has_it.set()
        go_on.wait(20)

    @scheduler.task(transactional=True, timeout=0.3 if ends == "its time" else None)
    def second(connection: psycopg.Connection) -> None:
        begun.append("second")

    with scheduler:
        before = scheduler.enqueue(first)
        assert has_it.wait(20)
        run = scheduler.enqueue(second)
        until(lambda: scheduler.get_run(run).state != "waiting", "its claim")
        if ends == "a cancellation":
            scheduler.cancel(run)
            worker = scheduler._runtime.node.worker  # type: ignore[union-attr]
            until(lambda: any(each.cancelled for each in worker.running), "its word")
            go_on.set()
        after = ended(scheduler, run)
        assert go_on.is_set() == (ends == "a cancellation")
        go_on.set()
        assert ended(scheduler, before).state == "succeeded"
    assert after.state == ("failed" if ends == "its time" else "cancelled")
    if ends == "its time":
        assert "its timeout of 0.3 s was over before it had a connection" in (after.error or "")
    assert begun == []
