"""The application's own code stands in the way of its threads and loops."""

from __future__ import annotations

import os

import pytest

from tests.faults.support import TTL, Cluster, task

pytestmark = pytest.mark.faults


def test_blocked_loop_keeps_its_leadership_and_its_lease_for_three_ttls(cluster: Cluster) -> None:
    cluster.start("loop", "blocked", ttl=TTL, block=3 * TTL)
    cluster.journal.wait("ready", "blocked")
    cluster.node("rival", task("tick", 0.25), ttl=TTL, settings={"concurrency": 0})
    cluster.start("guard", "standby", name="guard", on_held="wait", ttl=TTL)
    cluster.journal.fact("node.started", "rival")
    cluster.journal.wait("asked", "standby")
    cluster.tell("blocked", "block")

    blocking = cluster.journal.wait("blocking", "blocked")
    unblocked = cluster.journal.wait("unblocked", "blocked")

    assert unblocked.at - blocking.at >= 3 * TTL
    assert (unblocked["leads"], unblocked["held"]) == (True, True)
    assert cluster.leader("rival").at > unblocked.at  # after it had left, and not before
    # Plain functions were executed all the while: they have threads of their own.
    for begun in (blocking.at + number * TTL for number in range(3)):
        assert any(begun < e.at < begun + TTL for e in cluster.journal.entries("end"))
    # It left the block politely: now the standby may enter.
    assert cluster.journal.wait("entered", "standby").at > unblocked.at
    assert not cluster.journal.facts("lease.suspended", "blocked")
    assert cluster.complaints() == []


def test_code_that_keeps_the_gil_past_the_deadline_loses_its_leases_safely(
    cluster: Cluster,
) -> None:
    door = cluster.folder / "door"
    os.mkfifo(door)
    keeps = cluster.start("gil", "keeps", ttl=TTL, keep_gil=str(door))
    ready = cluster.journal.wait("ready", "keeps")
    led = cluster.journal.wait("leads", "keeps")
    cluster.start("guard", "standby", name="guard", on_held="wait", ttl=TTL)
    cluster.start("guard", "deputy", name="post", on_held="wait", ttl=TTL)
    cluster.journal.wait("asked", "standby")
    cluster.journal.wait("asked", "deputy")

    # Its threads cannot go on either: it must not be caught inside a write (see test_freeze.py).
    with cluster.store.write_lock():
        cluster.tell("keeps", "go")
        cluster.journal.wait("keeping", "keeps")

    entered = cluster.journal.wait("entered", "standby")
    assert entered["term"] > ready["term"]
    assert cluster.journal.wait("entered", "deputy")["term"] > led["term"]
    assert not cluster.journal.entries("checked")
    door.write_text("")  # now it goes on
    checked = cluster.journal.wait("checked", "keeps")
    assert "can no longer be trusted" in checked["error"]
    assert (checked["held"], checked["remaining"]) == (False, 0)
    cluster.journal.wait("leads no more", "keeps")
    cluster.tell("keeps", "leave")
    left = cluster.journal.wait("left", "keeps")
    assert "was lost while the block ran" in left["error"]
    assert keeps.wait() == 0
    # It released nothing that was not its own any more.
    assert cluster.store.lease("guard")["term"] == entered["term"]
    assert cluster.store.lease("guard")["holder"] is not None
