"""Relays to a Valkey server and to Kafka's mock brokers, which are frozen, killed and restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis

from tests.faults.relaying import emit, firsts, in_order, relaying
from tests.faults.support import Cluster, until
from tests.support import freezing
from tests.support.kafka_cluster import KafkaCluster
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults


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


def _records(brokers: KafkaCluster) -> list[tuple[str | None, str]]:
    found = []
    for record in brokers.records(["ledger"]):
        headers = dict(record.headers())
        key = record.key()
        assert json.loads(record.value()) == int(headers["ce_id"])
        found.append((key.decode() if key else None, headers["ce_id"].decode()))
    return found
