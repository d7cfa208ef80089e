"""A fuzz of every key that Tenure has in a Redis: whatever is put there, a running node goes on
firing, `tenure doctor` comes to its end and names the record, and a fresh node starts.

Without more, the rounds are always the same. TENURE_FUZZ_SECONDS=… takes others, for so long
(scripts/torture rows), and prints their seed; TENURE_FUZZ_SEED=7 the same again.
"""

from __future__ import annotations

import os
import re
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from tenure import Scheduler, every
from tenure.model import UNKNOWN_TTL
from tests.e2e.command import Answer, at_hand
from tests.support.bad_redis_values import (
    FIELDS,
    Damage,
    damage_hash,
    damage_history,
    damage_names,
)
from tests.support.servers import ValkeyServer

SECONDS = float(os.environ.get("TENURE_FUZZ_SECONDS", "0"))
ROUNDS = 8
USUAL = secrets.randbelow(1_000_000) if SECONDS else 1
SEED = int(os.environ.get("TENURE_FUZZ_SEED", USUAL))
FIRES_WITHIN = 2.0
"""What half of all rounds must keep."""
WITHIN = 8.0
"""What each must keep, on a machine that has other things to do."""
TTL = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    try:
        yield server.start()
    finally:
        server.close()


class Place:
    """A scheduler with its schedules in SQLite and its leases in Redis."""

    def __init__(self, server: ValkeyServer, folder: Path, namespace: str) -> None:
        self.folder, self.namespace = folder, namespace
        self.url, self.leases = f"sqlite:///{folder}/{namespace}.db", server.url
        self.line = redis.Redis.from_url(server.url)
        self.fired: list[float] = []
        self.took: list[float] = []

    def node(self) -> Scheduler:
        scheduler = Scheduler(self.url, leases=self.leases, namespace=self.namespace, ttl=TTL)

        @scheduler.task(every(seconds=0.2), name="beat", overlap="allow")
        def beat() -> None:
            self.fired.append(time.monotonic())

        return scheduler

    def fires(self, after: float = 0.0, within: float = WITHIN) -> None:
        """Something is fired, so many seconds from now or later, and not much later."""
        now = time.monotonic()
        while time.monotonic() < now + within:
            later = [at for at in self.fired[-100:] if at > now + after]
            if later:
                self.took.append(later[0] - now - after)
                return
            time.sleep(0.01)
        raise AssertionError(f"nothing was fired within {within:g} s")

    def command(self, *words: str) -> Answer:
        options = ("--url", self.url, "--leases", self.leases, "--namespace", self.namespace)
        return at_hand(self.folder, *words, *options)

    def damage(self, random: Random) -> Damage:
        """One of its keys, in one way."""
        prefix = f"tenure:{{{self.namespace}}}:"
        nodes = [str(key, "utf-8") for key in _all(self.line, f"{prefix}lease:tenure/node/*")]
        ways: list[Callable[[], Damage]] = [
            lambda: damage_hash(self.line, f"{prefix}lease:tenure/leader", FIELDS, random),
            lambda: damage_hash(self.line, f"{prefix}lease:tenure/leader", FIELDS, random),
            lambda: damage_hash(self.line, random.choice(nodes), FIELDS, random),
            lambda: damage_hash(self.line, f"{prefix}lease:{random.random()}", FIELDS, random),
            lambda: damage_hash(self.line, f"{prefix}server", ("run", "since", "term"), random),
            lambda: damage_names(self.line, f"{prefix}leases", random),
            lambda: damage_history(self.line, f"{prefix}history", random),
            lambda: damage_history(self.line, f"{prefix}history:locks", random),
        ]
        try:
            return random.choice(ways)()
        except redis.ResponseError:  # of another type already
            return self.damage(random)


