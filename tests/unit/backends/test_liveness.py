"""Whether a lease of a server is live, when somebody has moved the server's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.shared.liveness import Judge
from tenure.testing import FakeClock

TTL = 10.0
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def _row(clock: FakeClock, counter: int = 1, age: float = 0.0, **changed: Any) -> dict[str, Any]:
    """A lease of another machine, renewed `age` seconds ago, by clocks that agree."""
    renewed = clock.now() - timedelta(seconds=age)
    return {
        "name": "job",
        "holder": "somebody",
        "host": "elsewhere",
        "pid": 1,
        "boot": "another",
        "pid_namespace": "",
        "started": 0,
        "term": 1,
        "counter": counter,
        "ttl": TTL,
        "fenced": False,
        "renewed_at": renewed,
        "expires_at": renewed + timedelta(seconds=TTL),
        "expires_boot": 0.0,
        "now": clock.now(),
        **changed,
    }


def test_the_servers_clock_decides_where_nobody_doubts_it(clock: FakeClock) -> None:
    assert Judge(clock).live(_row(clock, age=TTL - 1))
    assert Judge(clock).why_not_live(_row(clock, age=TTL + 1)) == "expired"
    assert Judge(clock).why_not_live(_row(clock, age=TTL + 1, holder_now=clock.now())) is None


@pytest.mark.parametrize("newcomer", [True, False], ids=["newcomer", "watching"])
def test_renewed_while_the_servers_clock_was_behind(clock: FakeClock, newcomer: bool) -> None:
    """Set right, it makes what was renewed a moment ago look expired for an hour."""
    judge = Judge(clock)
    behind = _row(clock)
    behind |= {k: behind[k] - HOUR for k in ("renewed_at", "expires_at", "now")}
    known: dict[str, Any] = {"holder_now": clock.now()}
    if not newcomer:
        known = {}  # of a store that keeps no such thing; but we have looked before
        assert judge.live(behind)
    clock.advance(1)
    right = {**behind, **known, "counter": 2, "now": clock.now()}
    assert judge.live(right)
    clock.advance(TTL - 1)
    assert judge.live({**right, "now": clock.now()})
    clock.advance(1.5)
    assert not judge.live({**right, "now": clock.now()})


def test_doubt_after_a_jump_ends_with_the_ttl(clock: FakeClock) -> None:
    judge = Judge(clock)
    assert judge.live(_row(clock))
    ahead = _row(clock, counter=2)
    assert judge.live(ahead | {k: ahead[k] + HOUR for k in ("renewed_at", "expires_at", "now")})
    clock.advance(1)
    assert judge.live(_row(clock, counter=3, age=TTL + 1))
    clock.advance(TTL + 1)
    assert judge.why_not_live(_row(clock, counter=4, age=TTL + 1)) == "expired"


def _seen(row: dict[str, Any], clock: FakeClock) -> dict[str, Any]:
    """The same row, read now."""
    return {**row, "now": clock.now()}


@pytest.mark.parametrize("ttl", [3600.0, 1e300], ids=["long", "damaged"])
def test_a_look_at_a_long_lease_hides_no_jump_from_short_ones(clock: FakeClock, ttl: float) -> None:
    judge = Judge(clock)
    long = _row(clock, name="long", ttl=ttl, expires_at=clock.now() + HOUR)
    short = _row(clock)
    assert judge.live(long)
    assert judge.live(short)
    clock.jump(60)
    assert judge.live(_seen(long, clock))
    assert judge.live(_seen(short, clock))
    clock.advance(TTL + 1)
    assert judge.why_not_live(_seen(short, clock)) == "expired"


def test_a_jump_is_measured_with_the_ttl_of_each(clock: FakeClock) -> None:
    judge = Judge(clock)
    assert judge.live(_row(clock))
    clock.jump(60)
    assert judge.live(_row(clock, age=30))
    assert not judge.comparable(_row(clock))
    assert judge.comparable(_row(clock, ttl=3600.0))


def test_small_steps_of_the_clock_add_up(clock: FakeClock) -> None:
    """Each is less than a third of the ttl; together they are more than all of it."""
    judge = Judge(clock)
    row = _row(clock)
    for _ in range(5):
        assert judge.live(_seen(row, clock))
        clock.jump(TTL * 0.3)
    assert judge.live(_seen(row, clock))


def test_steps_that_lie_a_ttl_apart_do_not(clock: FakeClock) -> None:
    judge = Judge(clock)
    for _ in range(5):
        assert judge.live(_row(clock))
        clock.jump(TTL * 0.3)
        assert judge.why_not_live(_row(clock, age=TTL + 1)) == "expired"
        clock.advance(TTL + 1)


def test_a_small_step_hides_no_great_jump_before_it(clock: FakeClock) -> None:
    judge = Judge(clock)
    hour = _row(clock, name="hour", ttl=3600.0, expires_at=clock.now() + HOUR)
    assert judge.live(hour)
    clock.jump(7200)
    assert judge.live(_row(clock))
    for _ in range(100):
        clock.advance(30)
        clock.jump(-0.1)
        assert judge.live(_row(clock))
    assert judge.live(_seen(hour, clock))
    clock.advance(3600)
    assert judge.why_not_live(_seen(hour, clock)) == "expired"
