"""How many runs are claimed in advance, from how many have ended."""

from __future__ import annotations

from tenure.node.claim_ahead import AHEAD, AHEAD_FOR, SHORT, ClaimAhead


def ended(ahead: ClaimAhead, count: int, took: float = SHORT / 2, *, may: bool = True) -> None:
    for _ in range(count):
        ahead.ended(took, may=may)


def test_as_many_as_ended_since_the_last_claim_and_no_fewer_than_before() -> None:
    ahead = ClaimAhead(20)
    assert ahead.claim(0.0) == 0
    for now, count, wanted in ((0.01, 5, 5), (0.02, 30, 30), (0.03, 10, 30), (9.0, 0, 30)):
        ended(ahead, count)
        assert ahead.claim(now) == wanted


def test_at_most_so_many_times_the_concurrency() -> None:
    ahead = ClaimAhead(2)
    ahead.claim(0.0)
    ended(ahead, 1_000)
    assert ahead.claim(0.01) == 2 * AHEAD


def test_no_more_than_end_in_half_of_the_time_that_they_may_wait() -> None:
    ahead = ClaimAhead(20)
    ahead.claim(0.0)
    ended(ahead, 100)
    assert ahead.claim(AHEAD_FOR) == 50


def test_it_begins_anew_after_a_run_that_was_long_or_may_not_be_claimed_ahead() -> None:
    for took, may in ((SHORT, True), (0.0, False)):
        ahead = ClaimAhead(20)
        ahead.claim(0.0)
        ended(ahead, 10)
        assert ahead.claim(0.01) == 10
        ended(ahead, 10)
        ahead.ended(took, may=may)
        assert ahead.claim(0.02) == 0


def test_what_ended_before_some_were_given_back_does_not_count() -> None:
    ahead = ClaimAhead(20)
    ahead.claim(0.0)
    ended(ahead, 10)
    ahead.none()
    assert ahead.claim(0.01) == 0