@pytest.mark.timeout(180 + 2 * SECONDS)
def test_whatever_is_in_redis_schedules_fire(server: ValkeyServer, tmp_path: Path) -> None:
    random = _random()
    place = Place(server, tmp_path, "running")
    with place.node():
        place.fires(within=2 * WITHIN)
        for _ in _rounds(ROUNDS):
            for _ in range(random.choice([1, 1, 3])):
                print(place.damage(random))  # noqa: T201 - pytest shows it with a failure
            _as_the_doctor_says(place, living=f":{os.getpid()}:")
            # A renewal comes in between: before it the node does not know of it.
            place.fires(after=TTL / 4)
            _tools_work(place, random)
    _fast(place)


@pytest.mark.timeout(180 + 2 * SECONDS)
def test_fresh_node_starts_and_doctor_names_the_record(
    server: ValkeyServer, tmp_path: Path
) -> None:
    random = _random()
    place = Place(server, tmp_path, "fresh")
    for _ in _rounds(ROUNDS // 2):
        with place.node():
            # Its predecessor seems to hold what is left of its leases, and may, for a ttl.
            place.fires(within=TTL + WITHIN)
            before = _keys(place)
        _put_back(place, before)  # as if it had been killed
        done = place.damage(random)
        print(done)  # noqa: T201
        found = _tools_work(place, random)
        _as_the_doctor_says(place)
        name = done.key.partition("lease:")[2] or done.key
        if done.plain and done.key.encode() in before:
            told = [f for f in found if name in f["text"] and f["severity"] != "ok"]
            assert told, found
            assert all(f["remedy"] for f in told), found
    with place.node():
        place.fires(within=TTL + WITHIN)
    _fast(place)


def _rounds(usual: int) -> Iterator[int]:
    until, done = time.monotonic() + SECONDS / 2, 0
    while time.monotonic() < until if SECONDS else done < usual:
        yield done
        done += 1


def _fast(place: Place) -> None:
    """Most fire right after the damage, and none needs very long."""
    median, worst = statistics.median(place.took), max(place.took)
    print(f"{len(place.took)} times, median {median:.2f} s, worst {worst:.2f} s")  # noqa: T201
    assert median < FIRES_WITHIN, place.took


def _as_the_doctor_says(place: Place, living: str = "nobody") -> None:
    """If nobody renews leadership, and nobody can read when it ends, it is replaced after a minute
    or a day: longer than anybody wants to wait. Without a holder or a term it need not wait."""
    shown = place.command("leases", "show", "tenure/leader", "--json")
    if shown.code != 0 or not shown.json["live"] or shown.json["ttl"] < UNKNOWN_TTL:
        return
    damage = shown.json["unreadable"]
    if living not in shown.json["holder"] and not re.search(r"\b(holder|term)\b", damage):
        print(f"evicted: {shown.json}")  # noqa: T201
        assert place.command("leases", "evict", "tenure/leader", "--yes").code in (0, 1)


def _random() -> Random:
    print(f"TENURE_FUZZ_SEED={SEED}")  # noqa: T201
    return Random(SEED)


def _tools_work(place: Place, random: Random) -> list[Any]:
    """They come to their end, by themselves, and say at most that something is wrong."""
    for words in (
        ("status",),
        ("leases", "list", "--all"),
        ("leases", "history"),
        ("leases", "show", "tenure/leader"),
    ):
        assert place.command(*words, *random.choice([(), ("--json",)])).code in (0, 1)
    answer = place.command("doctor", "--json")
    assert answer.code in (0, 1)
    return [f for f in answer.json["findings"] if f["check"] == "Redis records"]


def _keys(place: Place) -> dict[bytes, bytes | None]:
    keys = _all(place.line, f"tenure:{{{place.namespace}}}:*")
    return {key: place.line.dump(key) for key in keys}


def _all(line: redis.Redis, pattern: str) -> list[bytes]:
    return [key for key in line.keys(pattern) if isinstance(key, bytes)]


def _put_back(place: Place, keys: dict[bytes, bytes | None]) -> None:
    for key, value in keys.items():
        if value is not None:
            place.line.restore(key, 0, value, replace=True)
