"""Whatever happens to relay, sink and store: nothing is lost, and first deliveries are in order."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure import Event, Scheduler
from tests.faults.postgres import running_cluster, running_server
from tests.faults.relaying import (
    KEYS,
    arrivals,
    ask,
    emit,
    firsts,
    in_order,
    receiver,
    relaying,
    to_receiver,
)
from tests.faults.support import Cluster, until
from tests.support.http_receiver import HttpReceiver
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


@pytest.fixture(name="receiver")
def a_receiver() -> Iterator[HttpReceiver]:
    with receiver() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Processes that share a store of either kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("cluster")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


def has_all(receiver: HttpReceiver, count: int) -> bool:
    return len({each.attributes["id"] for each in receiver.received}) >= count


def test_relay_that_is_killed_between_send_and_acknowledgement(
    shared: Cluster, receiver: HttpReceiver
) -> None:
    relay = to_receiver(receiver)
    first = relaying(shared, "first", relay)
    shared.leader("first")
    ids = emit(shared, range(9))
    assert receiver.has_received(9)
    receiver.flowing.clear()
    ids += emit(shared, range(9, 18))
    sent = len(receiver.requests)
    until(lambda: len(receiver.requests) > max(sent, 9), "a request on its way")
    first.kill()
    receiver.flowing.set()  # it arrives, and nobody is there to hear so
    assert receiver.has_received(10)
    relaying(shared, "second", relay)
    until(lambda: has_all(receiver, 18), "all events")
    came = arrivals(receiver.received)
    assert firsts(came) == in_order(ids)
    assert len(came) > len(set(came)), "what had arrived came again, with the same id"
    shared.stop_all("second")


def test_relay_that_was_frozen_past_its_lease_only_repeats(
    shared: Cluster, receiver: HttpReceiver
) -> None:
    relay = to_receiver(receiver)
    frozen = relaying(shared, "frozen", relay)
    shared.journal.fact("leader.took_office", "frozen", scope="tenure/relay/webhook")
    other = relaying(shared, "other", relay)
    shared.journal.fact("node.started", "other")
    ids = emit(shared, range(6))
    assert receiver.has_received(6)
    receiver.flowing.clear()
    ids += emit(shared, range(6, 30))
    until(lambda: len(receiver.requests) > 6, "a request on its way")
    at = shared.freeze(frozen)
    shared.journal.fact("leader.took_office", "other", after=at, scope="tenure/relay/webhook")
    receiver.flowing.set()
    until(lambda: has_all(receiver, 30), "all events, from the other")
    before = _progress(shared)
    thawed = frozen.thaw()
    shared.journal.fact("leader.left_office", "frozen", after=thawed, scope="tenure/relay/webhook")
    ids += emit(shared, range(30, 45))
    until(lambda: has_all(receiver, 45), "the rest")
    assert firsts(arrivals(receiver.received)) == in_order(ids)
    until(lambda: _progress(shared) > before, "the other to move on")
    assert other.running
    shared.stop_all()


def test_sink_that_is_down_slow_and_back(cluster: Cluster, receiver: HttpReceiver) -> None:
    receiver.stop()
    relaying(cluster, "node", to_receiver(receiver))
    ids = emit(cluster, range(30))
    told = cluster.journal.fact("relay.stalled")
    [shown] = ask(cluster, "events", "relays")
    assert shown["trouble"] == told["reason"] != ""
    assert shown["sink"] == f"webhook+http://127.0.0.1:{receiver.port}"
    receiver.start()
    until(lambda: has_all(receiver, 30), "all events")
    cluster.journal.fact("relay.recovered")
    receiver.slow = {"00030"}
    receiver.flowing.clear()
    ids += emit(cluster, [30, 31, 32])
    until(lambda: has_all(receiver, 32), "what is not slow")
    receiver.flowing.set()
    until(lambda: has_all(receiver, 33), "what was slow")
    assert firsts(arrivals(receiver.received)) == in_order(ids)
    cluster.stop_all()


def test_key_that_is_refused_waits_for_an_operator(shared: Cluster, receiver: HttpReceiver) -> None:
    receiver.answers["00001"] = (500, {})
    relaying(shared, "node", to_receiver(receiver, tries=1))
    ids = emit(shared, range(12))
    fact = shared.journal.fact("relay.parked")
    assert (fact["topic"], fact["key"], fact["tries"], fact["holds"]) == ("ledger", "b", 1, True)
    assert "500" in fact["reason"]
    until(lambda: has_all(receiver, 8), "the other keys")
    assert {key for key, _ in arrivals(receiver.received)} == {"a", "c"}
    [parked] = ask(shared, "events", "parked")
    assert (parked["event"]["id"], parked["holds"]) == ("00001", True)
    assert ask(shared, "events", "parked", "--replay", "--dry-run")["changed"] == 0
    del receiver.answers["00001"]
    assert ask(shared, "events", "parked", "--replay")["changed"] == 1
    until(lambda: has_all(receiver, 12), "all events")
    assert firsts(arrivals(receiver.received)) == in_order(ids)
    shared.stop_all()


def test_key_goes_on_without_what_is_dropped(cluster: Cluster, receiver: HttpReceiver) -> None:
    receiver.answers["00001"] = (400, {})
    relaying(cluster, "node", to_receiver(receiver, tries=1))
    ids = emit(cluster, range(12))
    cluster.journal.fact("relay.parked")
    assert ask(cluster, "events", "parked", "--drop", "--yes")["changed"] == 1
    until(lambda: has_all(receiver, 11), "all others")
    wanted = in_order([id_ for id_ in ids if id_ != "00001"])
    assert firsts(arrivals(receiver.received)) == wanted
    cluster.stop_all()


def test_store_that_is_restarted(tmp_path: Path, receiver: HttpReceiver) -> None:
    with running_server() as server, running_cluster(server, tmp_path) as cluster:
        relaying(cluster, "one", to_receiver(receiver))
        relaying(cluster, "two", to_receiver(receiver))
        for who in ("one", "two"):  # a start needs the store
            cluster.journal.fact("node.started", who)
        ids: list[str] = []
        for part in range(3):
            ids += emit(cluster, range(20 * part, 20 * part + 20))
            server.stop(signal.SIGQUIT)
            server.start()
        until(lambda: has_all(receiver, 60), "all events")
        assert firsts(arrivals(receiver.received)) == in_order(ids)
        cluster.stop_all()


def test_memory_is_flat_while_the_sink_is_away(cluster: Cluster, receiver: HttpReceiver) -> None:
    """40 MB of events wait: the relay keeps a few batches of them."""
    receiver.answers["*"] = (503, {})  # as a proxy says it of a service that is down
    node = relaying(cluster, "node", to_receiver(receiver, topics=["ledger"]))
    emit(cluster, [0])
    cluster.journal.fact("relay.stalled")
    before = _memory(node.pid)
    scheduler = Scheduler(cluster.url)
    with closing(sqlite3.connect(cluster.database, timeout=20)) as connection:
        for n in range(20_000):
            event = Event("ledger", "Booked", "x" * 2_000, key=KEYS[n % 3])
            scheduler.emit(event, connection=connection)
        connection.commit()
    scheduler.stop()
    tried = len(receiver.requests)
    until(lambda: len(receiver.requests) > tried, "a try with all that waits")
    assert _memory(node.pid) - before < 25, "while it is away"
    receiver.answers.clear()
    assert receiver.has_received(500)
    assert _memory(node.pid) - before < 25, "when it is back"
    assert cluster.journal.facts("relay.recovered") != []
    assert cluster.journal.facts("service.failed") == []


def _memory(pid: int) -> float:
    """In MB, what is really there."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def _progress(cluster: Cluster) -> int:
    return int(ask(cluster, "events", "relays")[0]["position"])
