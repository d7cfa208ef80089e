"""Who is told to be well: and what must not count."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tenure import AsyncScheduler, ConfigError, Scheduler, Settings, every
from tenure.observe import alive, health, leads, ready
from tenure.observe import watch as watching
from tests.unit.observe.observing import ANYWHERE, Outage, ask, reasons, status, until


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://", ttl=0.5, health=ANYWHERE)
    made.task(every(hours=1), name="sweep")(lambda: None)
    yield made
    made.stop()


def test_a_node_says_that_it_lives_is_ready_and_leads(scheduler: Scheduler) -> None:
    scheduler.start()
    assert status(scheduler, "/healthz") == 200
    until(lambda: status(scheduler, "/readyz") == 200, "readiness")
    until(lambda: status(scheduler, "/leader") == 200, "leadership")
    assert ask(scheduler, "/leader", "HEAD") == (200, "")
    assert (alive(scheduler).ok, ready(scheduler).ok, leads(scheduler).ok) == (True, True, True)
    assert leads(scheduler).about["term"] == 1


def test_a_node_that_may_not_lead_is_well_all_the_same() -> None:
    scheduler = Scheduler("memory://", settings=Settings(leads=False), health=ANYWHERE)
    scheduler.task(every(hours=1), name="sweep")(lambda: None)
    with scheduler:
        until(lambda: status(scheduler, "/readyz") == 200, "readiness")
        assert ask(scheduler, "/leader", "HEAD")[0] == 503
        assert reasons(scheduler, "/leader") == ["this node does not lead"]
        assert status(scheduler, "/healthz") == 200


def test_before_the_start_and_after_the_stop_it_is_alive_and_not_ready() -> None:
    scheduler = Scheduler("memory://")
    assert alive(scheduler)
    assert ready(scheduler).reasons == ("not started",)
    with scheduler:
        until(lambda: ready(scheduler).ok, "readiness")
    assert alive(scheduler)
    assert ready(scheduler).reasons == ("stopped",)


def test_a_hung_loop_is_told_and_so_is_its_end(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOOP_HUNG", 0.5)
    monkeypatch.setattr(watching, "BEAT_EVERY", 0.05)
    scheduler.start()
    until(lambda: status(scheduler, "/readyz") == 200, "readiness")
    go_on = threading.Event()
    scheduler._runtime.thread.loop.call_soon_threadsafe(go_on.wait, 60)
    try:
        until(lambda: status(scheduler, "/healthz") == 503, "failing health")
        assert "own loop has not advanced for" in reasons(scheduler, "/healthz")[0]
        assert status(scheduler, "/readyz") == 503
    finally:
        go_on.set()
    until(lambda: status(scheduler, "/healthz") == 200, "health")


def test_a_service_that_hangs_or_ends_is_told(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.start()
    until(lambda: status(scheduler, "/readyz") == 200, "readiness")
    node = scheduler._runtime.node
    assert node is not None
    node.ticker._step_began = time.clock_gettime(time.CLOCK_BOOTTIME) - 100
    assert reasons(scheduler, "/healthz") == ["the ticker has hung for 100 s"]
    node.ticker._step_began = None
    task = node.hung._task
    assert task is not None
    scheduler._runtime.thread.loop.call_soon_threadsafe(task.cancel)
    until(lambda: reasons(scheduler, "/healthz") == ["the hung runs has ended"], "its end")


def test_blocked_application_still_answers() -> None:
    import asyncio

    async def main() -> int:
        scheduler = AsyncScheduler("memory://", health=ANYWHERE)
        found: list[int] = []
        async with scheduler:
            asker = threading.Thread(target=lambda: found.append(status(scheduler, "/healthz")))
            asker.start()
            asker.join(30)  # blocks this loop
        return found[0]

    assert asyncio.run(main()) == 200


def test_a_store_that_is_away_for_a_moment_unreadies_nobody(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = Outage(scheduler)
    scheduler.start()
    until(lambda: status(scheduler, "/leader") == 200, "leadership")
    outage.away = True
    until(lambda: status(scheduler, "/leader") == 503, "the end of its trust")
    assert status(scheduler, "/readyz") == 200
    assert status(scheduler, "/healthz") == 200

    monkeypatch.setattr(health, "STORE_AWAY", 0.0)
    monkeypatch.setattr(health, "TTLS", 0)
    assert "has not answered for" in reasons(scheduler, "/readyz")[0]
    assert status(scheduler, "/healthz") == 200  # a restart would not bring it back
    outage.away = False
    until(lambda: status(scheduler, "/readyz") == 200, "readiness")


@pytest.mark.parametrize("how", ["start", "run"])
def test_hung_runs_in_all_slots_unready_a_node_and_restart_only_one_that_has_its_process_to_itself(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    go_on = threading.Event()
    scheduler = Scheduler("memory://", concurrency=1, health=ANYWHERE)

    @scheduler.task(timeout=0.05)
    def hang() -> None:
        go_on.wait(60)

    def look() -> None:
        scheduler.enqueue(hang)
        until(lambda: reasons(scheduler, "/readyz"), "unreadiness")
        assert reasons(scheduler, "/readyz") == ["hung runs have taken all its slots"]
        assert status(scheduler, "/healthz") == 200  # they may still end
        monkeypatch.setattr(health, "SLOTS_HUNG", 0.0)
        monkeypatch.setattr(health, "TTLS", 0)
        told = ["hung runs have had all its slots for 0 s"] if how == "run" else []
        assert reasons(scheduler, "/healthz") == told
        assert status(scheduler, "/readyz") == 503
        go_on.set()
        until(lambda: status(scheduler, "/readyz") == 200, "their end")
        assert status(scheduler, "/healthz") == 200

    if how == "start":
        with scheduler:
            look()
        return
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            until(lambda: scheduler.running, "its start")
            look()
        except BaseException as error:
            failed.append(error)
        finally:
            go_on.set()
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=beside)
    thread.start()
    scheduler.run()
    thread.join()
    assert failed == []


@pytest.mark.parametrize("address", ["9400", "host", ":9400", "host:99999", "a b:1", "", 9400])
def test_address_that_is_none_is_refused_when_it_is_given(address: str) -> None:
    with pytest.raises(ConfigError, match=r"is not HOST:PORT, such as 127.0.0.1:9400"):
        Scheduler("memory://", health=address)


def test_taken_port_stops_the_start_and_says_what_to_do(scheduler: Scheduler) -> None:
    from tests.unit.observe.observing import address

    scheduler.start()
    host, port = address(scheduler)
    second = Scheduler("memory://", health=f"{host}:{port}")
    with pytest.raises(ConfigError, match="Every process needs a port of its own"):
        second.start()
    assert not second.running
    scheduler.stop()
    second.start()  # the port is free at once
    assert status(second, "/healthz") == 200
    second.stop()


def test_address_of_another_machine_stops_the_start_and_says_so() -> None:
    elsewhere = Scheduler("memory://", health="203.0.113.1:9400")
    with pytest.raises(ConfigError, match="Name an address of this machine"):
        elsewhere.start()


def test_asking_a_scheduler_that_runs_unobserved_says_what_is_missing() -> None:
    scheduler = Scheduler("memory://")
    with scheduler, pytest.raises(ConfigError, match="call this once before start"):
        ready(scheduler)
