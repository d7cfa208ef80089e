"""A flood of notifications, from anybody who can connect: it costs a node a few calls a second, and
neither what is due nor a release waits for long."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import Scheduler, every
from tenure.backends.base import RUNS, SCHEDULES, lease_topic
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.redis.leases import RedisLeases
from tests.support.servers import PostgresServer, ValkeyServer

FLOOD = Path(__file__).parent / "programs" / "flood.py"
RATE = 20_000
SECONDS = 3.0
CALLS = 30
"""How many calls a second a flood may cost a node, of each kind."""
SOON = 10.0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the stores of this process are asked."""
    counted: Counter[str] = Counter()

    def count(kind: type, name: str) -> None:
        method: Callable[..., Any] = getattr(kind, name)

        async def counting(self: Any, *args: Any, **options: Any) -> Any:
            counted[name] += 1
            return await method(self, *args, **options)

        monkeypatch.setattr(kind, name, counting)

    count(PostgresSchedules, "due")
    count(PostgresRuns, "claim")
    count(RedisLeases, "read")
    count(RedisLeases, "suspect")
    return counted


@contextmanager
def flood(kind: str, url: str, channel: str, payload: str, rate: int = RATE) -> Iterator[None]:
    words = [kind, url, channel, payload, str(rate)]
    process = subprocess.Popen([sys.executable, FLOOD, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield
        assert process.poll() is None, "the flood has ended by itself"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def leading(scheduler: Scheduler) -> Iterator[Scheduler]:
    with scheduler:
        until(lambda: scheduler.is_leader, 30.0)
        yield scheduler


def until(fact: Callable[[], bool], within: float) -> float:
    begun = time.monotonic()
    while not fact():
        assert time.monotonic() < begun + within, f"not within {within:g} s"
        time.sleep(0.005)
    return time.monotonic() - begun


def watch(calls: Counter[str]) -> Counter[str]:
    """What is asked in some seconds from now."""
    calls.clear()
    cpu = time.process_time()
    time.sleep(SECONDS)
    spent = (time.process_time() - cpu) / SECONDS
    print(f"{spent:.1%} of a processor; calls: {dict(calls)}")  # noqa: T201
    return Counter({name: round(number / SECONDS) for name, number in calls.items()})


@pytest.mark.slow
@pytest.mark.parametrize("topic", [RUNS, SCHEDULES, "nothing of ours"])
def test_flood_of_notify(postgres: PostgresServer, calls: Counter[str], topic: str) -> None:
    url = postgres.create_database(f"flood_{topic.replace(' ', '_')}")
    done: list[float] = []
    scheduler = Scheduler(url, ttl=5)
    task = scheduler.task(every(hours=1), name="job", overlap="allow")
    task(lambda: done.append(time.monotonic()))
    with leading(scheduler):
        watch(calls)
        channel = _channel(scheduler)
        with flood("postgres", url, channel, topic):
            each = watch(calls)
            assert max(each.values(), default=0) <= CALLS, each
            for _ in range(3):
                before = len(done)
                scheduler.run_now("job")
                until(lambda before=before: len(done) > before, SOON)  # type: ignore[misc]
        # The first after quiet is heard at once.
        until(lambda: _heard_at_once(scheduler, done), 30.0)


def _channel(scheduler: Scheduler) -> str:
    wakeups = getattr(scheduler._runtime._backend, "wakeups", None)
    assert isinstance(wakeups, PostgresWakeups)
    return wakeups.channel


def _heard_at_once(scheduler: Scheduler, done: list[float]) -> bool:
    before, begun = len(done), time.monotonic()
    scheduler.run_now("job")
    until(lambda: len(done) > before, SOON)
    return time.monotonic() - begun < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["x", "y" * 5_000])
def test_flood_of_publish(tmp_path: Path, calls: Counter[str], payload: str) -> None:
    server = ValkeyServer()
    try:
        server.start()
        nodes = [
            Scheduler(f"sqlite:///{tmp_path}/jobs.db", leases=server.url, ttl=10) for _ in range(2)
        ]
        channel = f"tenure:{{default}}:wake:{lease_topic('tenure/leader')}"
        with leading(nodes[0]) as leader, nodes[1] as standby:
            watch(calls)
            until(lambda: _listeners(server, channel) == 2, 30.0)
            with flood("redis", server.url, channel, payload):
                until(lambda: _listeners(server, channel) == 0, 30.0)
                each = watch(calls)
                assert max(each.values(), default=0) <= CALLS, each
                leader.stop()
                until(lambda: standby.is_leader, SOON)
            until(lambda: _listeners(server, channel) == 1, 30.0)
    finally:
        server.close()


def _listeners(server: ValkeyServer, channel: str) -> int:
    return int(server.command("PUBSUB", "NUMSUB", channel)[1])
