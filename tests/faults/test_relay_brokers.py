"""Relays to a Valkey server and to Kafka's mock brokers, which are frozen, killed and restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tenure import Event, Scheduler
from tests.faults.postgres import running_cluster
from tests.faults.relaying import ask, emit, firsts, in_order, relaying
from tests.faults.support import Cluster, Program, until
from tests.support import freezing
from tests.support.kafka_cluster import KafkaCluster
from tests.support.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.faults
THOSE_THAT_WAIT = """
FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
END_THOSE_THAT_WAIT = f"SELECT pg_terminate_backend(pid) {THOSE_THAT_WAIT}"
OTHERS = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
AND pid NOT IN (pg_backend_pid(), %s)
"""


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def brokers() -> Iterator[KafkaCluster]:
    made = KafkaCluster().start()
    try:
        yield made
    finally:
        made.close()


def entries(server: ValkeyServer) -> list[tuple[str | None, str]]:
    with redis.Redis(port=server.port, decode_responses=True) as line:
        found = line.xrange("ledger") if line.exists("ledger") else []
    return [(fields.get("ce_partitionkey"), fields["ce_id"]) for _, fields in found]


def test_stream_has_each_event_once_whoever_is_killed_or_frozen(
    cluster: Cluster, valkey: ValkeyServer
) -> None:
    relay = {"url": f"redis-streams://127.0.0.1:{valkey.port}/0", "batch": 10}
    first = relaying(cluster, "first", relay)
    cluster.leader("first")
    relaying(cluster, "second", relay)
    ids = emit(cluster, range(30))
    until(lambda: len(entries(valkey)) == 30, "all events")
    assert valkey.process is not None
    freezing.freeze(valkey.process)
    ids += emit(cluster, range(30, 60))
    first.kill()
    freezing.thaw(valkey.process)
    until(lambda: len(entries(valkey)) >= 60, "what was emitted meanwhile")
    ids += emit(cluster, range(60, 70))
    until(lambda: len(entries(valkey)) >= 70, "the rest")
    assert [id_ for _, id_ in entries(valkey)] == ids
    cluster.stop_all("second")


def test_brokers_that_are_away_for_a_while(cluster: Cluster, brokers: KafkaCluster) -> None:
    relay = {"url": f"kafka://{brokers.hosts}", "batch": 10}
    node = relaying(cluster, "node", relay)
    ids = emit(cluster, range(20))
    until(lambda: len(_records(brokers)) >= 20, "the first events")
    brokers.freeze()
    ids += emit(cluster, range(20, 50))
    cluster.journal.fact("relay.stalled")
    brokers.thaw()
    until(lambda: len(set(_records(brokers))) == 50, "all events")
    node.kill()
    ids += emit(cluster, range(50, 60))
    relaying(cluster, "next", relay)
    until(lambda: len(set(_records(brokers))) == 60, "the rest")
    assert firsts(_records(brokers)) == in_order(ids)
    cluster.stop_all("next")


def test_frozen_relay_adds_nothing_to_a_stream_when_it_wakes(
    cluster: Cluster, valkey: ValkeyServer
) -> None:
    relay = {"url": f"redis-streams://127.0.0.1:{valkey.port}/0", "batch": 10}
    frozen = _one_of_two(cluster, relay)
    ids = emit(cluster, range(30))
    until(lambda: len(entries(valkey)) == 30, "the first events")
    assert valkey.process is not None
    freezing.freeze(valkey.process)  # what is sent now is on its way when the relay freezes
    ids += emit(cluster, range(30, 60))
    _taken_over(cluster, frozen, relay)
    freezing.thaw(valkey.process)
    until(lambda: len(entries(valkey)) >= 60, "what the other sends")
    thawed = frozen.thaw()
    _leaves(cluster, relay, thawed)
    ids += emit(cluster, range(60, 70))
    until(lambda: len(entries(valkey)) >= 70, "the rest")
    assert [id_ for _, id_ in entries(valkey)] == ids
    cluster.stop_all()


def test_relay_to_kafka_that_is_killed_between_send_and_acknowledgement(
    postgres: PostgresServer, tmp_path: Path, brokers: KafkaCluster
) -> None:
    relay = {"url": f"kafka://{brokers.hosts}", "batch": 10}
    with running_cluster(postgres, tmp_path) as cluster:
        first = relaying(cluster, "first", relay)
        ids = emit(cluster, range(10))
        until(lambda: len(_records(brokers)) == 10, "the first events")
        until(lambda: ask(cluster, "events", "relays")[0]["unread"] == 0, "what is stored")
        with (
            psycopg.connect(cluster.url) as line,
            # A transaction would go on seeing the sessions that there were at its first look.
            psycopg.connect(cluster.url, autocommit=True) as look,
        ):
            line.execute("SELECT FROM tenure.relay FOR UPDATE")  # nothing can be acknowledged
            ids += emit(cluster, range(10, 20))
            until(lambda: len(_records(brokers)) > 10, "what is confirmed")
            until(
                lambda: look.execute(f"SELECT 1 {THOSE_THAT_WAIT}").fetchall(), "it is to be stored"
            )
            unread = "all to have their positions, which it gives them, too"
            until(lambda: ask(cluster, "events", "relays")[0]["unread"] == 10, unread)
            first.kill()

            def ended() -> bool:
                """The server would still execute what it was sent before."""
                look.execute(END_THOSE_THAT_WAIT)
                return not look.execute(OTHERS, [line.info.backend_pid]).fetchall()

            until(ended, "its sessions to end")
        assert ask(cluster, "events", "relays")[0]["unread"] == 10
        relaying(cluster, "second", relay)
        ids += emit(cluster, range(20, 30))
        until(lambda: len(set(_records(brokers))) == 30, "all events")
        came = _records(brokers)
        assert firsts(came) == in_order(ids)
        assert len(came) > len(set(came)), "what was not acknowledged came again, with the same id"
        cluster.stop_all("second")


def test_relay_to_kafka_that_was_frozen_past_its_lease_only_repeats(
    cluster: Cluster, brokers: KafkaCluster
) -> None:
    relay = {"url": f"kafka://{brokers.hosts}", "batch": 10}
    frozen = _one_of_two(cluster, relay)
    ids = emit(cluster, range(20))
    until(lambda: len(_records(brokers)) == 20, "the first events")
    brokers.freeze()
    ids += emit(cluster, range(20, 50))
    _taken_over(cluster, frozen, relay)
    brokers.thaw()
    until(lambda: len(set(_records(brokers))) == 50, "all events, from the other")
    thawed = frozen.thaw()
    _leaves(cluster, relay, thawed)
    ids += emit(cluster, range(50, 60))
    until(lambda: len(set(_records(brokers))) == 60, "the rest")
    assert firsts(_records(brokers)) == in_order(ids)
    cluster.stop_all()


def test_key_that_kafka_refuses_holds_no_other(cluster: Cluster, brokers: KafkaCluster) -> None:
    relay = {"url": f"kafka://{brokers.hosts}?message.max.bytes=2000", "batch": 10}
    relaying(cluster, "node", relay)
    scheduler = Scheduler(cluster.url)
    scheduler.emit(Event("ledger", "Booked", "x" * 3_000, key="b"), id="large")
    scheduler.stop()
    ids = emit(cluster, range(30))
    parked = cluster.journal.fact("relay.parked")
    assert (parked["key"], parked["holds"], "3,002 bytes" in parked["reason"]) == ("b", True, True)
    until(lambda: len(_records(brokers)) == 20, "the other keys")
    assert set(firsts(_records(brokers))) == {"a", "c"}
    assert ask(cluster, "events", "parked", "--drop", "--yes")["changed"] == 1
    until(lambda: len(_records(brokers)) == 30, "the key goes on without it")
    assert firsts(_records(brokers)) == in_order(ids)
    cluster.stop_all()


def test_broker_that_is_silent_holds_up_the_keys_of_its_partitions(
    cluster: Cluster, brokers: KafkaCluster
) -> None:
    keys = "abcdefgh"
    brokers.spread("ledger")
    relaying(cluster, "node", {"url": f"kafka://{brokers.hosts}", "batch": 10})
    ids = emit(cluster, range(8), keys)
    until(lambda: len(_records(brokers)) == 8, "the first events")
    leaders = brokers.leaders("ledger")
    silent = [r for r in brokers.records(["ledger"]) if leaders[r.partition()] == 1]
    assert 0 < len(silent) < 8
    brokers.silence(1)
    ids += emit(cluster, range(8, 40), keys)

    def goes_on() -> bool:
        [relay] = ask(cluster, "events", "relays")
        return (relay["position"], relay["held"]) == (40, len(silent))

    until(goes_on, "all other keys to be delivered")
    brokers.silence(1, 0)
    until(lambda: ask(cluster, "events", "relays")[0]["held"] == 0, "those keys, too")
    assert firsts(_records(brokers)) == in_order(ids, keys)
    cluster.stop_all()


def _one_of_two(cluster: Cluster, relay: dict[str, Any]) -> Program:
    """The one that has the relay; the other stands by."""
    first = relaying(cluster, "first", relay)
    cluster.journal.fact("leader.took_office", "first", scope=_scope(relay))
    relaying(cluster, "other", relay)
    cluster.journal.fact("node.started", "other")
    return first


def _taken_over(cluster: Cluster, frozen: Program, relay: dict[str, Any]) -> None:
    at = cluster.freeze(frozen)
    cluster.journal.fact("leader.took_office", "other", after=at, scope=_scope(relay))


def _leaves(cluster: Cluster, relay: dict[str, Any], thawed: float) -> None:
    cluster.journal.fact("leader.left_office", "first", after=thawed, scope=_scope(relay))


def _scope(relay: dict[str, Any]) -> str:
    return f"tenure/relay/{relay['url'].partition('://')[0]}"


def _records(brokers: KafkaCluster) -> list[tuple[str | None, str]]:
    found = []
    for record in brokers.records(["ledger"]):
        headers = dict(record.headers())
        key = record.key()
        assert json.loads(record.value()) == int(headers["ce_id"])
        found.append((key.decode() if key else None, headers["ce_id"].decode()))
    return found
