"""The other schedulers that the benchmarks measure: driven as they should be. No timing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import beat, executed, firing, peers
from benchmarks.peers.workload import rules
from benchmarks.stores import STORES
from tests.support.servers import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off")
    try:
        yield server.start()
    finally:
        server.close()


@pytest.mark.slow
def test_apscheduler_fires_on_a_file(tmp_path: Path) -> None:
    """In our own environment, which has it for other reasons."""
    url = f"sqlite:///{tmp_path}/peer.db"
    assert peers.fire(sys.executable, "apscheduler3", url, 20) > 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", peers.PEERS["postgres"])
def test_each_fires_what_is_due(peer: str, server: PostgresServer) -> None:
    if not (peers.ENVIRONMENTS / peer / "made of").is_file():
        pytest.skip("its environment is made by `scripts/bench firing`")
    assert peers.fire(peers.python(peer), peer, server.create_database(peer), 20) > 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", peers.WORKERS["postgres"])
def test_each_worker_executes_what_waits(peer: str, server: PostgresServer) -> None:
    if not (peers.ENVIRONMENTS / peer / "made of").is_file():
        pytest.skip("its environment is made by `scripts/bench firing`")
    url = server.create_database(f"{peer}_worker")
    assert peers.execute(peers.python(peer), peer, url, 20) > 0


@pytest.mark.slow
def test_huey_executes_what_waits_in_a_file(tmp_path: Path) -> None:
    if not (peers.ENVIRONMENTS / "huey" / "made of").is_file():
        pytest.skip("its environment is made by `scripts/bench executed`")
    assert peers.execute(peers.python("huey"), "huey", f"sqlite:///{tmp_path}/peer.db", 20) > 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", peers.STEADY["postgres"])
def test_each_starts_what_is_due_every_second(peer: str, server: PostgresServer) -> None:
    if not (peers.ENVIRONMENTS / peer / "made of").is_file():
        pytest.skip("its environment is made by `scripts/bench firing`")
    url = server.create_database(f"{peer}_steady")
    started = peers.steady(peers.python(peer), peer, url, 2, 4.0)
    assert started.share > 0
    assert bool(started.lates) == (peer == "procrastinate")


@pytest.mark.slow
def test_redbeat_sends_what_is_due() -> None:
    if not (peers.ENVIRONMENTS / beat.PEER / "made of").is_file():
        pytest.skip("its environment is made by `scripts/bench beat`")
    with beat.started(beat.redbeat(print), 1) as beats:
        assert beats.sender() > 0


def test_a_peer_that_fails_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No module named"):
        peers.fire(sys.executable, "nobody", f"sqlite:///{tmp_path}/peer.db", 20)


def test_versions_are_those_of_the_pins() -> None:
    for found in (*peers.PEERS.values(), *peers.WORKERS.values(), (beat.PEER,)):
        for peer in found:
            name, version = peers.version(peer).split()
            pins = (Path(peers.__file__).parent / f"{peer}.txt").read_text()
            assert f"{name}=={version}\n" in pins
            assert all(line.count("==") == 1 for line in pins.splitlines())


def test_the_workload_is_as_different_as_it_says() -> None:
    for distinct in firing.DISTINCT.values():
        wanted = rules(10_000, distinct)
        assert len(wanted) == 10_000
        assert len(set(wanted)) == 10_000 * distinct
        assert sum(rule.expression is None for rule in wanted) == 5_000


def test_who_is_far_behind_is_not_asked_again() -> None:
    assert peers.promising({"a": [], "b": []}) == ["a", "b"]
    assert peers.promising({"a": [100.0], "b": [49.0], "c": [50.0]}) == ["a", "c"]


def test_the_best_of_each_round_counts() -> None:
    ours = {title: [1_500.0, 3_000.0] for title in firing.DISTINCT}
    rivals = {"apscheduler3": [100.0, 150.0], "pgqueuer": [50.0]}
    figures = firing._figures("postgres", ours, ours, rivals)
    times = [figure for figure in figures if figure.unit == "×"]
    assert [figure.values for figure in times] == [[15.0, 20.0]] * 2
    assert all(figure.met for figure in times)
    assert {figure.what for figure in figures if len(figure.values) == 1} == {
        "firing: pgqueuer 1.6.0"
    }


def test_every_store_with_schedules_has_its_peers_and_targets() -> None:
    with_schedules = {name for name, store in STORES.items() if "firing" not in store.skips}
    assert set(peers.PEERS) == set(firing.TIMES_PEERS) == with_schedules
    assert set(peers.STEADY) == with_schedules
    assert set(peers.WORKERS) == set(executed.LEAST_OF_MEMORY) == with_schedules
