"""Idle: how often do a leader and a standby that have nothing to do ask their store?

Default settings; one schedule that is not due. The leader's figure is beside its heartbeat (the
renewals of its leases, all in one round trip); the standby's is everything.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.figures import Figure, Say
from benchmarks.node import tasks, work
from benchmarks.stores import Store, backend
from tenure import Scheduler, every
from tenure.node.node import LEADER


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    seconds = 0.5 if quick else 30.0
    with store.fresh() as url, _node(url) as leader:
        leader.add("hourly", every(hours=1), task=work)
        _wait_for_leader(leader)
        with _node(url) as standby:
            time.sleep(0.1 if quick else 2.0)  # let them settle
            say(f"counting for {seconds:g} s")
            beats, cpu = _heartbeats(url), time.process_time()
            before = store.queries(leader), store.queries(standby)
            time.sleep(seconds)
            after = store.queries(leader), store.queries(standby)
            cpu = time.process_time() - cpu
            beats = _heartbeats(url) - beats
            assert leader.is_leader
            assert not standby.is_leader
    asked = after[0] - before[0] - beats
    standby_asked = after[1] - before[1]
    return [
        Figure("idle: queries of a leader beside its heartbeat", "/s", [asked / seconds], 1.0),
        Figure("idle: queries of a standby", "/s", [standby_asked / seconds], store.idle_standby),
        Figure("idle: processor time of a node", "% of a core", [cpu / seconds / 2 * 100]),
    ]


def _node(url: str) -> Scheduler:
    scheduler = Scheduler(url)
    scheduler.include(tasks)
    return scheduler


def _wait_for_leader(scheduler: Scheduler) -> None:
    until = time.monotonic() + 30
    while not scheduler.is_leader:
        if time.monotonic() > until:
            raise TimeoutError("nobody leads")
        time.sleep(0.01)


def _heartbeats(url: str) -> int:
    """How often the leadership was renewed."""

    async def read() -> int:
        store = backend(url)
        await store.open(migrate=False)
        try:
            record = await store.leases.read(LEADER)
        finally:
            await store.close()
        assert record is not None
        return record.counter

    return asyncio.run(read())
