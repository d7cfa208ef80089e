"""How far a server's clock was moved, whatever the order of the steps."""

from __future__ import annotations

import random

import pytest

from tenure.backends.shared.server_clock import GRAIN, ServerClock


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_distance_of_the_extremes_since_any_moment(seed: int) -> None:
    rng = random.Random(seed)
    clock = ServerClock()
    looks: list[tuple[float, float]] = []
    mono, origin = 100.0, 1e9
    for _ in range(300):
        mono += rng.choice((0.001, 1, 60))
        origin += rng.choice((0, 0, 0.01, -0.01, 5, -5, 400, -400))
        looks.append((mono, origin))
        clock.look(mono, mono + origin)
        since = mono - rng.choice((1, 10, 100, 10_000))
        first = next((n for n, (time, _) in enumerate(looks) if time > since), len(looks))
        seen = [value for _, value in looks[max(first - 1, 0) :]]
        assert clock.moved(since) == pytest.approx(max(seen) - min(seen), abs=2 * GRAIN + 1e-6)


def test_a_clock_that_runs_like_ours_is_not_moved_and_little_is_remembered() -> None:
    rng = random.Random(1)
    clock = ServerClock()
    assert clock.moved(0.0) == 0.0
    for second in range(20_000):
        clock.look(second, 1e9 + second * 1.00001 + rng.random() / 100)
    assert clock.moved(0.0) < 0.3
    assert clock.moved(20_000 - 100) < 0.1
    assert len(clock._highest._values) + len(clock._lowest._values) < 20
