"""Brokers that speak Kafka's protocol: librdkafka's mock cluster, in a process of its own.

It carries produce, idempotent produce and fetch over real connections. It is not Kafka: it keeps
everything in memory, refuses little, and proves nothing about transactions or replication.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any, Self

from tests.support import freezing

PATIENCE = 30.0
BROKERS = 3
SILENT = 3_600_000
"""In milliseconds: how long a silent broker takes to answer."""


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

    def silence(self, broker: int, milliseconds: int = SILENT) -> None:
        """From now on this broker, 1 to 3, answers so late; 0 has it answer at once again."""
        self._tell("silence", broker, milliseconds)

    def spread(self, topic: str, partitions: int = 6) -> None:
        """Create the topic, its partitions led by the three brokers in turn: the cluster's own
        choice is by chance, and may leave one out."""
        self._tell("spread", topic, partitions)

    def _tell(self, *words: object) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def leaders(self, topic: str) -> list[int]:
        """The broker that leads each partition of this topic."""
        from confluent_kafka.admin import AdminClient

        known = AdminClient({"bootstrap.servers": self.hosts}).list_topics(topic, PATIENCE)
        parts = known.topics[topic].partitions
        return [parts[number].leader for number in sorted(parts)]

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
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)  # and so librdkafka, which Python's driver hides
    for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, function).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    problem = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    client = ctypes.c_void_p(library.rd_kafka_new(0, settings, problem, len(problem)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, BROKERS))
    hosts: bytes = library.rd_kafka_mock_cluster_bootstraps(cluster)
    _say(hosts.decode())
    for line in sys.stdin:
        match line.split():
            case ["silence", broker, milliseconds]:
                library.rd_kafka_mock_broker_set_rtt(cluster, int(broker), int(milliseconds))
            case ["spread", topic, partitions]:
                encoded, count = topic.encode(), int(partitions)
                assert not library.rd_kafka_mock_topic_create(cluster, encoded, count, BROKERS)
                for part in range(count):
                    leader = part % BROKERS + 1
                    assert not library.rd_kafka_mock_partition_set_leader(
                        cluster, encoded, part, leader
                    )
        _say("done")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
