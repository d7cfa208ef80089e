"""A task copies the folder of the database, from within a process that uses it.

Closing any descriptor of a file drops the POSIX locks that the process has on it. The byte in the
lock file is the proof that a process lives: it must not be lost in this way.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import LONG_TTL, SOON, Cluster, Program, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
COPY = task("back_up", 0.25, overlap="skip")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With the database in a folder of its own."""
    (tmp_path / "data").mkdir()
    made = Cluster(tmp_path, tmp_path / "data" / "tenure.db")
    try:
        yield made
    finally:
        made.end()
        print(made.logs())  # noqa: T201 - pytest shows it with a failure


def copier(cluster: Cluster) -> Program:
    return cluster.start("copies", "copier", ttl=LONG_TTL, copy=str(cluster.folder / "copy"))


def test_a_process_that_copies_the_folder_is_not_taken_for_dead(cluster: Cluster) -> None:
    copying = copier(cluster)
    first = cluster.leader("copier")
    copied = cluster.journal.wait("copied", "copier")

    # Now somebody comes who wants the leadership, the lock, and the runs of dead nodes.
    cluster.node("heir", TICK, COPY, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "heir")
    cluster.start("guard", "asker", name="guard", on_held="raise", ttl=LONG_TTL)
    cluster.journal.wait("refused", "asker")
    ticked = cluster.journal.wait("end", "heir", schedule="tick", after=copied.at)
    cluster.journal.wait("end", "heir", schedule="tick", after=ticked.at + 2)
    assert cluster.journal.facts("leader.took_office") == [first]
    assert not cluster.journal.facts("runs.recovered")
    assert len(cluster.journal.entries("begin", schedule="back_up")) == 1
    assert cluster.store.history("guard")[0]["ended_at"] is None

    # It is still proven to be dead when it is.
    killed = copying.kill()
    assert cluster.leader("heir", after=killed).at - killed < SOON
    again = cluster.journal.wait("begin", "heir", schedule="back_up", after=killed)
    assert again.at - killed < SOON
    cluster.start("guard", "next", name="guard", on_held="raise", ttl=LONG_TTL)
    assert cluster.journal.wait("entered", "next")["held"]
    assert cluster.store.history("guard")[0]["reason"] == "holder died"
    cluster.stop_all("heir")
    assert cluster.store.sound()
    assert cluster.complaints() == []


def test_what_it_commits_afterwards_is_there_for_all(cluster: Cluster) -> None:
    """Who comes and goes would delete the log, if nobody seemed to have the database open."""
    copying = copier(cluster)
    cluster.journal.wait("copied", "copier")
    cluster.store.sound()  # comes and goes
    counter = cluster.store.lease("guard")["counter"]
    until(lambda: cluster.store.lease("guard")["counter"] > counter, "a renewal")
    asker = cluster.start("guard", "asker", name="guard", on_held="raise", ttl=LONG_TTL)
    cluster.journal.wait("refused", "asker")
    assert asker.wait() == 0

    cluster.tell("copier", "leave")
    cluster.journal.wait("end", "copier", schedule="back_up")
    copying.signal(signal.SIGTERM)
    assert copying.wait() == 0
    assert not Path(f"{cluster.database}-wal").exists(), "the last one out tidies up, as ever"
    assert cluster.store.sound()
    runs = [run["state"] for run in cluster.store.runs("back_up")]
    assert "succeeded" in runs
    assert cluster.complaints() == []
