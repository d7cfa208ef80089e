"""Leases in Redis: many start at once; what a late owner may; wake-ups on a dead line."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure import Fenced, Leases, Skipped, StoreUnavailable
from tenure.backends.base import lease_topic
from tenure.backends.redis import RedisBackend, wakeups
from tenure.model import Grant
from tenure.process.identity import new_holder
from tests.faults.redis import RedisCluster, long_running_server
from tests.faults.support import LONG_TTL, until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults

STARTS = 20
LONG = 3.0  # for what must not run out on a busy machine
SHORT = 0.5


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with long_running_server() as server:
        yield server


@pytest.fixture
def cluster(server: ValkeyServer, tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path, server)
    try:
        yield cluster
    finally:
        cluster.end()
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure


def test_of_twenty_simultaneous_starts_one_gets_in(cluster: RedisCluster) -> None:
    gate = cluster.folder / "gate"
    names = [f"instance-{number}" for number in range(STARTS)]
    options = {"name": "job", "on_held": "raise", "ttl": LONG_TTL, "gate": str(gate)}
    program = cluster.start("many", "many", names=names, url=cluster.server.url, **options)  # type: ignore[arg-type]
    for who in names:
        cluster.journal.wait("asked", who)

    gate.touch()

    entered = cluster.journal.wait("entered")
    until(lambda: len(cluster.journal.entries("refused")) == STARTS - 1, "the others to be refused")
    assert cluster.journal.entries("entered") == [entered]
    for refused in cluster.journal.entries("refused"):
        assert f"is held by process {entered.pid} on host" in refused["error"]
    cluster.tell(entered.who, "leave")
    assert program.wait() == 0


def test_held_by_another_is_no_news(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tenure.lease")
    with Leases(cluster.redis_url("test")) as leases:
        held = until(lambda: leases.acquire("job", LONG_TTL), "the lock")
        assert leases.acquire("job", LONG_TTL) is None
        told = until(lambda: [r for r in caplog.records if "lease.held" in r.message], "the fact")
        assert {record.levelname for record in told} == {"DEBUG"}
        assert held.release()


def test_owner_that_comes_too_late_can_neither_extend_nor_release_nor_write(
    cluster: RedisCluster,
) -> None:
    with Leases(cluster.url) as made:
        made.acquire("made")  # for the tables of the fence
    url = cluster.redis_url("test")
    with (
        Leases(url) as early,
        Leases(url) as late,
        closing(sqlite3.connect(cluster.database)) as connection,
    ):
        old = until(lambda: early.acquire("report", SHORT), "the lock")
        with connection:
            old.fence(connection)
        new = until(lambda: late.acquire("report", 30), "the lock of another")
        with connection:
            new.fence(connection)
        assert not old.held
        assert not old.renew()
        assert not old.release()
        with pytest.raises(Fenced):
            old.fence(connection)
        assert cluster.lease("report")["term"] == str(new.term)
        assert new.release()


async def test_wake_ups_come_again_after_a_line_that_died_silently(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "SILENCE", 0.2)
    woken: list[float] = []
    with Proxy(server.port) as proxy:
        backend = RedisBackend(f"redis://127.0.0.1:{proxy.port}/0")
        await backend.open()
        try:
            backend.wakeups.subscribe(lease_topic("job"), lambda: woken.append(time.monotonic()))
            before = backend.wakeups.client_id
            proxy.become("half-open")
            await _until(lambda: backend.wakeups.client_id is None)
            proxy.become("pass")
            await _until(lambda: backend.wakeups.client_id not in (None, before))
            await _until(lambda: woken)  # once anyway: whatever was said was not heard
            woken.clear()
            leading = await backend.leases.acquire("job", new_holder(), 30, fenced=True)
            assert isinstance(leading, Grant)
            assert await backend.leases.release(leading)
            await _until(lambda: woken)
        finally:
            await backend.close()


def test_cycle_is_skipped_while_redis_is_away(
    cluster: RedisCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning at the first failure, information on recovery, and nothing runs unguarded.

    The last test here: afterwards the server is one that began anew.
    """
    caplog.set_level(logging.INFO, "tenure.store")
    runs: list[float] = []
    with Leases(cluster.redis_url("test")) as leases:

        @leases.exclusive("cycle", LONG)
        def cycle() -> bool:
            runs.append(time.monotonic())
            return True

        until(cycle, "the first cycle")
        cluster.server.stop(signal.SIGKILL)
        assert [cycle() for _ in range(3)] == [Skipped("cycle")] * 3
        with pytest.raises(StoreUnavailable):
            leases.exclusive("cycle", LONG, on_held="raise")(cycle)()
        assert len(runs) == 1
        cluster.server.start()
        until(cycle, "a cycle after that")
        until(lambda: "store.recovered" in caplog.text, "the recovery to be told")
    told = [(record.levelname, record.message.split(" error=")[0]) for record in caplog.records]
    [began] = [line for line in told if "started over" in line[1]]  # once, whoever asks how often
    assert began[0] == "WARNING"
    told.remove(began)
    assert told[0] == ("WARNING", "store.unavailable service=\"exclusive 'cycle'\"")
    assert told[1][0] == "INFO"
    assert len(told) == 2


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
