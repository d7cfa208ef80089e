"""Relaying: how many events reach Kafka in a second, and how soon after its commit is one there?

The brokers are librdkafka's mock cluster, in a process of its own. It speaks Kafka's protocol and
keeps everything in memory, so this shows what the relay costs, not what Kafka can do. The relay of
a node and, in turns, a bare producer deliver the same rows, each in a process of its own. The bare
one reads them in batches, produces records with the same content and settings, and keeps no account
of what it has delivered. The bare one's time begins before it connects to the store, and the
relay's when it has the lease: both include the first read. It ends with the brokers' last
acknowledgement, and the relay's when that is stored too. The bare producer has connected to the
brokers before.

    python -m benchmarks.relaying OPTIONS      such a process, started from here
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.log import TOPIC, fill
from benchmarks.stores import Store
from tenure import Event, Relay, Scheduler
from tenure.events.sinks.kafka import DEFAULTS, FIXED
from tenure.facts import EventsRelayed, Fact, TookOffice
from tenure.node.names import RELAY
from tests.support.kafka_cluster import KafkaCluster

OF_BARE = 50.0
"""Per cent of the bare producer's speed."""
LATEST = 50.0
"""Milliseconds from the commit until the record is read, for 99 of 100."""
RATE, WARM_UP = 200, 100
BATCH = 1_000
_COLUMNS = "position, id, namespace, type, key, key_number, time, data"


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    rounds, count, seconds = (1, 500, 1) if quick else (5, 50_000, 20)
    ours: list[float] = []
    bare: list[float] = []
    lates: list[list[float]] = []
    for number in range(1, rounds + 1):
        with brokers() as hosts:
            with store.fresh() as url:
                asyncio.run(fill(url, count))
                ours.append(count / _apart("relay", url, hosts, count))
                bare.append(count / _apart("bare", url, hosts, count))
            say(f"{number} of {rounds}: {ours[-1]:,.0f} relayed a second, bare {bare[-1]:,.0f}")
            with store.fresh() as url:
                lates.append(_lateness(url, hosts, RATE * seconds))
            say(f"{number} of {rounds}: the latest was read {max(lates[-1]):.1f} ms after")
    shares = [100 * mine / most for mine, most in zip(ours, bare, strict=True)]
    what = f"events: commit to read from Kafka, {RATE} a second"
    each = [Figure(what, "ms", run).p99 for run in lates]
    return [
        Figure(f"events: {count:,} relayed to Kafka", "/s", ours),
        Figure("events: delivered by a bare producer", "/s", bare),
        Figure("events: relayed / bare producer", "%", shares, OF_BARE, "median", least=True),
        Figure(what, "ms", [late for run in lates for late in run]),
        Figure(f"{what}, p99 of each run", "ms", each, LATEST, "median"),
    ]


@contextmanager
def brokers() -> Iterator[str]:
    cluster = KafkaCluster().start()
    try:
        yield cluster.hosts
    finally:
        cluster.close()


def _command(**options: object) -> list[str]:
    return [sys.executable, "-m", "benchmarks.relaying", json.dumps(options)]


def _apart(what: str, url: str, hosts: str, count: int) -> float:
    """Seconds."""
    done = subprocess.run(
        _command(what=what, url=url, hosts=hosts, count=count),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=2 * PATIENCE,
    )
    return float(done.stdout.splitlines()[-1])


def relayed(url: str, hosts: str, count: int) -> float:
    done, begun, left = threading.Event(), 0.0, count

    def began(fact: Fact) -> None:
        nonlocal begun
        assert isinstance(fact, TookOffice)
        if fact.scope.startswith(RELAY):
            begun = time.monotonic()

    def told(fact: Fact) -> None:
        nonlocal left
        assert isinstance(fact, EventsRelayed)
        left -= fact.count
        if left <= 0:
            done.set()

    scheduler = Scheduler(url, relays=[Relay(f"kafka://{hosts}#topic=relayed")])
    scheduler.on("leader.took_office", began)
    scheduler.on("relay.delivered", told)
    with scheduler, closing(_connect(url)) as connection:
        assert done.wait(PATIENCE), f"{left:,} of {count:,} were not relayed"
        _until(lambda: _is_stored(connection), every=0.001)
        ended = time.monotonic()
    assert begun
    return ended - begun


