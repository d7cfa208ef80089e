"""Two containers share the file: each sees itself as process 1, and not the other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.support import LONG_TTL, SOON, Cluster, Program, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)


@pytest.fixture(scope="module")
def apart() -> list[str]:
    """The command that starts a program in a pid namespace of its own."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for more in ([], ["--user", "--map-root-user"]):
        try:
            tried = subprocess.run([*command, *more, "true"], capture_output=True, check=False)
        except FileNotFoundError:
            break
        if tried.returncode == 0:
            return [*command, *more]
    pytest.skip("this machine does not allow pid namespaces (unshare --pid)")


@pytest.mark.as_user
def test_killed_leader_in_another_pid_namespace_is_proven_dead_by_the_lock_file(
    cluster: Cluster, apart: list[str]
) -> None:
    nodes = {who: cluster.node(who, TICK, ttl=LONG_TTL, prefix=apart) for who in ("a", "b")}
    for who in nodes:
        assert cluster.journal.wait("imported", who).pid == 1
        cluster.journal.fact("node.started", who)
    leader = cluster.leader()
    cluster.journal.wait("end", schedule="tick", after=leader.at)
    assert len(cluster.journal.facts("leader.took_office")) == 1
    holders = cluster.store.rows("SELECT pid FROM tenure_lease WHERE holder IS NOT NULL")
    assert {row["pid"] for row in holders} == {1}

    killed = _kill_inside(nodes.pop(leader.who))

    (other,) = nodes
    successor = cluster.leader(other, after=killed)
    assert successor["term"] > leader["term"]
    assert successor.at - killed < SOON
    assert cluster.store.history()[0]["reason"] == "holder died"
    cluster.journal.wait("end", other, schedule="tick", after=successor.at)
    assert cluster.complaints() == []


def _kill_inside(program: Program) -> float:
    """Kill process 1 of its namespace, which we know by another number: unshare's only child."""
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    (inside,) = map(int, children)
    killed = time.monotonic()
    os.kill(inside, signal.SIGKILL)
    until(lambda: not program.running, "unshare to follow its child")
    return killed
