"""Brokers that speak Kafka's protocol: librdkafka's mock cluster, in a process of its own.

It carries produce, idempotent produce and fetch over real connections. It is not Kafka: it keeps
everything in memory, refuses little, and proves nothing about transactions or replication.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Self

from tests.support import freezing

PATIENCE = 30.0
BROKERS = 3


class KafkaCluster:
    """Three brokers. They can be frozen; after a restart they would be elsewhere, and empty."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.hosts = ""

    def start(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kafka_cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.hosts = self.process.stdout.readline().strip()
        assert self.hosts, "the mock cluster did not start"
        return self

    def freeze(self) -> None:
        assert self.process is not None
        freezing.freeze(self.process)

    def thaw(self) -> None:
        assert self.process is not None
        freezing.thaw(self.process)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def records(self, topics: list[str]) -> list[Any]:
        """All records of these topics, each partition in its order."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.hosts, "group.id": "tests"})
        try:
            known = consumer.list_topics(timeout=PATIENCE).topics
            parts = [
                TopicPartition(topic, number, 0)
                for topic in topics
                if topic in known
                for number in known[topic].partitions
            ]
            left = sum(consumer.get_watermark_offsets(part, PATIENCE)[1] for part in parts)
            consumer.assign(parts)
            found: list[Any] = []
            while len(found) < left:
                record = consumer.poll(PATIENCE)
                assert record is not None, f"{len(found)} of {left} records"
                assert record.error() is None, record.error()
                found.append(record)
            return found
        finally:
            consumer.close()


def serve() -> None:
    """Runs until the one who started it closes its end of the pipe."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": BROKERS})
    brokers = producer.list_topics(timeout=PATIENCE).brokers.values()
    sys.stdout.write(",".join(f"{broker.host}:{broker.port}" for broker in brokers) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve()
