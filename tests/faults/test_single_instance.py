"""`single_instance` among real processes."""

from __future__ import annotations

import platform
import re

import pytest

from tests.faults.support import LONG_TTL, SOON, Cluster, Program

pytestmark = pytest.mark.faults


def test_fail_says_who_holds_it_since_when_until_when_and_what_to_do(cluster: Cluster) -> None:
    holder = _enter(cluster, "holder", "raise")
    asker = _guard(cluster, "asker", "raise")
    error = cluster.journal.wait("refused", "asker")["error"]
    assert f"process {holder.pid} on host {platform.node()!r}" in error
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", error)
    assert re.search(r"expires at \d\d:\d\d:\d\d UTC", error)
    assert "stop it" in error
    assert f"tenure leases evict job --url {cluster.url}" in error
    assert asker.wait() == 0
    assert holder.running


def test_skip_goes_on_without(cluster: Cluster) -> None:
    _enter(cluster, "holder", "skip")
    skipper = _guard(cluster, "skipper", "skip")
    assert cluster.journal.wait("entered", "skipper")["held"] is False
    cluster.tell("skipper", "leave")
    assert skipper.wait() == 0
    assert cluster.store.lease("job")["term"] == 1  # and took nothing away


def test_standby_takes_over_when_it_is_released_and_when_its_holder_is_killed(
    cluster: Cluster,
) -> None:
    holder = _enter(cluster, "holder", "raise")
    heirs = {who: _guard(cluster, who, "wait") for who in ("first", "second")}
    for who in heirs:
        cluster.journal.wait("asked", who)

    cluster.tell("holder", "leave")
    assert holder.wait() == 0
    left = cluster.journal.wait("left", "holder")
    entered = cluster.journal.wait("entered", tuple(heirs))
    assert entered["term"] == 2
    assert entered.at - left.at < SOON
    heir = heirs.pop(entered.who)
    (other,) = heirs
    assert not cluster.journal.entries("entered", other)

    killed = heir.kill()
    last = cluster.journal.wait("entered", other)
    assert (last["held"], last["term"]) == (True, 3)
    assert last.at - killed < SOON


def _guard(cluster: Cluster, who: str, on_held: str) -> Program:
    return cluster.start("guard", who, name="job", on_held=on_held, ttl=LONG_TTL)


def _enter(cluster: Cluster, who: str, on_held: str) -> Program:
    program = _guard(cluster, who, on_held)
    assert cluster.journal.wait("entered", who)["held"] is True
    return program
