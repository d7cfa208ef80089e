"""Health and metrics while nodes are killed and frozen and their store restarts; and those who
scrape with bad intentions."""

from __future__ import annotations

import json
import re
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.observing import SCRAPE, Fault, Look, Scraper, fetch
from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import LEADER, TTL, Cluster, Journal, task, until
from tests.support.open_files import allow_many
from tests.support.servers import free_port, release_port

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
NODES = ("a", "b", "c")


@pytest.fixture
def ports() -> Iterator[dict[str, int]]:
    found = {who: free_port() for who in NODES}
    yield found
    for port in found.values():
        release_port(port)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_server() as server, running_cluster(server, tmp_path) as made:
        yield made


def test_numbers_tell_the_truth_while_nodes_die_and_freeze_and_the_store_restarts(
    postgres: PostgresCluster, ports: dict[str, int]
) -> None:
    nodes = {
        who: postgres.a_node(who, ttl=TTL, health=f"127.0.0.1:{port}")
        for who, port in ports.items()
    }
    with Scraper(ports) as scraper:
        until(lambda: len(scraper.leaders()) == 1, "a leader")
        until(lambda: all(_ready(scraper, who) for who in NODES), "three ready nodes")

        _looks(scraper, list(NODES))

        [first] = scraper.leaders()
        killed = nodes[first].kill()
        rest = [who for who in NODES if who != first]
        until(lambda: len(scraper.leaders(rest)) == 1, "a successor")
        takeover = postgres.leader(rest, after=killed)
        _answered(scraper, rest, killed, takeover.at)
        _looks(scraper, rest)

        [second] = scraper.leaders(rest)
        [third] = [who for who in rest if who != second]
        frozen = nodes[second].freeze()
        until(lambda: scraper.leaders([third]), "a successor")
        _answered(scraper, [third], frozen, postgres.leader(third, after=frozen).at)
        nodes[second].thaw()
        over = time.monotonic()
        thawed = until(lambda: scraper.since(second, frozen + TTL), "the thawed node's answer")
        assert thawed[0].at - over < SCRAPE + scraper.late(second, frozen)
        # It knew at once, and tells no more about the store, as its successor does.
        assert not thawed[0].leads
        assert "tenure_term" not in thawed[0].numbers
        until(lambda: "tenure_term" in scraper.seen[third][-1].numbers, "its successor's survey")
        lost = 'tenure_left_office_total{reason="lost"}'
        until(lambda: scraper.seen[second][-1].numbers[lost] == 1, "its loss to be counted")
        _looks(scraper, rest)

        stopped = time.monotonic()
        postgres.server.stop()
        until(lambda: all(_away(scraper, who) for who in rest), "the outage to be told")
        assert scraper.leaders() in ([], [third])  # until it trusts its lease no longer
        postgres.server.start()
        back = time.monotonic()
        until(lambda: len(scraper.leaders(rest)) == 1, "a leader after the outage")
        # Nobody became unready or was to be restarted, and everybody answered all the time.
        _answered(scraper, rest, stopped, time.monotonic())
        _looks(scraper, rest)
    assert scraper.went_back() == []
    assert scraper.seen[third][-1].numbers["tenure_takeovers_total"] >= 1
    # From the first leader on, and apart from takeovers, one leads, at every look.
    faults = [Fault(killed, first), Fault(frozen, second), Fault(stopped, None, back)]
    changes = scraper.changes(postgres.journal, faults)
    steady = [
        (at, leaders)
        for at, leaders in scraper.sums()
        if not any(begun <= at <= ended for begun, ended in changes)
    ]
    assert len(steady) > 24  # on a busy machine, faults take a large part of the time
    assert [each for each in steady if each[1] != 1] == []
    assert scraper.outlasted(postgres.journal) == []
    postgres.stop_all()


@pytest.mark.parametrize(("known", "right"), [(10.4, True), (None, False)])
def test_leader_that_was_deposed_alive_leads_until_it_has_noticed(
    tmp_path: Path, known: float | None, right: bool
) -> None:
    """How numbers are judged: a was scraped before it knew of b; then b, whose page was a moment
    old; only then both as they are now."""
    journal = Journal(tmp_path / "journal")
    told: list[tuple[float, str, str]] = [(0.0, "a", "leader.took_office")]
    told.append((10.0, "b", "leader.took_office"))
    if known is not None:
        told.append((known, "a", "leader.left_office"))
    for at, who, name in told:
        line = {"event": "fact", "who": who, "pid": 1, "at": at, "name": name, "scope": LEADER}
        with journal.path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")
    scraper = Scraper({})
    seen = {"a": [(1.0, True), (5.0, True), (10.3, True), (10.45, False), (12.0, False)]}
    seen["b"] = [
        (1.1, False),
        (5.1, False),
        (10.15, False),
        (10.5, True),
        (12.1, True),
        (13.0, True),
    ]
    for who, looks in seen.items():
        scraper.looks[who] = [Look(at - 0.01, at, leads, 0.0) for at, leads in looks]
    assert (scraper.outlasted(journal) == []) is right
    changes = scraper.changes(journal, [])
    steady = [
        number
        for at, number in scraper.sums()
        if not any(begun <= at <= ended for begun, ended in changes)
    ]
    assert set(steady) == {1}


