"""An editor writes into the tables what Tenure itself would refuse: the events of others are read
and delivered all the same, and runs of others end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
import redis

from tenure import Event, Relay, Run, Scheduler, every
from tests.faults.postgres import running_server
from tests.faults.support import until
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.faults

PATIENCE = 30.0
LONG = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) n)"
"""Too long for an index, also compressed."""


def event(identity: str, more: str = "", values: str = "", *, data: str = "'1'") -> str:
    if "topic" not in more:
        more, values = f"{more}, topic", f"{values}, 'news'"
    return (
        f"INSERT INTO tenure.event (namespace, id, type, time, recorded_at, data{more})"
        f" SELECT 'default', {identity}, 'T', now(), now(), {data}{values}"
    )


BEHIND = f"""
INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task,
    kwargs, state, due, attempt, crashes, priority, retries, on_crash, term, created_at, ready,
    lock, tenant)
SELECT namespace, name, uid, 'manual', 'k', now(), task, kwargs, 'waiting', now(), 0, 0, 0, 0,
    on_crash, 0, now(), false, lock, {LONG}
FROM tenure.schedule WHERE name = 'steady'
"""
EMITS = "SELECT tenure.add_event_schedule('victim', 'every 1s', 'news', 'T')"
ATTACKS = {
    "topic too long for an index": [event("'a'", ", topic", f", {LONG}")],
    "key too long for an index": [event("'a'", ", key", f", {LONG}")],
    "schedule with such a topic": [
        EMITS,
        f"UPDATE tenure.schedule SET topic = {LONG} WHERE name = 'victim'",
    ],
    "schedule with such a key": [
        EMITS,
        f"UPDATE tenure.schedule SET event_key = {LONG} WHERE name = 'victim'",
    ],
    "run that waits behind another, with such a tenant": [BEHIND],
    "words of an operator of hundreds of megabytes": [
        "UPDATE tenure.relay SET trouble = repeat('x', 300000000), revision = revision + 1",
        "UPDATE tenure.relay SET ended = repeat('x', 300000000), revision = revision + 1",
    ],
    "hundreds of large events": [
        event("'a' || n", data="""'"' || repeat('x', 1400000) || '"'""")
        + " FROM generate_series(1, 250) n"
    ],
    "headers with half a character": [event("'a'", ", headers", """, '{"a": "\\ud800"}'""")],
    "thousands of headers": [
        event("'a'", ", headers", ", json_object_agg(n, 'x')::text")
        + " FROM generate_series(1, 12000) n"
    ],
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


class Cluster:
    """A node that leads, executes and relays."""

    def __init__(self, store: RoleStore, valkey: ValkeyServer) -> None:
        self.store = store
        self.ended = 0
        self.sent = 0
        self.stream: Any = redis.Redis(port=valkey.port, decode_responses=True)
        self.stream.flushall()
        relay = Relay(f"redis-streams://127.0.0.1:{valkey.port}/0", name="r", allow_http=True)
        self.scheduler = scheduler = Scheduler(store.of("node"), ttl=2.0, relays=[relay])

        @scheduler.task(every(seconds=0.25))
        def steady(run: Run) -> None:
            pass

        scheduler.on("run.succeeded", self._count)

    def _count(self, fact: object) -> None:
        self.ended += 1

    def goes_on(self) -> None:
        ended = self.ended
        until(lambda: self.ended > ended + 2, "runs end", PATIENCE)
        self.sent += 1
        self.scheduler.emit(Event("good", "Said", self.sent, key="k"))
        until(lambda: self.sent in self._delivered(), "the event is delivered", PATIENCE)
        with self.scheduler.consumer("good", group="g", wait=PATIENCE) as consumer:
            for batch in consumer:
                read = [json.loads(each.data) for each in batch]
                with batch.transaction():
                    pass
                if self.sent in read:
                    return
        raise AssertionError("the consumer did not get the event")

    def _delivered(self) -> list[int]:
        return [json.loads(fields["data"]) for _, fields in self.stream.xrange("good")]


@contextmanager
def running(server: PostgresServer, valkey: ValkeyServer) -> Iterator[Cluster]:
    store = RoleStore(server.create_database("hostile")).made()
    cluster = Cluster(store, valkey)
    with closing(store), closing(cluster.stream), cluster.scheduler:
        yield cluster


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_an_editor_wrote_stops_nobody_else(
    attack: str, server: PostgresServer, valkey: ValkeyServer
) -> None:
    """It is refused, or does no harm."""
    with running(server, valkey) as cluster:
        cluster.goes_on()
        with cluster.store.connect("editor") as editor:
            for statement in ATTACKS[attack]:
                with suppress(psycopg.errors.CheckViolation):
                    editor.execute(statement.encode())
        for _ in range(3):
            cluster.goes_on()
