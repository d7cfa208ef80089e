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

from tenure.node.names import LEADER
from tenure.observe.exposition import LASTS
from tests.faults.support import TTL, Journal

EVERY = 0.1
SCRAPE = 1.0
"""How often Prometheus is expected to look; here it is more often, to see more."""
WITHIN = 2.0
"""A page that takes longer has not come."""
NOTICED = 1.0
"""A lease that is in doubt is told so many seconds later, at most."""
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at one node."""

    at: float
    pages: dict[str, int]
    numbers: dict[str, float]

    @property
    def leads(self) -> bool:
        return self.numbers.get("tenure_leader") == 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """From when to when it took, and whether the node answered that it leads; if it answered."""

    begun: float
    at: float
    leads: bool
    late: float
    """By how much this machine let the scraper begin too late."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What was done to a node, or to the store of all: from when on, and until when."""

    at: float
    who: str | None
    over: float = NEVER


@dataclass(slots=True)
class Scraper:
    """Looks at every node in turn, and keeps what it saw."""

    ports: dict[str, int]
    seen: dict[str, list[Scrape]] = field(default_factory=dict)
    looks: dict[str, list[Look]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for who, port in self.ports.items():
            self.seen[who], self.looks[who] = [], []
            thread = threading.Thread(target=self._look, args=(who, port), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _look(self, who: str, port: int) -> None:
        waited = time.monotonic()
        while not self._over.wait(EVERY):
            begun = time.monotonic()
            found = scrape(port)
            if found is not None:
                self.seen[who].append(found)
            leads, ended = found is not None and found.leads, time.monotonic()
            self.looks[who].append(Look(begun, ended, leads, begun - waited - EVERY))
            waited = ended

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

    def sums(self) -> list[tuple[float, int]]:
        """sum(tenure_leader) after each look, as Prometheus has it: of the last value of each node,
        unless it has not answered since."""
        looks = sorted(
            ((each.at, who, each.leads) for who, looks in self.looks.items() for each in looks)
        )
        last: dict[str, bool] = {}
        found = []
        for at, who, leads in looks:
            last[who] = leads
            found.append((at, sum(last.values())))
        return found

    def changes(self, journal: Journal, faults: Iterable[Fault]) -> list[tuple[float, float]]:
        """From when to when there was no leader, or not the one that was seen last: from a fault of
        the leader or of the store, or from the doubt of the leader in its own lease, until somebody
        has taken office or trusts its lease again, and all nodes were looked at since then.

        A hint deposes a leader that lives, too, such as one whose connections a restart has ended.
        It may notice that later than its successor, or tell it later."""
        told: list[tuple[float, str, str | None]] = [
            (fact.at, fact["name"], fact.who)
            for name in (*_DOUBTS, *_LEADS)
            for fact in journal.facts(name)
            if LEADER in (fact.values.get("lease"), fact.values.get("scope"))
        ]
        told += [(fault.at, "fault", fault.who) for fault in faults]
        told += [(fault.over, "over", fault.who) for fault in faults if fault.over < NEVER]
        leader, since, doubted = None, float("-inf"), False
        found: list[tuple[float, float]] = []
        for at, what, who in sorted(told):
            is_led = what == _LEADS[0] or (what == _LEADS[1] and who == leader)
            if is_led or (what == "over" and not doubted):
                known = at
                if is_led and who != leader:
                    since, known = min(since, at - NOTICED), _noticed(journal, leader, at)
                leader = who if is_led else leader
                found.append((since, self.looked_at_all(known)))
                since, doubted = NEVER, False
            elif what in _DOUBTS and who == leader:
                since, doubted = min(since, at - NOTICED), True
            elif what == "fault" and who in (leader, None):
                since = min(since, at)
        return [*found, (since, NEVER)]

    def outlasted(self, journal: Journal) -> list[str]:
        """Those who were seen to lead when they had noticed that another had taken office."""
        taken = journal.entries("fact", name=_LEADS[0], scope=LEADER)
        ends = [*(each.at - NOTICED for each in taken[1:]), NEVER]
        return [
            f"{who} at {look.at}, {each.who} took office at {each.at}"
            for each, end in zip(taken, ends, strict=True)
            for who, looks in self.looks.items()
            for known in [_noticed(journal, who, each.at) + LASTS]
            for look in looks
            if who != each.who and look.leads and known <= look.begun < look.at < end
        ]

    def looked_at_all(self, since: float) -> float:
        """When all nodes had been looked at since then: at what is said now, not a moment ago."""
        return max(
            next((each.at for each in looks if each.begun >= since + LASTS), NEVER)
            for looks in self.looks.values()
        )

    def late(self, who: str, since: float) -> float:
        """By how much this machine, at most, let it be looked at too late since then."""
        return max((each.late for each in self.looks[who] if each.at > since), default=0.0)

    def went_back(self) -> list[str]:
        """Counters that became smaller."""
        return [
            f"{who}: {name} from {before.numbers[name]} to {after.numbers[name]}"
            for who, scrapes in self.seen.items()
            for before, after in pairwise(scrapes)
            for name in before.numbers
            if _counts(name) and after.numbers.get(name, 0.0) < before.numbers[name]
        ]


_DOUBTS = ("lease.suspended", "leader.left_office")
_LEADS = ("leader.took_office", "lease.restored")


def _noticed(journal: Journal, who: str | None, taken: float) -> float:
    """When this node knew that another had taken office: when it says so, as long as it may still
    trust its lease; otherwise it had to know at once."""
    left = [] if who is None else journal.facts("leader.left_office", who, after=taken)
    return next((f.at for f in left if f["scope"] == LEADER and f.at < taken + TTL), taken)


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
