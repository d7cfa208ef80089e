"""The sink for Redis Streams passes the contract of sinks, against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis

from tenure.events.sinks.base import Outgoing, Sink, SinkPlace, Verdict
from tenure.events.sinks.registry import parse
from tenure.model import LoggedEvent
from tenure.process.clock import SystemClock
from tenure.testing.sinks import (
    PATIENCE,
    Received,
    SinkContract,
    SinkHarness,
    deliver,
    deliver_at_last,
    event,
    opened,
    verdicts,
)
from tests.docs.markdown import ROOT
from tests.support import freezing
from tests.support.proxy import Proxy
from tests.support.redis_servers import ClusterSetup, SentinelSetup, TlsFront
from tests.support.servers import ValkeyServer

PASSWORD = "hunt3rX%2Fs3cr3tY"
TOPICS = ("ledger", "other")


class StreamsHarness(SinkHarness):
    secrets: Sequence[str] = ("hunt3rX", "s3cr3tY")

    def __init__(self, server: ValkeyServer, options: str = "") -> None:
        self.server = server
        self.options = options
        self.before: list[Received] = []

    def make(self) -> Sink:
        # A server without a password for its default user takes any.
        url = f"redis-streams://default:{PASSWORD}@127.0.0.1:{self.server.port}/0{self.options}"
        return parse(SinkPlace(url, SystemClock()))()

    def line(self) -> Any:
        return redis.Redis(port=self.server.port, decode_responses=True)

    async def received(self) -> list[Received]:
        return self.before + [
            _read(fields) for topic in TOPICS for _, fields in self.entries(topic)
        ]

    def entries(self, stream: str) -> list[tuple[str, dict[str, str]]]:
        with self.line() as line:
            found = line.xrange(stream) if line.type(stream) == "stream" else []
        return [(str(name), dict(fields)) for name, fields in found]

    async def freeze(self) -> None:
        assert self.server.process is not None
        freezing.freeze(self.server.process)

    async def thaw(self) -> None:
        assert self.server.process is not None
        freezing.thaw(self.server.process)

    async def stop(self) -> None:
        self.before = await self.received()
        self.server.stop()

    async def start(self) -> None:
        self.server.start()

    def unacceptable(self, event: LoggedEvent) -> LoggedEvent | None:
        with self.line() as line:
            line.set(event.topic, "not a stream")
        return event


def _read(fields: dict[str, str]) -> Received:
    assert fields["content-type"] == "application/json"
    attributes = {n.removeprefix("ce_"): v for n, v in fields.items() if n.startswith("ce_")}
    headers = {n.removeprefix("header_"): v for n, v in fields.items() if n.startswith("header_")}
    return Received(attributes, json.loads(fields["data"]), headers)


@asynccontextmanager
async def fresh(options: str = "") -> AsyncIterator[StreamsHarness]:
    server = ValkeyServer()
    try:
        yield StreamsHarness(server.start(), options)
    finally:
        server.close()


class TestRedisStreams(SinkContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[SinkHarness]:
        async with fresh() as harness:
            yield harness


@pytest.fixture
async def harness() -> AsyncIterator[StreamsHarness]:
    async with fresh() as made:
        yield made


async def test_ids_are_positions_and_the_server_refuses_repeats(harness: StreamsHarness) -> None:
    sent = [event(position) for position in (3, 4, 9)]
    async with opened(harness) as one, opened(harness) as thawed:
        assert verdicts(await deliver(one, sent)) == [Verdict.DELIVERED] * 3
        assert verdicts(await deliver(thawed, sent[:2])) == [Verdict.DELIVERED] * 2
    assert [name for name, _ in harness.entries("ledger")] == ["3-0", "4-0", "9-0"]


async def test_a_repeat_of_what_a_consumer_deleted_is_not_added_again(
    harness: StreamsHarness,
) -> None:
    async with opened(harness) as sink:
        await deliver(sink, [event(1), event(2)])
        with harness.line() as line:
            line.xdel("ledger", "1-0", "2-0")
        assert verdicts(await deliver(sink, [event(1), event(2)])) == [Verdict.DELIVERED] * 2
        assert harness.entries("ledger") == []


async def test_a_stream_that_others_write_to_is_not_taken_for_a_repeat(
    harness: StreamsHarness,
) -> None:
    with harness.line() as line:
        line.xadd("ledger", {"from": "others"})
    async with opened(harness) as sink:
        outcomes = await deliver(sink, [event(1), event(2)])
    assert verdicts(outcomes) == [Verdict.RETRY, Verdict.UNTRIED]
    assert "of its own" in outcomes[0].reason


async def test_another_event_at_the_same_position_is_not_taken_for_a_repeat(
    harness: StreamsHarness,
) -> None:
    """As after the restore of an old backup of the store."""
    async with opened(harness) as sink:
        await deliver(sink, [event(1), event(2)])
        [outcome] = await deliver(sink, [replace(event(2), id="another")])
    assert outcome.verdict is Verdict.RETRY
    assert "restored" in outcome.reason


async def test_a_late_event_comes_after_the_others(harness: StreamsHarness) -> None:
    async with opened(harness) as sink:
        await deliver(sink, [event(1), event(5)])
        outcomes = await sink.send([Outgoing(event(3), late=True)], PATIENCE)
        assert verdicts(outcomes) == [Verdict.DELIVERED]
        assert verdicts(await deliver(sink, [event(6)])) == [Verdict.DELIVERED]
    assert [name for name, _ in harness.entries("ledger")] == ["1-0", "5-0", "5-1", "6-0"]


async def test_streams_can_be_named_and_shortened() -> None:
    async with fresh("#stream=all&maxlen=1000") as harness:
        async with opened(harness) as sink:
            for first in range(1, 5_000, 500):
                sent = [event(n, topic=f"topic-{n % 3}") for n in range(first, first + 500)]
                assert set(verdicts(await deliver(sink, sent))) == {Verdict.DELIVERED}
        names = [name for name, _ in harness.entries("all")]
        assert 1_000 <= len(names) < 2_000
        assert names[-1] == "5000-0"
    async with fresh("#prefix=events:") as harness, opened(harness) as sink:
        await deliver(sink, [event(1)])
        assert len(harness.entries("events:ledger")) == 1


async def test_a_batch_beyond_what_a_stream_keeps_is_not_taken_for_others() -> None:
    """Its first entries are gone when its end is there: sent again, they could not be found."""
    sent = [event(n) for n in range(1, 5_001)]
    async with fresh("#maxlen=1000") as harness, opened(harness) as sink:
        left = sent
        for _ in range(10):
            await deliver(sink, left)  # and nobody hears the answer
            found = verdicts(await deliver(sink, left))
            assert set(found) <= {Verdict.DELIVERED, Verdict.UNTRIED}
            left = left[found.count(Verdict.DELIVERED) :]
            if not left:
                break
        names = [name for name, _ in harness.entries("ledger")]
    assert left == []
    assert names[-1] == "5000-0"
    assert len(names) == len(set(names)) >= 1_000


async def test_a_late_event_that_is_there_already_is_not_added_again(
    harness: StreamsHarness,
) -> None:
    """It was written, its answer was lost, and it was parked: then an operator replays it."""
    async with opened(harness) as sink:
        await deliver(sink, [event(1), event(3), event(5)])
        for _ in range(2):
            outcomes = await sink.send([Outgoing(event(3), late=True)], PATIENCE)
            assert verdicts(outcomes) == [Verdict.DELIVERED]
        assert [name for name, _ in harness.entries("ledger")] == ["1-0", "3-0", "5-0"]


async def test_full_memory_is_a_sink_that_is_down(harness: StreamsHarness) -> None:
    async with opened(harness) as sink:
        await deliver(sink, [event(1)])
        with harness.line() as line:
            line.config_set("maxmemory", "1")
            outcomes = await deliver(sink, [event(2), event(3)])
            assert verdicts(outcomes) == [Verdict.DOWN, Verdict.UNTRIED]
            line.config_set("maxmemory", "0")
        assert verdicts(await deliver(sink, [event(2), event(3)])) == [Verdict.DELIVERED] * 2


async def test_a_name_that_leads_to_a_new_master_is_followed(harness: StreamsHarness) -> None:
    """The former one is a replica now, and keeps its connections."""
    former, new = harness.server, ValkeyServer().start()
    try:
        with Proxy(former.port) as name:
            url = f"redis-streams://127.0.0.1:{name.port}/0"
            async with opened_at(url) as sink:
                assert verdicts(await deliver(sink, [event(1)])) == [Verdict.DELIVERED]
                name.lead_to(new.port, keep=True)
                with harness.line() as line:
                    line.replicaof("127.0.0.1", new.port)
                    outcomes = await deliver(sink, [event(2)])
                    assert verdicts(outcomes) == [Verdict.DOWN]
                    assert "READONLY" in outcomes[0].reason
                assert verdicts(await deliver(sink, [event(2)])) == [Verdict.DELIVERED]
        with redis.Redis(port=new.port) as line:
            assert line.xlen("ledger") == 1
    finally:
        new.close()


async def test_tls(harness: StreamsHarness) -> None:
    with TlsFront(harness.server.port) as front:
        url = front.url(ssl_ca_certs=front.ca).replace("rediss", "rediss-streams")
        async with opened_at(url) as sink:
            assert verdicts(await deliver(sink, [event(1), event(2)])) == [Verdict.DELIVERED] * 2
        async with opened_at(front.url().replace("rediss", "rediss-streams")) as sink:
            [outcome] = await deliver(sink, [event(3)])
            assert (outcome.verdict, "ssl_ca_certs" in outcome.reason) == (Verdict.DOWN, True)
    assert [name for name, _ in harness.entries("ledger")] == ["1-0", "2-0"]


@pytest.mark.slow
async def test_what_sentinel_makes_the_master_gets_the_rest() -> None:
    setup = SentinelSetup(replicas=1)
    try:
        setup.start()
        async with opened_at(setup.url.replace("redis+", "redis-streams+")) as sink:
            assert verdicts(await deliver(sink, [event(1), event(2)])) == [Verdict.DELIVERED] * 2
            with redis.Redis(port=setup.master.port) as line:
                assert line.wait(1, 10_000) == 1, "the replica has them"
            setup.master.stop()
            sent = [event(n) for n in range(2, 5)]  # the relay may repeat one
            assert verdicts(await deliver_at_last(sink, sent)) == [Verdict.DELIVERED] * 3
        with redis.Redis(port=setup.replicas[0].port, decode_responses=True) as line:
            names = [name for name, _ in line.xrange("ledger")]
        assert names == ["1-0", "2-0", "3-0", "4-0"]
    finally:
        setup.close()


async def test_the_rights_on_the_page_are_enough(harness: StreamsHarness) -> None:
    page = (ROOT / "docs" / "redis-streams.md").read_text()
    [rule] = re.findall(r"^    ACL SETUSER relay (.+)$", page, re.MULTILINE)
    with harness.line() as line:
        line.execute_command("ACL", "SETUSER", "relay", *rule.replace("SECRET", "s3cr3t").split())
    url = f"redis-streams://relay:s3cr3t@127.0.0.1:{harness.server.port}/0#prefix=events:"
    async with opened_at(url) as sink:
        for _ in range(2):  # a repeat is looked up
            assert verdicts(await deliver(sink, [event(1), event(3)])) == [Verdict.DELIVERED] * 2
        late = [Outgoing(event(2), late=True)]
        assert verdicts(await sink.send(late, PATIENCE)) == [Verdict.DELIVERED]
    async with opened_at(url.replace("events:", "others:")) as sink:
        [outcome] = await deliver(sink, [event(4)])
        assert outcome.verdict is not Verdict.DELIVERED


@asynccontextmanager
async def opened_at(url: str) -> AsyncIterator[Sink]:
    sink = parse(SinkPlace(url, SystemClock()))()
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


class ClusterHarness(SinkHarness):
    """The streams `ledger` and `other` are on different servers of it."""

    def __init__(self, cluster: ClusterSetup) -> None:
        self.cluster = cluster

    def make(self) -> Sink:
        url = self.cluster.url.replace("redis+cluster", "redis-streams+cluster")
        return parse(SinkPlace(url, SystemClock()))()

    async def received(self) -> list[Received]:
        with redis.RedisCluster(
            host="127.0.0.1", port=self.cluster.nodes[0].port, decode_responses=True
        ) as line:
            return [_read(dict(each)) for name in TOPICS for _, each in line.xrange(name)]

    async def freeze(self) -> None:
        for node in self.cluster.nodes:
            assert node.process is not None
            freezing.freeze(node.process)

    async def freeze_some(self, events: Sequence[LoggedEvent]) -> Collection[LoggedEvent] | None:
        server, other = map(self.cluster.owner, TOPICS)
        assert server is not other
        assert server.process is not None
        freezing.freeze(server.process)
        return [each for each in events if each.topic == TOPICS[0]]

    async def thaw(self) -> None:
        for node in self.cluster.nodes:
            assert node.process is not None
            freezing.thaw(node.process)


@pytest.fixture
def cluster() -> Iterator[ClusterSetup]:
    setup = ClusterSetup()
    try:
        yield setup.start()
    finally:
        setup.close()


class TestRedisCluster(SinkContract):
    @pytest.fixture
    async def harness(self, cluster: ClusterSetup) -> SinkHarness:
        return ClusterHarness(cluster)


async def test_the_streams_of_a_cluster_may_be_on_different_servers(cluster: ClusterSetup) -> None:
    url = cluster.url.replace("redis+cluster", "redis-streams+cluster")
    sink = parse(SinkPlace(url, SystemClock()))()
    await sink.open()
    try:
        sent = [event(n, topic=f"topic-{n % 5}") for n in range(1, 21)]
        for _ in range(2):
            assert verdicts(await deliver(sink, sent)) == [Verdict.DELIVERED] * 20
    finally:
        await sink.close()
    hosts = "127.0.0.1"
    with redis.RedisCluster(host=hosts, port=cluster.nodes[0].port) as line:
        assert [line.xlen(f"topic-{n}") for n in range(5)] == [4] * 5
