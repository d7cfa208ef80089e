"""The relay: what it sends, what it stores before it sends more, and when it does neither."""

from __future__ import annotations

import asyncio
import time

import pytest

from tenure import Fenced, Settings
from tenure.node.relay import UNSTORED
from tenure.process.clock import SystemClock
from tests.unit.node.relaying import Scene, SlowSink
from tests.unit.node.services import SETTINGS, names


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_everything_is_delivered_and_stored(scene: Scene) -> None:
    await scene.emit("a1", "b1", "a2", "b2", "a3")
    assert await scene.relay.step() is None, "it has no lease"
    await scene.elected()
    assert await scene.run() == SETTINGS.idle_poll
    assert scene.sink.received == ["a1", "b1", "a2", "b2", "a3"]
    assert await scene.cursor() == 5
    calls = scene.store.calls["acknowledge"]
    assert await scene.run() == SETTINGS.idle_poll
    assert scene.store.calls["acknowledge"] == calls, "nothing is written while nothing happens"


@pytest.mark.parametrize("fault", ["down", "deaf"])
async def test_nothing_is_sent_after_the_store_has_failed_until_all_is_stored(
    scene: Scene, fault: str
) -> None:
    sent = [f"a{n:02}" for n in range(20)]
    await scene.emit(*sent)
    await scene.elected()
    getattr(scene.store, fault).add("acknowledge")
    for _ in range(3):
        assert await scene.run()
    received = list(scene.sink.received)
    assert received in (sent[:3], sent[:6], sent[:9])
    assert "store.unavailable" in names(scene.told)
    for _ in range(3):
        assert await scene.run()
    assert scene.sink.received == received
    getattr(scene.store, fault).clear()
    await scene.run()
    assert scene.sink.received == sent
    assert await scene.cursor() == 20


async def test_few_batches_are_sent_while_an_acknowledgement_is_stored(scene: Scene) -> None:
    """They are what a successor has to repeat."""
    sent = [f"a{n:02}" for n in range(40)]
    await scene.emit(*sent)
    await scene.elected()
    going = asyncio.Event()
    scene.store.before["acknowledge"] = going.wait
    running = asyncio.create_task(scene.run(steps=50))
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert scene.sink.received == sent[: (1 + UNSTORED) * 3]
    assert await scene.cursor() == 0
    going.set()
    assert await running == SETTINGS.idle_poll
    assert scene.sink.received == sent
    assert await scene.cursor() == 40


async def test_halting_stores_what_was_confirmed(scene: Scene) -> None:
    sent = [f"a{n:02}" for n in range(20)]
    await scene.emit(*sent)
    await scene.elected()
    going = asyncio.Event()
    scene.store.before["acknowledge"] = going.wait
    for _ in range(2):
        assert await scene.relay.step() == 0.0
    assert scene.sink.received == sent[:6]
    halting = asyncio.create_task(scene.relay.halt())
    await asyncio.sleep(0)
    assert await scene.cursor() == 0, "it is being stored"
    going.set()
    await halting
    assert await scene.cursor() == 6


async def test_halting_ends_quietly_if_another_has_taken_over(scene: Scene) -> None:
    """Its fence refuses what is still to be stored; the other sends some again."""
    await scene.emit(*(f"a{n:02}" for n in range(20)))
    await scene.elected()

    async def refused() -> None:
        raise Fenced("another term is in office")

    scene.store.before["acknowledge"] = refused
    assert await scene.relay.step() == 0.0
    await asyncio.sleep(0)
    await scene.relay.halt()
    assert await scene.cursor() == 0
    assert scene.sink.closed


async def test_event_that_comes_after_reading_ahead_needs_no_other_wakeup(scene: Scene) -> None:
    await scene.emit("a1", "a2", "a3")
    await scene.elected()

    async def later() -> None:
        scene.store.before.clear()
        for _ in range(5):
            await asyncio.sleep(0)  # the next events are read meanwhile: there are none
        await scene.emit("a4")

    scene.store.before["acknowledge"] = later
    assert await scene.run() == SETTINGS.idle_poll
    assert scene.sink.received == ["a1", "a2", "a3", "a4"]


async def test_a_former_relay_stores_nothing(scene: Scene) -> None:
    await scene.emit("a1", "a2")
    await scene.elected()

    async def taken_over() -> None:
        scene.store.before.clear()
        scene.clock.advance(2 * SETTINGS.ttl)
        other, _ = scene.another("bob")
        await scene.elected(other)
        await scene.run(other)
        await scene.emit("a3")

    scene.store.before["acknowledge"] = taken_over
    assert await scene.run() is None
    assert scene.sink.received == ["a1", "a2", "a1", "a2"]
    assert await scene.cursor() == 2
    await scene.relay.elector.step()
    assert scene.relay.elector.held is None


async def test_no_send_begins_that_could_outlast_the_lease(scene: Scene) -> None:
    await scene.elected()
    await scene.emit("a1")
    scene.clock.advance(SETTINGS.ttl - SETTINGS.safety - SETTINGS.call_timeout - 0.01)
    assert await scene.relay.step() == SETTINGS.hint_every
    assert not scene.sink.seconds
    await scene.keeper.step()
    await scene.run()
    assert scene.sink.received == ["a1"]
    [seconds] = scene.sink.seconds
    assert seconds <= SETTINGS.ttl - SETTINGS.safety - SETTINGS.call_timeout


@pytest.mark.parametrize("renewed", [True, False])
async def test_slow_sink_has_its_time_while_the_lease_is_renewed(renewed: bool) -> None:
    """Longer than the lease lasts; and if it is not renewed, no longer than it lasts."""
    settings = Settings(ttl=2.0, heartbeat=0.1)
    sink = SlowSink(30.0, takes=2.5)
    scene = Scene(SystemClock(), settings, sink)
    await scene.emit("a1")
    await scene.elected()
    begun = time.monotonic()
    if renewed:
        scene.keeper.start()
    await scene.relay.guarded_step()
    spent = time.monotonic() - begun
    await scene.keeper.halt()
    assert sink.seconds == [30.0]
    assert (sink.received, sink.cut_off) == ((["a1"], False) if renewed else ([], True))
    assert await scene.cursor() == int(renewed)
    assert renewed or spent < settings.ttl
