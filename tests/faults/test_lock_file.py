"""Somebody tampers with the lock file beside the database while processes use it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.support import LONG_TTL, SOON, Cluster, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)


def _delete(lock_file: Path) -> None:
    lock_file.unlink()


def _empty(lock_file: Path) -> None:
    lock_file.write_bytes(b"")


def _replace_by_a_copy(lock_file: Path) -> None:
    copy = lock_file.with_suffix(".copy")
    shutil.copy2(lock_file, copy)
    copy.replace(lock_file)


@pytest.mark.parametrize("tamper", [_delete, _empty, _replace_by_a_copy])
def test_tampered_lock_file_proves_nobody_dead(cluster: Cluster, tamper: object) -> None:
    leader = cluster.node("leader", TICK, ttl=LONG_TTL)
    first = cluster.leader("leader")
    cluster.start("guard", "holder", name="job", on_held="raise", ttl=LONG_TTL)
    cluster.journal.wait("entered", "holder")
    cluster.node("old", TICK, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "old")

    assert callable(tamper)
    tamper(Path(f"{cluster.database}-tenure"))

    # Those who come now have another lock file than those who are there.
    cluster.node("new", TICK, ttl=LONG_TTL)
    started = cluster.journal.fact("node.started", "new")
    cluster.start("guard", "asker", name="job", on_held="raise", ttl=LONG_TTL)
    cluster.journal.wait("refused", "asker")
    cluster.journal.wait("end", schedule="tick", after=started.at + 0.75)
    assert cluster.journal.facts("leader.took_office") == [first]
    assert not cluster.journal.facts("runs.recovered")

    # Both sides still find out that the leader is dead, the new one by its process.
    killed = leader.kill()
    successor = cluster.leader(after=killed)
    assert successor.at - killed < SOON
    cluster.journal.wait("end", schedule="tick", after=successor.at)
    until(lambda: len(cluster.journal.facts("leader.took_office")) == 2, "one successor")
    cluster.stop_all("old", "new")
    assert cluster.complaints() == []
