"""Nodes that are scraped all the time, by a thread of the test."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

EVERY = 0.1
WITHIN = 2.0
"""A page that takes longer has not come."""
STALE = 1.0
"""A value that is older counts no longer."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at one node."""

    at: float
    pages: dict[str, int]
    numbers: dict[str, float]

    @property
    def leads(self) -> bool:
        return self.numbers.get("tenure_leader") == 1.0


@dataclass(slots=True)
class Scraper:
    """Looks at every node in turn, and keeps what it saw."""

    ports: dict[str, int]
    seen: dict[str, list[Scrape]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for who, port in self.ports.items():
            self.seen[who] = []
            thread = threading.Thread(target=self._look, args=(who, port), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _look(self, who: str, port: int) -> None:
        while not self._over.wait(EVERY):
            if (found := scrape(port)) is not None:
                self.seen[who].append(found)

    def since(self, who: str, at: float) -> list[Scrape]:
        return [each for each in self.seen[who] if each.at > at]

    def leaders(self, who: Iterable[str] | None = None) -> list[str]:
        """Those that led when they were last seen, if that was a moment ago."""
        now = time.monotonic()
        return [
            each
            for each in who or self.ports
            if (last := self.seen[each][-1:]) and last[0].leads and now - last[0].at < 1.0
        ]

    def sums(self) -> list[tuple[float, float]]:
        """sum(tenure_leader) after each look, as Prometheus has it: of the last value of each node,
        unless that is stale."""
        looks = sorted(
            ((each.at, who, each.leads) for who, scrapes in self.seen.items() for each in scrapes)
        )
        last: dict[str, tuple[float, bool]] = {}
        found = []
        for at, who, leads in looks:
            last[who] = at, leads
            fresh = [leads for seen, leads in last.values() if at - seen < STALE]
            found.append((at, float(sum(fresh))))
        return found

    def went_back(self) -> list[str]:
        """Counters that became smaller."""
        return [
            f"{who}: {name} from {before.numbers[name]} to {after.numbers[name]}"
            for who, scrapes in self.seen.items()
            for before, after in pairwise(scrapes)
            for name in before.numbers
            if _counts(name) and after.numbers.get(name, 0.0) < before.numbers[name]
        ]


def _counts(name: str) -> bool:
    return name.partition("{")[0].endswith(("_total", "_bucket", "_count", "_sum"))


def scrape(port: int) -> Scrape | None:
    """None if it does not answer."""
    try:
        pages = {page: fetch(port, page)[0] for page in ("/healthz", "/readyz")}
        _, text = fetch(port, "/metrics")
    except (OSError, http.client.HTTPException):
        return None
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    numbers = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    return Scrape(time.monotonic(), pages, numbers)


def fetch(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def fetch_json(port: int, path: str) -> Any:
    return json.loads(fetch(port, path)[1])
