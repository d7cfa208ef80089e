"""How the benchmarks of load count: on examples of which the answer is known."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import backlog, crowd, steady, takeover
from benchmarks.cluster import Event
from benchmarks.node import STARTS
from benchmarks.processors import family_seconds
from benchmarks.stores import STORES
from benchmarks.waiting import Kind, waiting
from tenure.model import Overlap

FIRST, RATE = 1_000.0, 10


def _found(starts: list[tuple[float, float]], stretch: tuple[float, float]) -> steady.Found:
    told = [Event(2_000.0, 1, STARTS, {"starts": starts}), Event(2_000.0, 1, "tick.fired", {})]
    return steady._found(told, FIRST, RATE, stretch, 3.0)


def test_a_steady_stretch_is_accounted_for() -> None:
    whole = [(FIRST + place / RATE, FIRST + place / RATE + 0.25) for place in range(50)]
    found = _found(whole, (1_001.0, 1_003.0))
    assert (found.missing, found.twice) == (0, 0)
    assert found.lates == pytest.approx([250.0] * 20)


def test_what_is_missing_or_comes_twice_is_seen() -> None:
    whole = [(FIRST + place / RATE, FIRST + place / RATE) for place in range(50)]
    hole = [start for start in whole if start[0] != FIRST + 15 / RATE]
    assert _found(hole, (1_001.0, 1_003.0)).missing == 1
    # It counts as late until then: nobody looks better by not starting what is late.
    assert max(_found(hole, (1_001.0, 1_003.0)).lates) == pytest.approx(2_500.0)
    assert len(_found([], (1_001.0, 1_003.0)).lates) == 20
    assert _found([*whole, whole[15]], (1_001.0, 1_003.0)).twice == 1
    # Outside the stretch neither counts.
    assert _found([*hole, whole[5]], (1_002.0, 1_003.0)).missing == 0
    assert _found([*hole, whole[5]], (1_002.0, 1_003.0)).twice == 0


@pytest.mark.parametrize("rate", [*steady.RATES, 7_000])
def test_a_stretch_begins_between_two_nominal_times(rate: int) -> None:
    first = 1_794_830_000.123457
    for moment in (first + 5.0, first + 5.00001, first + 7.654321):
        begin = steady.between(moment, first, rate)
        assert 0 <= begin - moment <= 2 / rate
        places = (begin - first) * rate
        assert abs(places - int(places) - 0.5) < 0.01


def test_growth_is_the_line_that_fits_best() -> None:
    assert steady.slope([0, 1, 2, 3], [5.0, 7.0, 9.0, 11.0]) == pytest.approx(2.0)
    assert steady.slope([0, 1, 2, 3], [5.0, 7.0, 7.0, 5.0]) == pytest.approx(0.0)
    assert steady.slope([1.0], [5.0]) == 0.0


def test_a_standby_is_what_the_crowd_has_more_than_a_leader_alone() -> None:
    alone = crowd.Idle(transactions=2.0, server=10.0, connections=2)
    figures = crowd._of_size(10, crowd.Idle(20.0, 100.0, 23), alone, [0.04])
    found = {figure.what.rpartition(", ")[2]: figure for figure in figures}
    assert found["transactions of a standby"].values == [2.0]
    # Three deputies make three a second, six others one: on average five thirds.
    assert found["transactions of a standby"].target == pytest.approx(5 / 3)
    assert found["server for a standby"].values == [10.0]
    assert found["connections of a node"].values == [2.3]
    assert all(figure.met is not False for figure in figures[2:])


def test_kills_inside_a_firing_transaction_are_judged_apart() -> None:
    kills = [takeover.Kill(False, 0.02, 0.04), takeover.Kill(True, 0.1, 0.12)]
    found = takeover._figures(kills, STORES["postgres"](), 0)
    judged = {figure.what: (figure.target, figure.met) for figure in found if figure.target}
    assert judged == {
        "takeover: kill -9 to first firing": (0.05, True),
        "takeover: kill -9 inside a firing transaction to first firing": (0.15, True),
    }
    (plain,) = [f for f in takeover._figures(kills[:1], STORES["redis"](), 0) if f.target]
    assert plain.target == 1.0


def test_listeners_are_judged_by_the_rate_without_any() -> None:
    rates = {0: [crowd.Rates(100.0, 50.0)] * 3, 500: [crowd.Rates(85.0, 20.0)] * 3}
    judged = {f.what: f for f in crowd._of_listeners(rates) if f.target is not None}
    assert judged["crowd: firing, 500 listeners / none"].values == [85.0]
    assert judged["crowd: firing, 500 listeners / none"].met
    assert not judged["crowd: finishing, 500 listeners / none"].met


def test_a_claim_that_was_given_up_counts_and_has_nothing_to_finish() -> None:
    usual, stuck = backlog.Took(10.0, 1.0, 1.0), backlog.Took(5_000.0, None, 1.0)
    (claim, ratio) = backlog._figures(backlog.CASES[4], [(usual, stuck)] * 3)
    assert claim.median == 5_000.0
    assert (ratio.median, ratio.met) == (500.0, False)


def test_runs_wait_as_they_were_asked_for(tmp_path: Path) -> None:
    async def check() -> None:
        async with waiting(f"sqlite:///{tmp_path}/bench.db") as here:
            queued = Kind("queued", overlap=Overlap.QUEUE, lock="key", priority=2)
            await here.add([Kind("free"), queued, Kind("own", "other", Overlap.SKIP)])
            await here.fill(["free", "queued"], 3)
            await here.fire(["own"], 1)
            runs = await here.store.runs.find()
            assert {run.state.value for run in runs} == {"waiting"}
            kinds = sorted((run.schedule, run.task, run.priority, run.lock) for run in runs)
            (own,) = [run for run in runs if run.schedule == "own"]
            assert kinds == [
                *[("free", "work", 0, None)] * 3,
                ("own", "other", 0, f"schedule:{own.uid}"),
                *[("queued", "work", 2, "key")] * 3,
            ]
            assert await here.execute(["work"], 4) == 6  # of one key one at a time
            assert await here.execute(["work", "other"], 4) == 1

    asyncio.run(check())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_time_of_a_family_is_that_of_its_living_and_dead() -> None:
    before = family_seconds(os.getpid())
    work = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    dead = family_seconds(os.getpid())
    assert dead - before >= 0.25
    living = subprocess.Popen(
        [sys.executable, "-c", f"{work}\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with living:
        assert living.stdout is not None
        living.stdout.readline()
        assert family_seconds(os.getpid()) - dead >= 0.25
        living.kill()
    assert family_seconds(0) == 0.0
