"""The wall clock of one process is moved while it runs. Leases are on another clock."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.observing import scrape
from tests.faults.support import LONG_TTL, Cluster, Program, task, until
from tests.support.servers import free_port, release_port

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
HOUR = 3600
NUMBERS = {"ttl": LONG_TTL, "settings": {"heartbeat": 0.3}}
"""A ttl that a busy machine does not exhaust, and that an hour does many times over."""


class WallClock:
    """Moves the wall clock of the processes that are started under it; nothing else."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset: int) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset:+d}\n")
        fresh.replace(self._file)  # at once: the file is read at any time


def _library() -> Path:
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        pytest.skip("libfaketime is not installed")
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    if not library.exists():
        pytest.skip("libfaketime has no library for this platform")
    return library


@pytest.fixture
def wall(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path / "wall")


def test_forward_jump_of_the_leader_is_held_and_moves_no_lease(
    cluster: Cluster, wall: WallClock
) -> None:
    port = free_port()
    _leader_and_follower(cluster, wall, health=f"127.0.0.1:{port}")
    until(lambda: _says_held(port) == 0, "its metrics")
    wall.set(HOUR)
    moved = time.time()
    jumped = cluster.journal.fact("clock.jumped", "leader")
    assert jumped["held"] is True
    until(lambda: _says_held(port) == 1, "its metrics")
    assert jumped["seconds"] == pytest.approx(HOUR, abs=5)

    _let_renewals_pass(cluster)
    # What was due before may begin later. Nothing of the next hour does.
    begun = [entry["nominal"] / 1e6 for entry in cluster.journal.entries("begin")]
    assert max(begun) < moved + 0.5

    wall.set(0)
    gone = cluster.journal.fact("clock.accepted", "leader", after=jumped.at)
    until(lambda: _says_held(port) == 0, "its metrics")
    release_port(port)
    cluster.journal.wait("end", schedule="tick", after=gone.at)
    _nothing_happened_to_leases(cluster)
    cluster.stop_all()
    assert cluster.complaints() == []


def test_backward_jump_of_the_leader_is_told_and_moves_no_lease(
    cluster: Cluster, wall: WallClock
) -> None:
    leader = _leader_and_follower(cluster, wall)
    wall.set(-HOUR)
    jumped = cluster.journal.fact("clock.jumped", "leader")
    assert jumped["held"] is False
    assert jumped["seconds"] == pytest.approx(-HOUR, abs=5)
    _let_renewals_pass(cluster)
    _nothing_happened_to_leases(cluster)

    # Whoever has the right time goes on where it stopped: nothing is fired again, or forgotten.
    killed = leader.kill()
    successor = cluster.leader("follower", after=killed)
    cluster.journal.wait("end", "follower", schedule="tick", after=successor.at)
    cluster.stop_all()
    assert cluster.complaints() == []


def test_wrong_clock_of_a_follower_changes_nothing(cluster: Cluster, wall: WallClock) -> None:
    cluster.node("leader", TICK, **NUMBERS)
    cluster.leader("leader")
    cluster.node("follower", TICK, env=wall.env, **NUMBERS)
    cluster.journal.fact("node.started", "follower")
    for offset in (HOUR, -HOUR):
        wall.set(offset)
        _let_renewals_pass(cluster)
    _nothing_happened_to_leases(cluster)
    cluster.stop_all()
    assert cluster.complaints() == []


def _says_held(port: int) -> float | None:
    found = scrape(port)
    return None if found is None else found.numbers["tenure_clock_held"]


def _leader_and_follower(cluster: Cluster, wall: WallClock, **options: Any) -> Program:
    leader = cluster.node("leader", TICK, env=wall.env, **NUMBERS, **options)
    cluster.leader("leader")
    cluster.node("follower", TICK, **NUMBERS)
    started = cluster.journal.fact("node.started", "follower")
    cluster.journal.wait("end", schedule="tick", after=started.at)
    return leader


def _let_renewals_pass(cluster: Cluster) -> None:
    """If leases depended on the wall clock these would not come, or somebody would take over."""
    counter = cluster.store.lease()["counter"]
    until(lambda: cluster.store.lease()["counter"] > counter + 4, "a few renewals")


def _nothing_happened_to_leases(cluster: Cluster) -> None:
    assert len(cluster.journal.facts("leader.took_office")) == 1
    for trouble in ("lease.suspended", "lease.lost", "runs.recovered"):
        assert not cluster.journal.facts(trouble)
    assert [row["term"] for row in cluster.store.history()] == [1]
