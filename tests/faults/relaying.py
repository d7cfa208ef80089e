"""Relays of real processes to real servers: what these tests share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenure import Event, Scheduler
from tenure.testing.sinks import Received
from tests.e2e.command import at_hand
from tests.faults.support import TTL, Cluster, Program
from tests.support.http_receiver import HttpReceiver

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
KEYS = ("a", "b", "c")


def to_receiver(receiver: HttpReceiver, **options: Any) -> dict[str, Any]:
    """A relay to it, for a node."""
    url = f"webhook+http://127.0.0.1:{receiver.port}/#secret={SECRET}&timeout=5"
    return {"url": url, "allow_http": True, "allow_private": True, "batch": 20, **options}


def relaying(cluster: Cluster, who: str, relay: dict[str, Any], **options: Any) -> Program:
    return cluster.node(who, ttl=TTL, relays=[relay], **options)


def emit(cluster: Cluster, numbers: Iterable[int], keys: Sequence[str | None] = KEYS) -> list[str]:
    """Events of each key in turn; their ids."""
    scheduler = Scheduler(cluster.url)
    try:
        return [
            scheduler.emit(Event("ledger", "Booked", n, key=keys[n % len(keys)]), id=f"{n:05d}")
            for n in numbers
        ]
    finally:
        scheduler.stop()


@contextmanager
def receiver() -> Iterator[HttpReceiver]:
    made = HttpReceiver([SECRET]).start()
    try:
        yield made
    finally:
        made.close()


def ask(cluster: Cluster, *command: str) -> Any:
    """A command about this store."""
    answer = at_hand(cluster.folder, *command, "--url", cluster.url, "--json")
    assert answer.code == 0, answer
    return answer.json


def firsts(received: Iterable[tuple[str | None, str]]) -> dict[str | None, list[str]]:
    """The ids that arrived, of each key, in the order of their first arrivals."""
    found: dict[str | None, dict[str, None]] = {}
    for key, id_ in received:
        found.setdefault(key, {})[id_] = None
    return {key: list(ids) for key, ids in found.items()}


def arrivals(received: Iterable[Received]) -> list[tuple[str | None, str]]:
    return [(each.attributes.get("partitionkey"), each.attributes["id"]) for each in received]


def in_order(ids: Sequence[str], keys: Sequence[str | None] = KEYS) -> dict[str | None, list[str]]:
    """What has to have arrived."""
    return {key: [id_ for id_ in ids if keys[int(id_) % len(keys)] == key] for key in keys}
