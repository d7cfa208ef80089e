"""Whether a lease of a server is live, when somebody has moved the server's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.judge import Judge
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