def _is_stored(connection: Any) -> bool:
    """Has the relay recorded that all events were acknowledged?"""
    prefix = "tenure_" if isinstance(connection, sqlite3.Connection) else "tenure."
    [(is_all,)] = connection.execute(
        f"SELECT (SELECT max(position) FROM {prefix}relay)"
        f" >= (SELECT max(position) FROM {prefix}event)"
    ).fetchall()
    connection.rollback()
    return bool(is_all)


def by_hand(url: str, hosts: str, count: int) -> float:
    failed: list[Any] = []
    producer = Producer({**DEFAULTS, **FIXED, "bootstrap.servers": hosts, "log_level": 3})
    producer.produce("bare", "connects, and makes the topic")
    assert producer.flush(PATIENCE) == 0

    def told(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    sent, begun = 0, time.monotonic()
    with closing(_connect(url)) as connection:
        for position, identity, namespace, kind, key, number, moment, data in _rows(connection):
            headers = {
                "ce_specversion": "1.0",
                "ce_id": identity,
                "ce_source": f"/tenure/{namespace}",
                "ce_type": kind,
                "ce_time": str(moment),
                "ce_partitionkey": key,
                "ce_sequence": f"{position:020d}",
                "ce_keynumber": str(number),
                "content-type": "application/json",
            }
            producer.produce("bare", data, key, headers=headers, on_delivery=told)
            sent += 1
            if sent % BATCH == 0:
                producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    took = time.monotonic() - begun
    assert (sent, failed) == (count, [])
    return took


def _rows(connection: Any) -> Iterator[tuple[Any, ...]]:
    """All events, a batch at a time."""
    table = "tenure_event" if isinstance(connection, sqlite3.Connection) else "tenure.event"
    position = 0
    while found := connection.execute(
        f"SELECT {_COLUMNS} FROM {table} WHERE namespace = 'default' AND topic = '{TOPIC}' AND"
        f" position > {position} ORDER BY position LIMIT {BATCH}"
    ).fetchall():
        yield from found
        position = found[-1][0]


def _connect(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=PATIENCE)
    return psycopg.connect(url)


def node(url: str, hosts: str) -> None:
    """Leads and relays, until the one who started it closes its end of the pipe."""
    with Scheduler(url, relays=[Relay(f"kafka://{hosts}#topic=lateness")]):
        sys.stdin.read()


def _lateness(url: str, hosts: str, count: int) -> list[float]:
    """Milliseconds of each event, from when its commit has returned until it was read."""
    process = subprocess.Popen(
        _command(what="node", url=url, hosts=hosts),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    scheduler, read = Scheduler(url), dict[str, float]()
    scheduler.schedules()  # makes the tables
    enough = threading.Event()
    reader = threading.Thread(target=_read, args=(hosts, read, enough))
    try:
        with closing(_connect(url)) as connection:
            for number in range(WARM_UP):
                _commit(scheduler, connection, f"warm{number}")
            reader.start()
            _until(lambda: len(read) == WARM_UP)
            committed = {}
            begun = time.monotonic()
            for number in range(count):
                time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
                committed[f"e{number}"] = _commit(scheduler, connection, f"e{number}")
        _until(lambda: len(read) == WARM_UP + count)
    finally:
        enough.set()
        process.communicate(timeout=PATIENCE)
        reader.join()
        scheduler.stop()
    return [1000 * max(0.0, read[name] - at) for name, at in committed.items()]


def _commit(scheduler: Scheduler, connection: Any, name: str) -> float:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("BEGIN IMMEDIATE")
    scheduler.emit(Event(TOPIC, "Said", name, key=name), id=name, connection=connection)
    connection.commit()
    return time.monotonic()


def _read(hosts: str, read: dict[str, float], enough: threading.Event) -> None:
    consumer = Consumer({"bootstrap.servers": hosts, "group.id": "bench", "fetch.wait.max.ms": 5})
    try:
        _until(lambda: "lateness" in consumer.list_topics(timeout=PATIENCE).topics)
        parts = consumer.list_topics("lateness", timeout=PATIENCE).topics["lateness"].partitions
        consumer.assign([TopicPartition("lateness", number, 0) for number in parts])
        while not enough.is_set():
            record = consumer.poll(0.1)
            if record is not None and record.error() is None:
                read.setdefault(json.loads(record.value() or b""), time.monotonic())
    finally:
        consumer.close()


def _until(condition: Callable[[], bool], every: float = 0.01) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the brokers did not get all events"
        time.sleep(every)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    doing: dict[str, Callable[..., Any]] = {"relay": relayed, "bare": by_hand, "node": node}
    print(doing[given.pop("what")](**given))