def _looks(scraper: Scraper, nodes: list[str]) -> None:
    """While nothing happens."""
    begun = time.monotonic()
    until(lambda: all(len(scraper.since(who, begun)) >= 8 for who in nodes), "looks")


def _ready(scraper: Scraper, who: str) -> bool:
    return any(each.pages["/readyz"] == 200 for each in scraper.seen[who])


def _away(scraper: Scraper, who: str) -> bool:
    last = scraper.seen[who][-1].numbers
    return 0.0 in (last['tenure_store_up{part="leases"}'], last['tenure_store_up{part="store"}'])


def _answered(scraper: Scraper, nodes: list[str], since: float, over: float) -> None:
    """They were well all the time since then, and said so. For one who scrapes every second, there
    was no gap longer than what was done to others or to the store."""
    # A takeover may be over before anybody has looked.
    until(lambda: all(scraper.since(who, over) for who in nodes), "a look at each since then")
    for who in nodes:
        scrapes = scraper.since(who, since)
        assert {each.pages["/healthz"] for each in scrapes} == {200}
        assert {each.pages["/readyz"] for each in scrapes} == {200}
        gaps = [y.at - x.at for x, y in pairwise(scrapes)]
        assert max(gaps, default=0.0) < over - since + SCRAPE + scraper.late(who, since)


LONG_NAMES = [task(f"{number:03d}-{'x' * 150}", 86_400) for number in range(400)]
"""For a page of metrics that no socket takes at once."""


def test_hostile_scrapers_cost_no_tick(cluster: Cluster, ports: dict[str, int]) -> None:
    port = ports["a"]
    cluster.node("a", TICK, *LONG_NAMES, ttl=TTL, health=f"127.0.0.1:{port}")
    leading = cluster.leader("a")
    usual = _lateness(cluster, leading.at, 20)
    allow_many()  # after the start of the node, which has the usual limit
    begun = time.monotonic()
    over = threading.Event()
    never_reads = _Deaf(port)
    attacks = [
        threading.Thread(target=attack, args=(over,), daemon=True)
        for attack in (partial(_flood, port), never_reads.ask_again_and_again)
    ]
    with ExitStack() as stack:
        for _ in range(1_000):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=5)
                stack.enter_context(client)
        for attack in attacks:
            attack.start()
        for _ in range(5):
            assert fetch(port, "/healthz")[0] == 200
        # A tick each quarter of a second goes on, on time.
        late = _lateness(cluster, begun, 40)
        over.set()
        for attack in attacks:
            attack.join(30)
    assert late < usual + 0.5
    assert never_reads.was_kept_waiting()
    assert cluster.store.lease()["term"] == leading["term"]
    assert cluster.journal.facts("lease.suspended") == []
    cluster.stop_all()
    assert cluster.complaints() == []


def _lateness(cluster: Cluster, since: float, count: int) -> float:
    """Of so many ticks: all but one in twenty were less late."""

    def found() -> list[float] | None:
        started = cluster.journal.facts("run.started", "a", after=since)
        late = [entry["late"] for entry in started if entry["schedule"] == "tick"]
        return late if len(late) >= count else None

    return statistics.quantiles(until(found, "ticks"), n=20)[-1]


def _flood(port: int, over: threading.Event) -> None:
    """A header of 10 MB, again and again."""
    sent = b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 10_000_000
    with ExitStack() as stack:
        while not over.wait(0.01):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=1)
                stack.enter_context(client)
                client.sendall(sent)


class _Deaf:
    """Asks for the page of metrics, and never reads. It has room for a few packets, and takes small
    ones, so that the system of the other side keeps only a part of the page for it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asked: list[socket.socket] = []

    def ask_again_and_again(self, over: threading.Event) -> None:
        while not over.wait(0.02):
            client = socket.socket()
            client.settimeout(1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            with suppress(OSError):
                client.connect(("127.0.0.1", self._port))
                client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                self._asked.append(client)

    def was_kept_waiting(self) -> bool:
        """Was the page cut off at some time, because nobody took it?"""
        found = False
        for client in self._asked:
            received = b""
            with client, suppress(OSError):
                while more := client.recv(65_536):
                    received += more
            head, _, body = received.partition(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head)
            found = found or (length is not None and len(body) < int(length[1]))
        return found
