"""Whatever happens between a log and a sink, nothing is lost and order is kept; and these checks
find relays that are broken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.events.delivery import Delivery
from tenure.events.progress import DeliveryPolicy
from tenure.events.sinks.base import by_key
from tests.unit.events.relay_model import (
    HOUR,
    QUICK,
    SKIPPING,
    BlamesEvents,
    Elsewhere,
    ForgetsLanes,
    HastyRelay,
    ParksWithoutHolding,
    PassesOverHoles,
    Relay,
    Story,
    whole_topic,
)

KEYS = st.sampled_from(["a", "b", "c", None])
DEEDS = st.one_of(
    st.tuples(st.just("emit"), KEYS),
    st.tuples(st.just("step"), st.sampled_from(["", "", "", "before", "after"])),
    st.tuples(st.just("pass"), st.sampled_from([0.5, 5.0, 15.0, 60.0])),
    st.tuples(st.just("refuses"), KEYS),
    st.tuples(st.just("silent"), KEYS),
    st.tuples(st.just("never"), KEYS),
    st.tuples(st.just("down"), st.booleans()),
    st.tuples(st.just("loses_replies"), st.booleans()),
    st.tuples(st.just("broken"), st.booleans()),
    st.tuples(st.just("at_a_time"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("heal"), st.none()),
)
HISTORIES = st.lists(DEEDS, max_size=60)


def act(story: Story, deeds: list[tuple[str, object]]) -> None:
    for deed, what in deeds:
        match deed, what:
            case "emit", None | str():
                story.log.emit(what)
            case "step", str():
                story.step(dies=what)
            case "pass", float():
                story.settle(what)
            case "refuses" | "silent", _:
                getattr(story.sink, deed).symmetric_difference_update({what})
            case "never", _:
                story.sink.never |= {e.id for e in story.log.events[-1:] if e.key == what}
            case "heal", _:
                heal(story)
            case _:
                setattr(story.sink, deed, what)


def play(story: Story, deeds: list[tuple[str, object]]) -> None:
    """Whatever happens, and then all is well again: everything arrives."""
    act(story, deeds)
    heal(story)
    story.log.replay()
    story.restart()
    story.settle(HOUR)
    passed = set(story.log.parked)
    arrived = {each.id for each in story.sink.received}
    missing = [e.id for e in story.log.events if e.id not in arrived and e.position not in passed]
    assert not missing, f"{missing} never arrive"
    assert not story.log.held
    assert not passed or story.policy.skip


def heal(story: Story) -> None:
    story.sink.down = story.sink.loses_replies = story.sink.broken = False
    story.sink.at_a_time = None
    for each in (story.sink.refuses, story.sink.silent, story.sink.never):
        each.clear()


@pytest.mark.parametrize("policy", [QUICK, SKIPPING], ids=["hold", "skip"])
@pytest.mark.parametrize("lane_of", [by_key, whole_topic])
@given(deeds=HISTORIES)
def test_whatever_happens_nothing_is_lost_and_order_is_kept(
    lane_of: object, policy: DeliveryPolicy, deeds: list[tuple[str, object]]
) -> None:
    play(Story(policy, whole_topic if lane_of is whole_topic else by_key), deeds)


@pytest.mark.parametrize("lanes", [(whole_topic, by_key), (by_key, whole_topic)])
@given(before=HISTORIES, after=HISTORIES)
def test_whatever_happens_nothing_is_lost_on_the_way_to_another_sink(
    lanes: Any, before: list[tuple[str, object]], after: list[tuple[str, object]]
) -> None:
    story = Elsewhere(QUICK, lanes[0])
    act(story, before)
    story.change_sink(lanes[1])
    play(story, after)


# -- broken variants: the checks above would find them --------------------------------------------


def refused_then_more(story: Story) -> None:
    for key in "abab":
        story.log.emit(key)
    story.sink.refuses = {"b"}
    story.settle(HOUR)
    story.sink.refuses = set()
    story.log.emit("b")
    story.settle(HOUR)
    story.restart()
    story.settle(HOUR)


def killed_before_sending(story: Story) -> None:
    story.log.emit("a")
    story.step(dies="before")


def down_for_an_hour(story: Story) -> None:
    for key in "abc":
        story.log.emit(key)
    story.sink.down = True
    story.settle(HOUR)
    assert not story.log.held, "events are blamed for a sink that is down"


@pytest.mark.parametrize("tale", [refused_then_more, killed_before_sending, down_for_an_hour])
def test_the_real_one_passes(tale: object) -> None:
    assert callable(tale)
    tale(Story(QUICK))


@pytest.mark.parametrize(
    ("tale", "relays", "kind", "complaint"),
    [
        (killed_before_sending, HastyRelay, Delivery, "is lost"),
        (refused_then_more, Relay, ParksWithoutHolding, "is out of order"),
        (refused_then_more, Relay, ForgetsLanes, "is lost"),
        (down_for_an_hour, Relay, PassesOverHoles, "is lost"),
        (down_for_an_hour, Relay, BlamesEvents, "are blamed"),
    ],
)
def test_a_broken_one_is_found(
    tale: object, relays: type[Relay], kind: type[Delivery], complaint: str
) -> None:
    assert callable(tale)
    with pytest.raises(AssertionError, match=complaint):
        tale(Story(QUICK, relays=relays, kind=kind))
