"""The relay: what it sends, what it stores before it sends more, and when it does neither."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tenure import Settings
from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.events.relay import Relay
from tenure.events.sinks.base import DELIVERED, UNTRIED, Lane, Outcome, Outgoing, Verdict, by_key
from tenure.model import Content, Fence, LoggedEvent, NewEvent
from tenure.node.keeper import Keeper
from tenure.node.relay import RelayService
from tenure.node.service import Surroundings
from tenure.process.clock import SystemClock
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening, names

LEADER = Fence("leader", 1, "leader")


class ListSink:
    """Takes what it is told to take."""

    location = "list://"

    def __init__(self) -> None:
        self.received: list[str] = []
        self.seconds: list[float] = []
        self.answer: dict[str, Outcome] = {}
        self.closed = False

    def lane(self, event: LoggedEvent) -> Lane:
        return by_key(event)

    async def open(self) -> None:
        pass

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        self.seconds.append(seconds)
        outcomes, failed = [], set[Lane]()
        for outgoing in batch:
            event, lane = outgoing.event, by_key(outgoing.event)
            outcome = self.answer.get(event.id, self.answer.get("*", DELIVERED))
            outcomes.append(UNTRIED if lane in failed else outcome)
            if outcomes[-1] is DELIVERED:
                self.received.append(event.id)
            else:
                failed.add(lane)
        return outcomes

    async def close(self) -> None:
        self.closed = True


class SlowSink(ListSink):
    """Takes its time, as long as it has it."""

    def __init__(self, patience: float, takes: float) -> None:
        super().__init__()
        self.patience = patience
        self.takes = takes
        self.cut_off = False

    async def send(self, batch: Sequence[Outgoing], seconds: float) -> list[Outcome]:
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            self.cut_off = True
            self.seconds.append(seconds)
            raise
        return await super().send(batch, seconds)


class Scene:
    """A store with events, and one relay of it."""

    def __init__(
        self,
        clock: Any = None,
        settings: Settings = SETTINGS,
        sink: ListSink | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.settings = settings
        self.backend = MemoryBackend(self.clock)
        self.sink = sink or ListSink()
        self.store: Any = faulty(self.backend.relays)
        self.facts, self.told = listening()
        self.relay, self.keeper = self.another("ann")

    def another(self, who: str, **options: Any) -> tuple[RelayService, Keeper]:
        stores = Stores.of(self.backend)
        object.__setattr__(stores, "relays", self.store)
        around = Surroundings(self.clock, self.facts, self.settings)
        keeper = Keeper(stores.leases, around)
        relay = Relay("kafka://host", name="r", batch=3, **{"tries": 2, **options})
        return RelayService(relay, self.sink, stores, holder(who), keeper, around), keeper

    async def emit(self, *ids: str) -> None:
        """The key of an event is the first letter of its id."""
        new = [NewEvent(each, Content("ledger", "Said", "1", each[0])) for each in ids]
        await self.backend.events.append(new)
        await self.backend.office.take(LEADER)
        await self.backend.events.sequence(LEADER)

    async def elected(self, relay: RelayService | None = None) -> RelayService:
        relay = relay or self.relay
        for _ in range(2):
            await relay.elector.step()
        assert relay.elector.leading is not None
        return relay

    async def run(self, relay: RelayService | None = None, steps: int = 10) -> float | None:
        delay: float | None = 0.0
        for _ in range(steps):
            delay = await (relay or self.relay).guarded_step()
            if delay != 0.0:
                break
        return delay

    async def cursor(self) -> int:
        [status] = await self.backend.relays.all()
        return status.position


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
async def test_nothing_is_sent_before_the_last_batch_is_stored(scene: Scene, fault: str) -> None:
    await scene.emit("a1", "a2", "a3", "a4", "a5")
    await scene.elected()
    getattr(scene.store, fault).add("acknowledge")
    for _ in range(3):
        assert await scene.run()
    assert scene.sink.received == ["a1", "a2", "a3"]
    assert "store.unavailable" in names(scene.told)
    getattr(scene.store, fault).clear()
    await scene.run()
    assert scene.sink.received == ["a1", "a2", "a3", "a4", "a5"]
    assert await scene.cursor() == 5


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


async def test_trouble_is_told_once_and_is_visible(scene: Scene) -> None:
    await scene.emit("a1")
    await scene.elected()
    scene.sink.answer["*"] = Outcome(Verdict.DOWN, "no route")
    for _ in range(3):
        delay = await scene.run()
        assert delay
        scene.clock.advance(delay)
        await scene.keeper.step()
    [status] = await scene.backend.relays.all()
    assert (status.trouble, status.position) == ("no route", 0)
    scene.sink.answer.clear()
    scene.clock.advance(5)
    await scene.keeper.step()
    await scene.run()
    told = [name for name in names(scene.told) if name.startswith("relay.")]
    assert told == ["relay.stalled", "relay.delivered", "relay.recovered"]
    assert (await scene.backend.relays.all())[0].trouble == ""


async def test_parked_key_goes_on_when_an_operator_says_so(scene: Scene) -> None:
    await scene.emit("a1", "b1", "a2")
    await scene.elected()
    scene.sink.answer["a1"] = Outcome(Verdict.REFUSED, "never")
    await scene.run()
    assert scene.sink.received == ["b1"]
    [parked] = [fact for fact in scene.told if fact.name == "relay.parked"]
    assert parked.values()["key"] == "a"
    del scene.sink.answer["a1"]
    await scene.run()
    assert scene.sink.received == ["b1"]
    assert await scene.backend.relays.replay("r") == 1
    await scene.run()
    assert scene.sink.received == ["b1", "a1", "a2"]
    [status] = await scene.backend.relays.all()
    assert (status.held, status.parked) == (0, 0)


async def test_dropped_event_is_not_sent(scene: Scene) -> None:
    await scene.emit("a1", "b1", "a2")
    await scene.elected()
    scene.sink.answer["a1"] = Outcome(Verdict.REFUSED, "never")
    await scene.run()
    scene.sink.answer.clear()
    assert await scene.backend.relays.drop("r") == 1
    await scene.run()
    assert scene.sink.received == ["b1", "a2"]
    assert (await scene.backend.relays.all())[0].held == 0


async def test_events_that_were_passed_over_are_replayed_however_many(scene: Scene) -> None:
    count = 130
    scene.relay, scene.keeper = scene.another("ann", skip=True, tries=1)
    await scene.emit(*(f"{n:03d}" for n in range(count)))
    await scene.elected()
    scene.sink.answer = {f"{n:03d}": Outcome(Verdict.REFUSED, "never") for n in range(count)}
    await scene.run(steps=200)
    assert len(await scene.backend.relays.parked(limit=1_000)) == count
    scene.sink.answer.clear()
    assert await scene.backend.relays.replay("r") == count
    await scene.run(steps=200)
    assert sorted(scene.sink.received) == [f"{n:03d}" for n in range(count)]
    assert await scene.backend.relays.parked() == []


async def test_sink_that_has_ended_gets_nothing_until_it_is_resumed(scene: Scene) -> None:
    await scene.emit("a1", "b1")
    await scene.elected()
    scene.sink.answer["*"] = Outcome(Verdict.ENDED, "410")
    await scene.run()
    scene.sink.answer.clear()
    await scene.run()
    other, _ = scene.another("bob")
    scene.clock.advance(2 * SETTINGS.ttl)
    await scene.elected(other)
    await scene.run(other)
    assert not scene.sink.received
    assert names(scene.told).count("relay.ended") == 1
    assert await scene.backend.relays.revive("r")
    await scene.run(other)
    assert scene.sink.received == ["a1", "b1"]


async def test_clock_that_is_set_back_holds_no_key_for_long(scene: Scene) -> None:
    await scene.emit("a1", "b1")
    await scene.elected()
    scene.sink.answer["a1"] = Outcome(Verdict.RETRY, "busy")
    await scene.run()
    scene.clock.jump(-86_400)
    scene.clock.advance(2 * SETTINGS.ttl)
    scene.sink.answer.clear()
    other, keeper = scene.another("bob")
    await scene.elected(other)
    await scene.run(other)
    scene.clock.advance(6)
    await keeper.step()
    await scene.run(other)
    assert scene.sink.received == ["b1", "a1"]


async def test_halting_hands_over_and_closes_the_sink(scene: Scene) -> None:
    await scene.elected()
    await scene.relay.halt()
    lease = await scene.backend.leases.read("tenure/relay/r")
    assert lease is not None
    assert lease.holder is None
    assert scene.sink.closed
