"""A process forks. Locks, leases and connections are the parent's; the child gets its own."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.faults.support import LEADER, LONG_TTL, SOON, Cluster, Entry, Program, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
IN_C = pytest.param(
    "in_c",
    marks=pytest.mark.skipif(
        sys.version_info >= (3, 13), reason="Python 3.13 ends a child it was not told of before"
    ),
)


@pytest.mark.parametrize("how", ["fork", "multiprocessing", "subprocess", IN_C, "unseen"])
def test_child_that_outlives_its_killed_parent_does_not_keep_its_locks(
    cluster: Cluster, how: str
) -> None:
    parent = _parent(cluster, "idle", how=how)
    cluster.journal.wait("forked", "child")
    cluster.node("heir", TICK, ttl=LONG_TTL)
    cluster.start("guard", "standby", name="guard", on_held="wait", ttl=LONG_TTL)
    cluster.journal.fact("node.started", "heir")
    cluster.journal.wait("asked", "standby")

    killed = parent.kill()

    # Far below the ttl, so by proof of death: of the leadership, and of an unfenced lease.
    assert cluster.leader("heir", after=killed).at - killed < SOON
    assert cluster.journal.wait("entered", "standby", after=killed).at - killed < SOON
    # The child is there all the while: it ends only when its input does.
    child = cluster.journal.wait("forked", "child")
    assert cluster.lives(child.pid)
    assert cluster.complaints() == []


@pytest.mark.parametrize("how", [IN_C])  # unseen altogether, what other threads locked stays locked
def test_child_of_a_fork_that_python_did_not_see_may_not_open_the_file(
    cluster: Cluster, how: str
) -> None:
    """What it inherited from its parent would have SQLite work without locks there."""
    parent = _parent(cluster, "asks", how=how)
    refused = cluster.journal.wait("refused", "child")
    assert "Open it after the fork" in refused["error"]
    assert _check(cluster)["leads"] is True
    cluster.tell("child", "end")
    until(lambda: not cluster.lives(refused.pid), "the child's end")
    cluster.journal.wait("end", "parent", schedule="tick", after=_check(cluster).at)
    parent.let_go()
    assert parent.wait() == 0
    assert cluster.store.sound()
    assert cluster.complaints() == []


def test_child_that_leaves_the_parents_block_changes_nothing_for_the_parent(
    cluster: Cluster,
) -> None:
    parent = _parent(cluster, "exits")
    forked = cluster.journal.wait("forked", "child")
    assert (forked["leads"], forked["schedules"]) == (False, False)
    until(lambda: not cluster.lives(forked.pid), "the child's end")

    checked = _check(cluster)
    assert checked["leads"] is True
    for name in ("guard", "post", LEADER):
        held = cluster.store.lease(name)
        assert (held["pid"], held["term"]) == (parent.pid, 1)
    cluster.journal.wait("end", "parent", schedule="tick", after=checked.at)
    parent.let_go()
    assert parent.wait() == 0
    assert not cluster.journal.facts("service.failed")
    assert cluster.complaints() == []


@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_child_starts_the_inherited_scheduler_as_a_node_of_its_own(
    cluster: Cluster, how: str
) -> None:
    parent = _parent(cluster, "schedules", how=how)
    refused = cluster.journal.wait("refused", "child")
    assert f"belongs to the parent process {parent.pid}" in refused["error"]
    assert refused["held"] is False
    assert cluster.journal.wait("asked", "child")["held_elsewhere"] is True
    started = cluster.journal.wait("started", "child")
    assert f":{started.pid}:" in started["node"]
    assert _check(cluster)["leads"] is True

    # Now the parent is gone, and the child's connections are the only ones. Somebody comes and
    # goes: the last one out would delete the write-ahead log, if the child had no locks of its own.
    killed = parent.kill()
    successor = cluster.leader("child", after=killed)
    assert successor["term"] == 2
    assert successor.at - killed < SOON
    assert cluster.store.sound()
    done = cluster.journal.wait("end", "child", schedule="tick", after=successor.at)
    cluster.node("later", TICK, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "later")
    assert done["run"] in [run["id"] for run in cluster.store.runs("tick")]

    cluster.tell("child", "end")
    ended = cluster.journal.wait("child ended", "child")
    cluster.leader("later", after=killed)
    cluster.journal.wait("end", "later", schedule="tick", after=ended.at)
    cluster.stop_all()
    assert cluster.store.sound()
    assert not cluster.journal.facts("service.failed")
    assert cluster.complaints() == []


def test_child_with_its_own_scheduler_may_end_while_its_parent_goes_on(cluster: Cluster) -> None:
    parent = _parent(cluster, "schedules")
    started = cluster.journal.wait("started", "child")
    cluster.journal.wait("end", schedule="tick", after=started.at)
    cluster.tell("child", "end")
    ended = cluster.journal.wait("child ended", "child")
    until(lambda: not cluster.lives(ended.pid), "the child's end")

    checked = _check(cluster)
    assert checked["leads"] is True
    cluster.journal.wait("end", "parent", schedule="tick", after=checked.at)
    assert cluster.store.lease()["term"] == 1
    parent.let_go()
    assert parent.wait() == 0
    assert cluster.store.sound()
    assert not cluster.journal.facts("service.failed")
    assert cluster.complaints() == []


def _parent(cluster: Cluster, child: str, **options: Any) -> Program:
    """Start the parent, and have it fork once it leads and its first run is done."""
    parent = cluster.start("forks", "parent", child=child, tasks=[TICK], ttl=LONG_TTL, **options)
    cluster.journal.wait("ready", "parent")
    cluster.journal.wait("end", "parent", schedule="tick")
    cluster.tell("parent", "fork")
    return parent


def _check(cluster: Cluster) -> Entry:
    """Have the parent look at its lease, and its leadership."""
    known = len(cluster.journal.entries("parent checked"))
    cluster.tell("parent", "check")
    return until(lambda: cluster.journal.entries("parent checked")[known:], "a checked lease")[0]
