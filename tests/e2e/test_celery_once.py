"""`Celery(task_cls=Once)`: a worker of Celery's own, and messages as two beats send them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker

from tenure import Scheduler
from tenure.contrib.celery import Once
from tenure.contrib.celery.once import MARK
from tenure.contrib.celery.sending import SENT
from tests.faults.support import until
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer


class Site:
    """An application with a broker in memory, a worker, and a line to its store."""

    def __init__(self, line: Proxy, url: str) -> None:
        self.line = line
        self.executed: list[tuple[str, str]] = []
        self.app = Celery("once", broker="memory://", task_cls=Once, set_as_current=False)
        self.app.conf.update(tenure_url=url, worker_hijack_root_logger=False)
        self.app.conf.task_default_queue = str(uuid4())  # all of a process share that broker

        @self.app.task(name="note", bind=True, shared=False)  # type: ignore[untyped-decorator]
        def note(task: Any, again: bool = False) -> None:
            self.executed.append((task.request.id, task.request.headers[SENT]))
            if again and not task.request.retries:
                raise task.retry(countdown=0)

        self._note = note

    def send(self, task_id: str, sent: str, **kwargs: Any) -> None:
        self._note.apply_async(kwargs=kwargs, task_id=task_id, headers={SENT: sent})

    def until_executed(self, *expected: tuple[str, str]) -> None:
        """One more message goes last: what is before it has been dealt with by then."""
        self.send("last", str(uuid4()))
        until(lambda: any(i == "last" for i, _ in self.executed), "all messages to be dealt with")
        assert [done for done in self.executed if done[0] != "last"] == list(expected)


@pytest.fixture
def site(postgres: PostgresServer) -> Iterator[Site]:
    database = postgres.create_database().rpartition("/")[2]
    with Proxy(postgres.port) as line:
        site = Site(line, f"postgresql://tenure@127.0.0.1:{line.port}/{database}")
        with start_worker(site.app, pool="solo", perform_ping_check=False, loglevel="WARNING"):
            yield site


def test_of_two_messages_under_one_id_the_first_is_executed(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.send("a", "by one beat")
    site.send("a", "by another")
    site.send("b", "by another")
    site.until_executed(("a", "by one beat"), ("b", "by another"))
    assert "task note[a] was sent twice: ignored" in caplog.text
    scheduler = Scheduler(site.app.conf.tenure_url)
    marks = scheduler.runs(task=MARK)
    scheduler.stop()
    assert len(marks) == 3  # one for each id


def test_retries_and_what_the_broker_delivers_again_are_executed(site: Site) -> None:
    site.send("a", "once", again=True)
    until(lambda: len(site.executed) == 2, "the retry")
    site.send("a", "once")  # as the broker does when a worker has died with it
    site.until_executed(*[("a", "once")] * 3)


def test_a_store_that_is_away_is_waited_for(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="tenure.celery")
    site.line.become("cut")
    site.send("a", "by one beat")
    site.send("a", "by another")
    until(lambda: "task a waits for Tenure's store" in caplog.text, "a worker that waits")
    assert site.executed == []
    site.line.become("pass")
    site.until_executed(("a", "by one beat"))
