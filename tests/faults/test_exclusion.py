"""A lease around an unprotected read-modify-write: no increment is lost."""

from __future__ import annotations

import random

import pytest

from tests.faults.support import LONG_TTL, Cluster, Program, until

pytestmark = pytest.mark.faults

KILLS = 6


def test_no_increment_is_lost_while_random_processes_are_killed(cluster: Cluster) -> None:
    chance = random.Random(20261115)
    file = cluster.folder / "counter"
    file.write_text(f"{0:12d}")
    stop = cluster.folder / "stop"
    count = 4

    def begin(who: str) -> Program:
        return cluster.start(
            "counter", who, ttl=LONG_TTL, file=str(file), stop=str(stop), name="counter"
        )

    running = [begin(f"counter-{n}") for n in range(count)]
    for program in running:
        cluster.journal.wait("counted", program.who)
    for n in range(KILLS):
        victim = running.pop(chance.randrange(len(running)))
        killed = victim.kill()
        running.append(begin(f"counter-{count + n}"))
        # Not blocked for the ttl: the dead one's lease is taken by proof of death.
        cluster.journal.wait("counted", after=killed)
        pause = chance.randrange(20, 60)
        known = len(cluster.journal.entries("counted"))
        until(lambda: len(cluster.journal.entries("counted")) > known + pause, "more increments")  # noqa: B023
    stop.touch()
    for program in running:
        assert program.wait() == 0

    counted = cluster.journal.entries("counted")
    values = [entry["value"] for entry in counted]
    assert len(values) == len(set(values))  # two that wrote the same number have lost one
    # One that was killed between writing and telling has counted without a word.
    assert len(values) <= int(file.read_text()) <= len(values) + KILLS
    terms = [entry["term"] for entry in counted]
    assert terms == sorted(set(terms))
