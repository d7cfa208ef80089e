"""Health and metrics while nodes are killed and frozen and their store restarts; and those who
scrape with bad intentions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.observing import STALE, Scraper, fetch
from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import TTL, Cluster, task, until
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

        [first] = scraper.leaders()
        killed = nodes[first].kill()
        rest = [who for who in NODES if who != first]
        until(lambda: len(scraper.leaders(rest)) == 1, "a successor")
        _answered(scraper, rest, killed)
        _one_leads(scraper, rest, postgres)

        [second] = scraper.leaders(rest)
        [third] = [who for who in rest if who != second]
        frozen = nodes[second].freeze()
        until(lambda: scraper.leaders([third]), "a successor")
        nodes[second].thaw()
        over = time.monotonic()
        thawed = until(lambda: scraper.since(second, frozen + TTL), "the thawed node's answer")
        assert thawed[0].at - over < 5.0  # no longer than the fault, on a busy machine
        # It knew at once, and tells no more about the store, as its successor does.
        assert not thawed[0].leads
        assert "tenure_term" not in thawed[0].numbers
        until(lambda: "tenure_term" in scraper.seen[third][-1].numbers, "its successor's survey")
        lost = 'tenure_left_office_total{reason="lost"}'
        until(lambda: scraper.seen[second][-1].numbers[lost] == 1, "its loss to be counted")
        _answered(scraper, [third], frozen)
        _one_leads(scraper, rest, postgres)

        before = time.monotonic()
        postgres.server.stop()
        until(lambda: all(_away(scraper, who) for who in rest), "the outage to be told")
        assert scraper.leaders() in ([], [third])  # until it trusts its lease no longer
        postgres.server.start()
        until(lambda: len(scraper.leaders(rest)) == 1, "a leader after the outage")
        # Nobody became unready or was to be restarted, and everybody answered all the time.
        _answered(scraper, rest, before)
        _one_leads(scraper, rest, postgres)
    assert scraper.went_back() == []
    both = [(x, y) for x in scraper.seen[second] for y in scraper.seen[third]]
    assert not [1 for x, y in both if abs(x.at - y.at) < 0.05 and x.leads and y.leads]
    postgres.stop_all()


def _one_leads(scraper: Scraper, nodes: list[str], cluster: Cluster) -> None:
    """The takeover is over: sum(tenure_leader) is 1, at every look while the leader stays."""
    changes = ("lease.suspended", "leader.left_office", "leader.took_office")

    def steady() -> set[float] | None:
        since = time.monotonic()
        begun = since + STALE
        until(lambda: all(len(scraper.since(who, begun)) >= 5 for who in nodes), "looks")
        if any(cluster.journal.facts(name, after=since) for name in changes):
            return None  # it changed by itself, on a busy machine
        return {leaders for at, leaders in scraper.sums() if at > begun}

    assert until(steady, "a leader that stays") == {1}


def _ready(scraper: Scraper, who: str) -> bool:
    return any(each.pages["/readyz"] == 200 for each in scraper.seen[who])


def _away(scraper: Scraper, who: str) -> bool:
    last = scraper.seen[who][-1].numbers
    return 0.0 in (last['tenure_store_up{part="leases"}'], last['tenure_store_up{part="store"}'])


def _answered(scraper: Scraper, nodes: list[str], since: float) -> None:
    """They were well all the time since then, and said so."""
    for who in nodes:
        scrapes = scraper.since(who, since)
        assert {each.pages["/healthz"] for each in scrapes} == {200}
        assert {each.pages["/readyz"] for each in scrapes} == {200}
        gaps = [y.at - x.at for x, y in pairwise(scrapes)]
        assert max(gaps, default=0.0) < 5.0  # on a busy machine


def test_hostile_scrapers_cost_no_tick(cluster: Cluster, ports: dict[str, int]) -> None:
    port = ports["a"]
    cluster.node("a", TICK, ttl=TTL, health=f"127.0.0.1:{port}")
    leading = cluster.leader("a")
    allow_many()  # after the start of the node, which has the usual limit
    begun = time.monotonic()
    over = threading.Event()
    floods = [
        threading.Thread(target=_flood, args=(port, sent, over), daemon=True)
        for sent in (
            b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 10_000_000,
            b"GET /metrics HTTP/1.1\r\n\r\n" * 1_000,  # and never reads
        )
    ]
    with ExitStack() as stack:
        for _ in range(1_000):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=5)
                stack.enter_context(client)
        for flood in floods:
            flood.start()
        for _ in range(5):
            assert fetch(port, "/healthz")[0] == 200
        # A tick each quarter of a second goes on.
        until(
            lambda: len(cluster.journal.entries("end", "a", after=begun, schedule="tick")) >= 8,
            "ticks",
        )
        over.set()
        for flood in floods:
            flood.join(30)
    assert cluster.store.lease()["term"] == leading["term"]
    assert cluster.journal.facts("lease.suspended") == []
    late = [entry["late"] for entry in cluster.journal.facts("run.started", "a")]
    assert max(late) < TTL
    cluster.stop_all()
    assert cluster.complaints() == []


def _flood(port: int, sent: bytes, over: threading.Event) -> None:
    with ExitStack() as stack:
        while not over.wait(0.01):
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=1)
                stack.enter_context(client)
                client.sendall(sent)
