"""The relay: a sink in trouble, parked events, operators, and the end."""

from __future__ import annotations

import pytest

from tenure.events.sinks.base import Outcome, Verdict
from tenure.node.relay import RelayService
from tests.unit.node.relaying import Scene
from tests.unit.node.services import SETTINGS, names


@pytest.fixture
def scene() -> Scene:
    return Scene()


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


def stalled(relay: RelayService) -> bool:
    return relay.stalled  # asked again and again: mypy believes that it never changes


async def test_relay_that_was_ended_is_stalled_until_it_is_resumed(scene: Scene) -> None:
    await scene.emit("a1")
    await scene.elected()
    scene.sink.answer["*"] = Outcome(Verdict.ENDED, "410")
    await scene.run()
    assert stalled(scene.relay)
    scene.sink.answer.clear()
    assert await scene.backend.relays.revive("r")
    await scene.run()
    told = [name for name in names(scene.told) if name.startswith("relay.")]
    assert told == ["relay.ended", "relay.delivered", "relay.recovered"]
    assert not stalled(scene.relay)


@pytest.mark.parametrize("verdict", [Verdict.DOWN, Verdict.ENDED])
async def test_relay_is_stalled_where_its_lease_is(scene: Scene, verdict: Verdict) -> None:
    await scene.emit("a1")
    await scene.elected()
    scene.sink.answer["*"] = Outcome(verdict, "no")
    await scene.run()
    assert stalled(scene.relay)
    scene.clock.advance(2 * SETTINGS.ttl)
    assert not stalled(scene.relay)  # whether it steps again or not
    other, _ = scene.another("bob")
    await scene.elected(other)
    await scene.run(other)
    assert stalled(other)
    await scene.run()
    assert not stalled(scene.relay)
    scene.sink.answer.clear()
    await scene.backend.relays.revive("r")
    scene.clock.advance(0.5)
    await scene.run(other)
    assert not stalled(other)
    assert names(scene.told).count("relay.recovered") == 1


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
