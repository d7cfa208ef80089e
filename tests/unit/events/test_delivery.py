"""What the relay sends, and what it may acknowledge, with a sink that is down, slow or choosy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import ConfigError
from tenure.events.delivery import LONGEST_PAUSE, PROBE, Delivery, time_to_send
from tenure.events.progress import DeliveryPolicy
from tenure.events.sinks.base import UNTRIED, Outcome, Verdict, by_key
from tenure.model import HeldLane, Lane
from tenure.tasks.backoff import Backoff
from tests.unit.events.relay_model import HOUR, QUICK, SKIPPING, Elsewhere, Story, whole_topic


def story_of(*keys: str | None, policy: DeliveryPolicy = QUICK) -> Story:
    story = Story(policy)
    for key in keys:
        story.log.emit(key)
    return story


def test_all_is_delivered_and_the_cursor_follows() -> None:
    story = story_of(*"abcabcabcabc", None, None)
    story.settle(1)
    assert [each.id for each in story.sink.received] == [each.id for each in story.log.events]
    assert story.log.cursor == story.log.events[-1].position
    assert not story.log.held


def test_a_relay_that_dies_after_sending_repeats() -> None:
    story = story_of(*"abab")
    story.step(dies="after")
    assert story.log.cursor == 0
    story.settle(1)
    ids = [each.id for each in story.sink.received]
    assert ids == 2 * [each.id for each in story.log.events]


def test_a_refused_key_holds_only_itself() -> None:
    story = story_of(*"abcab")
    story.sink.refuses = {"b"}
    story.settle(5)
    assert story.delivered("a") == story.emitted("a")
    assert story.delivered("c") == story.emitted("c")
    assert not story.delivered("b")
    [held] = story.log.held.values()
    assert (held.lane, held.tries, held.reason) == (Lane("ledger", "b"), 1, "not now")
    assert story.log.cursor == story.log.events[-1].position


def test_a_held_key_goes_on_in_order_once_it_is_taken() -> None:
    story = story_of(*"abbbbbbbbbbbb")
    story.sink.refuses = {"b"}
    story.settle(15)
    story.log.emit("b")
    story.sink.refuses = set()
    story.settle(30)
    assert story.delivered("b") == story.emitted("b")
    assert not story.log.held


def test_after_its_last_try_an_event_is_parked_and_holds_its_key() -> None:
    story = story_of(*"ab")
    story.sink.refuses = {"b"}
    story.settle(HOUR)
    [held] = story.log.held.values()
    assert (held.parked, held.tries, held.reason) == (True, 3, "not now")
    story.log.emit("b")
    story.log.emit("a")
    story.sink.refuses = set()
    story.settle(HOUR)
    assert not story.delivered("b")
    assert story.delivered("a") == story.emitted("a")
    story.log.replay()
    story.restart()
    story.settle(HOUR)
    assert story.delivered("b") == story.emitted("b")


def test_by_choice_a_parked_event_is_passed_over() -> None:
    story = story_of(*"abb", policy=SKIPPING)
    story.sink.never = {story.log.events[1].id}
    story.settle(HOUR)
    assert list(story.log.parked) == [story.log.events[1].position]
    assert story.delivered("b") == story.emitted("b")[1:]
    assert not story.log.held


def test_a_parked_event_that_was_passed_over_is_sent_late() -> None:
    story = story_of("a", "a", policy=SKIPPING)
    story.sink.never = {story.log.events[0].id}
    story.settle(HOUR)
    story.relay.delivery.add_parked([story.log.events[0]])
    [outgoing] = story.relay.delivery.batch(story.now)
    assert outgoing.late
    story.settle(HOUR)
    assert list(story.log.parked) == [story.log.events[0].position], "refused once more"
    story.sink.never = set()
    story.relay.delivery.add_parked([story.log.events[0]])
    story.settle(HOUR)
    assert not story.log.parked
    assert story.delivered("a") == story.emitted("a")[::-1]


def test_a_replayed_event_without_an_answer_is_parked_again_if_others_get_through() -> None:
    story = story_of("b", "a", policy=SKIPPING)
    story.sink.never = {story.log.events[0].id}
    story.settle(HOUR)
    story.sink.never, story.sink.silent = set(), {"b"}
    story.relay.delivery.add_parked([story.log.events[0]])
    story.log.emit("a")
    story.step()
    assert not story.relay.delivery.replaying
    assert list(story.log.parked) == [story.log.events[0].position]
    assert story.delivered("a") == story.emitted("a")


def test_a_key_goes_on_after_its_last_event_was_dropped() -> None:
    story = story_of(*"ab", policy=SKIPPING)
    story.sink.never = {story.log.events[1].id}
    story.settle(5)
    lane = Lane("ledger", "b")  # as if it had been held, and dropped
    story.log.held = {lane: HeldLane(lane, story.log.events[1].position + 1)}
    story.restart()
    story.step()
    assert not story.log.held, "nothing is left to wait for"
    story.log.emit("b")
    story.step()
    assert story.delivered("b") == story.emitted("b")[1:]


@pytest.mark.parametrize("dies", ["", "before", "after"])
@pytest.mark.parametrize("lanes", [(whole_topic, by_key), (by_key, whole_topic)])
def test_a_relay_that_gets_another_sink_goes_on_from_what_was_held(lanes: Any, dies: str) -> None:
    """Its lanes are others now: what was held is sent once more from there, and then it is over."""
    story = Elsewhere(QUICK, lanes[0])
    for key in (*"abcabc", None, *"ab"):
        story.log.emit(key)
    story.sink.refuses = {"b"}
    story.settle(5)
    assert story.log.held
    story.sink.refuses = set()
    story.change_sink(lanes[1])
    story.now += 20
    story.relay.step(story.now, dies)
    if dies:
        story.restart()
    story.settle(HOUR)
    assert {each.id for each in story.sink.received} == {each.id for each in story.log.events}
    assert not story.log.held
    for key in "abc":
        assert story.delivered(key) == story.emitted(key)


def test_what_can_never_be_taken_is_parked_at_once() -> None:
    story = story_of(*"ab")
    story.sink.never = {story.log.events[1].id}
    story.step()
    [held] = story.log.held.values()
    assert (held.parked, held.tries, held.reason) == (True, 1, "never")


def test_a_sink_that_is_down_for_an_hour_costs_no_try_and_no_memory() -> None:
    policy = DeliveryPolicy(batch=5, window=10, stall=Backoff.exponential(1, most=30))
    story = story_of(*"abcdefghij" * 30, policy=policy)
    story.sink.down = True
    story.settle(HOUR)
    assert story.sink.sends <= HOUR / 30 + 10
    assert not story.log.held
    assert story.log.cursor == 0
    assert len(story.relay.delivery._window) <= policy.window
    assert story.relay.delivery.trouble == "no answer"
    story.sink.down = False
    story.settle(60)
    assert len(story.sink.received) == 300
    assert story.relay.delivery.trouble == ""


def test_a_sink_that_is_broken_for_ten_minutes_sets_little_aside() -> None:
    """It answers, so events lose tries; but few are tried."""
    policy = DeliveryPolicy(
        batch=20,
        window=40,
        backoff=Backoff.exponential(5, factor=4, most=3_600),
        stall=Backoff.exponential(0.5, most=30),
    )
    story = story_of(*map(str, range(500)), policy=policy)
    story.sink.broken = True
    story.settle(HOUR / 6)
    assert len(story.log.held) <= policy.batch + PROBE * (HOUR / 6 / 30 + 7)
    assert not any(held.parked for held in story.log.held.values())
    story.sink.broken = False
    story.settle(2 * HOUR)
    assert len(story.sink.received) == 500


def test_a_key_without_an_answer_is_its_own_fault_while_others_get_through() -> None:
    story = story_of(*"abab")
    story.sink.silent = {"b"}
    story.settle(5)
    for _ in range(10):
        story.log.emit("a")
        story.settle(10)
    assert story.delivered("a") == story.emitted("a")
    [held] = story.log.held.values()
    assert held.parked


def test_a_known_key_without_an_answer_does_not_stop_the_others() -> None:
    story = story_of(*"ab")
    story.sink.silent = {"b"}
    story.settle(12)
    story.log.emit("a")
    story.step()
    assert story.delivered("a") == story.emitted("a")


def test_a_sink_that_asks_for_pauses_gets_them_and_no_event_loses_a_try() -> None:
    story = story_of(*"abcdefghijkl")
    story.sink.at_a_time = 3
    story.step()
    assert len(story.sink.received) == 3
    assert story.relay.delivery.next_look(story.now) == story.now + 7.0
    story.settle(100)
    assert len(story.sink.received) == 12
    assert not story.log.held


def test_the_pause_that_a_sink_asks_for_is_limited() -> None:
    story = story_of("a")
    story.sink.at_a_time = 0
    story.step()
    look = story.relay.delivery.next_look(story.now)
    assert look is not None
    assert look <= LONGEST_PAUSE


def test_a_sink_that_has_ended_gets_nothing_more() -> None:
    story = story_of(*"ab")
    delivery = story.relay.delivery
    delivery.add(story.log.events)
    batch = delivery.batch(0.0)
    told = delivery.settle(batch, [Outcome(Verdict.ENDED, "410"), UNTRIED], 0.0)
    assert (told.ended, told.cursor) == ("410", 0)
    assert delivery.batch(HOUR) == []
    assert delivery.next_look(HOUR) is None


def test_too_many_held_lanes_stop_the_reading() -> None:
    policy = DeliveryPolicy(batch=5, window=10, most_lanes=8)
    delivery = Delivery(policy, by_key)
    assert delivery.wants(0.0).room == 10
    story = Story(policy)
    for number in range(50):
        story.log.emit(str(number))
    story.sink.broken = True
    story.settle(HOUR)
    assert len(story.log.held) <= 8 + policy.window


@pytest.mark.parametrize(
    "wrong", [{"batch": 0}, {"tries": 0}, {"batch": 10, "window": 9}, {"most_lanes": 0}]
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DeliveryPolicy(**wrong)  # type: ignore[arg-type]


@given(
    now=st.floats(0, 1e6),
    left=st.floats(-100, 100),
    most=st.floats(0.05, 60),
    reserve=st.floats(0, 10),
)
def test_a_send_ends_before_the_lease_can(
    now: float, left: float, most: float, reserve: float
) -> None:
    until = now + left
    seconds = time_to_send(now, until, most, reserve)
    assert 0 <= seconds <= most
    assert not seconds or now + seconds + reserve <= until + 1e-6
