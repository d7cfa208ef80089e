"""The Kafka sink passes the contract of sinks, against librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tenure.events.sinks.base import Sink, SinkPlace, Verdict
from tenure.events.sinks.registry import parse
from tenure.model import LoggedEvent
from tenure.process.clock import SystemClock
from tenure.testing.sinks import (
    BRIEF,
    PATIENCE,
    Received,
    SinkContract,
    SinkHarness,
    deliver,
    event,
    opened,
    outgoing,
    verdicts,
)
from tests.support.kafka_cluster import KafkaCluster
from tests.support.servers import free_port

PASSWORD = "hunt3rX%2Fs3cr3tY"


class KafkaHarness(SinkHarness):
    secrets: Sequence[str] = ("hunt3rX", "s3cr3tY")

    def __init__(self, options: str = "") -> None:
        self.options = options
        self.cluster = KafkaCluster().start()
        for topic in ("ledger", "other"):
            self.cluster.spread(topic)  # so that each broker has something to be silent about

    def make(self) -> Sink:
        # The mock cluster asks for no password; the sink has one to hide all the same.
        url = f"kafka://app:{PASSWORD}@{self.cluster.hosts}?security.protocol=PLAINTEXT"
        return parse(SinkPlace(url + self.options, SystemClock()))()

    async def received(self) -> list[Received]:
        return [_read(each) for each in await self.records()]

    async def records(self, *topics: str) -> list[Any]:
        return await asyncio.to_thread(self.cluster.records, list(topics or ("ledger", "other")))

    async def freeze(self) -> None:
        self.cluster.freeze()

    async def thaw(self) -> None:
        self.cluster.thaw()
        self.cluster.silence(1, 0)

    async def freeze_some(self, events: Sequence[LoggedEvent]) -> Collection[LoggedEvent] | None:
        """One of the three brokers is silent, and so are the partitions that it leads."""
        leaders = {topic: self.cluster.leaders(topic) for topic in ("ledger", "other")}
        self.cluster.silence(1)
        return [each for each in events if _leader(each, leaders[each.topic]) == 1]

    def unacceptable(self, event: LoggedEvent) -> LoggedEvent | None:
        return replace(event, data=json.dumps("x" * 2_000_000))


def _read(record: Any) -> Received:
    headers = dict(record.headers())
    parsed = from_kafka(
        KafkaMessage(headers, record.key(), record.value()), JSONFormat(), CloudEvent
    )
    attributes = {**parsed.get_attributes()}
    assert attributes.pop("datacontenttype") == "application/json"
    attributes["time"] = attributes["time"].isoformat().replace("+00:00", "Z")
    given = {
        name: value.decode()
        for name, value in headers.items()
        if not name.startswith("ce_") and name != "content-type"
    }
    return Received(attributes, parsed.get_data(), given)


@pytest.fixture
async def harness() -> AsyncIterator[KafkaHarness]:
    made = KafkaHarness()
    try:
        yield made
    finally:
        made.cluster.close()


class TestKafka(SinkContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[SinkHarness]:
        made = KafkaHarness()
        try:
            yield made
        finally:
            made.cluster.close()


def murmur2(data: bytes) -> int:
    """As Java's producers hash keys: written from the algorithm's description, 32 bits."""
    m, length = 0x5BD1E995, len(data)
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    for at in range(0, length - length % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    if rest := data[length - length % 4 :]:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * m & 0xFFFFFFFF
    return h ^ (h >> 15)


def _leader(event: LoggedEvent, leaders: Sequence[int]) -> int:
    assert event.key is not None
    return leaders[(murmur2(event.key.encode()) & 0x7FFFFFFF) % len(leaders)]


async def test_keys_go_to_the_partitions_of_javas_producers(harness: KafkaHarness) -> None:
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF, "the value in Kafka's own tests"
    keys = [f"account-{number}" for number in range(40)] + ["ä", "x" * 199]
    async with opened(harness) as sink:
        sent = [event(number, key) for number, key in enumerate(keys, 1)]
        assert verdicts(await deliver(sink, sent)) == [Verdict.DELIVERED] * len(keys)
    records = await harness.records("ledger")
    parts = {record.key(): record.partition() for record in records}
    count = 1 + max(parts.values())
    assert count > 1
    assert parts == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % count for key in keys}


@pytest.mark.parametrize(
    ("options", "topic"), [("#topic=all", "all"), ("#prefix=tenure.", "tenure.ledger")]
)
async def test_topics_can_be_named(harness: KafkaHarness, options: str, topic: str) -> None:
    harness.options = options
    async with opened(harness) as sink:
        assert verdicts(await deliver(sink, [event(1)])) == [Verdict.DELIVERED]
    assert len(await harness.records(topic)) == 1


async def test_an_address_where_nobody_listens_is_down_with_the_reason() -> None:
    sink = parse(SinkPlace(f"kafka://127.0.0.1:{free_port()}", SystemClock()))()
    await sink.open()
    try:
        [outcome] = await sink.send(outgoing([event(1)]), 1.5)
        assert outcome.verdict is Verdict.DOWN
        assert "refused" in outcome.reason.lower() or "down" in outcome.reason.lower()
    finally:
        await sink.close()


async def test_a_batch_of_thousands_goes_through(harness: KafkaHarness) -> None:
    sent = [event(number, f"key-{number % 50}") for number in range(1, 5_001)]
    async with opened(harness) as sink:
        outcomes = await sink.send(outgoing(sent), PATIENCE)
        assert set(verdicts(outcomes)) == {Verdict.DELIVERED}
    assert len(await harness.records("ledger")) == len(sent)


async def test_what_was_confirmed_says_nothing_of_the_next_batch(harness: KafkaHarness) -> None:
    first, second = ([event(number) for number in numbers] for numbers in ((1, 2, 3), (4, 5)))
    async with opened(harness) as sink:
        assert set(verdicts(await sink.send(outgoing(first), PATIENCE))) == {Verdict.DELIVERED}
        await harness.freeze()
        assert Verdict.DELIVERED not in verdicts(await sink.send(outgoing(second), BRIEF))
        await harness.thaw()
        assert set(verdicts(await sink.send(outgoing(second), PATIENCE))) == {Verdict.DELIVERED}
