"""Whose turn it is when more is due than fits into a look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenure.backends.shared.schedule_turns import FAR, MOST_TENANTS, NEAR, REST, Turns, in_turn
from tenure.model import DueBatch, DueSchedule

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def due(uid: int) -> DueSchedule:
    moment = NOW + timedelta(seconds=uid)
    return DueSchedule(uid, f"s{uid}", 1, "", moment, moment, "latest", "skip", None)


def look(limit: int, *groups: tuple[int, ...], of: int = 10) -> tuple[list[int], datetime | None]:
    batch = DueBatch(NOW, [due(uid) for uid in range(of)], None)
    made = in_turn(batch, [[due(uid) for uid in group] for group in groups], limit)
    return [schedule.uid for schedule in made.schedules], made.next_due


def test_each_has_a_turn_then_each_another_then_the_oldest() -> None:
    assert look(7, (0, 1), (5, 8), (20,)) == ([0, 5, 20, 1, 8, 2, 3], NOW + timedelta(seconds=4))


def test_without_groups_the_oldest_are_taken() -> None:
    assert look(3) == ([0, 1, 2], NOW + timedelta(seconds=3))


def test_nobody_is_taken_twice_and_the_limit_holds() -> None:
    assert look(2, (0,), (0,), (1,), (2,)) == ([0, 1], NOW + timedelta(seconds=2))


def test_those_who_have_nothing_due_have_no_turn() -> None:
    assert Turns().share([("a", True), ("b", False), ("c", True)], 30) == (["a", "c"], 10)


def test_a_single_tenant_leaves_half_to_those_without_one() -> None:
    assert Turns().share([("a", True)], 30) == (["a"], 15)
    assert Turns().share([("a", False)], 30) == ([], 15)


def test_next_look_begins_after_those_who_had_their_turn() -> None:
    turns = Turns()
    assert turns.share([(name, True) for name in "abcde"], 3) == (["a", "b"], 1)
    assert (turns.after, turns.begins, turns.whole) == ("b", True, False)
    assert turns.share([(name, True) for name in "cde"], 3) == (["c", "d", "e"], 1)
    assert (turns.after, turns.begins, turns.whole) == ("", False, False)


def test_look_in_which_all_have_their_turn_is_the_whole_round() -> None:
    turns = Turns()
    for _ in range(2):
        turns.share([(name, True) for name in "ab"], 3)
        assert (turns.begins, turns.whole) == (True, True)


def test_last_one_of_a_round_has_the_look_alone() -> None:
    turns = Turns()
    turns.share([(name, True) for name in "abc"], 3)
    assert turns.share([("c", True)], 3) == (["c"], 3)
    assert not turns.whole


def test_next_look_asks_others_even_if_these_have_nothing_due() -> None:
    turns = Turns()
    turns.share([(f"{number:05}", False) for number in range(MOST_TENANTS)], 3)
    assert turns.after == f"{MOST_TENANTS - 1:05}"
    turns.share([], 3)
    assert turns.after == ""


def test_search_for_those_without_a_tenant_stays_near_when_it_found_none() -> None:
    turns = Turns()
    searched = list[int]()
    for _ in range(2 * REST + 2):
        searched.append(turns.search())
        turns.found(0)
    assert searched == [FAR, *[NEAR] * REST] * 2
    turns.found(0)
    turns.found(3)
    assert turns.search() == FAR
