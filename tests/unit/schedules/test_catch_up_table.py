"""The table of docs/catch-up.md, catch-up by overlap, held against a store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import every
from tenure.backends.base import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import (
    CatchUp,
    Change,
    DueSchedule,
    Fence,
    OccurrenceState,
    Overlap,
    RunState,
    ScheduleSpec,
)
from tenure.schedules.planning import plan
from tenure.testing import FakeClock
from tenure.triggers import dump

ONE = datetime(2026, 3, 1, 1, tzinfo=UTC)
NOW = ONE + timedelta(hours=2, minutes=10)
PAGE = Path(__file__).parents[3] / "docs" / "catch-up.md"
FENCE = Fence("leader", 1, "ann")


def cells(title: str) -> dict[tuple[str, str], str]:
    """The cells of one of the two tables."""
    table = PAGE.read_text(encoding="utf-8").partition(f"| {title} |")[2].partition("\n\n")[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in table.splitlines()[2:]]
    columns = [str(overlap) for overlap in Overlap]
    return {
        (row[0].strip("`"), column): text
        for row in rows
        for column, text in zip(columns, row[1:], strict=True)
    }


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture(params=["memory", "sqlite"])
async def backend(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[Backend]:
    made: Backend = (
        MemoryBackend(clock)
        if request.param == "memory"
        else SQLiteBackend(tmp_path / "a.db", clock=clock)
    )
    await made.open()
    yield made
    await made.close()


def shown(moments: list[datetime]) -> str:
    return ", ".join(f"{moment.hour}:00" for moment in sorted(moments))


async def outcome(backend: Backend, catch_up: str, overlap: str, earlier: bool) -> str:
    """What becomes of a schedule that was not fired at 1:00, 2:00 and 3:00, in the page's words."""
    spec = ScheduleSpec(
        "hourly",
        dump(every(hours=1, start=ONE)),
        "task",
        catch_up=CatchUp(catch_up),
        overlap=Overlap(overlap),
    )
    await backend.schedules.change([Change(spec, ONE, ONE)])
    if earlier:
        await backend.schedules.run_now("hourly", "earlier")
        await backend.runs.claim("node", ["task"], 1)
    await backend.office.take(FENCE)
    batch = await backend.schedules.due(10)
    await backend.schedules.fire(FENCE, plan(batch.schedules, batch.now).firings)
    claimed = (await backend.runs.claim("node", ["task"], 9)).runs
    waiting = await backend.runs.find(state=RunState.WAITING)
    lines = [o for o in await backend.schedules.occurrences("hourly") if o.kind == "planned"]
    told = []
    skipped = [o.nominal for o in lines if o.state is OccurrenceState.SKIPPED]
    fired = [o.nominal for o in lines if o.state is OccurrenceState.FIRED]
    if skipped:
        told.append(f"{shown(skipped)} skipped")
    if fired and not claimed:
        told.append(f"{shown(fired)} {'wait, in order' if len(fired) > 1 else 'waits'}")
    elif fired:
        verb = "run" if len(fired) > 1 else "runs"
        if earlier:
            verb += " beside it"
        elif len(fired) > 1:
            verb += " at once" if not waiting else ", one after the other"
        assert claimed[0].nominal == min(fired)
        told.append(f"{shown(fired)} {verb}")
    missed = [o for o in lines if o.state is OccurrenceState.MISSED]
    told += [f"{o.nominal.hour}:00–{o.last.hour}:00 missed" for o in missed]
    return "; ".join(told)


@pytest.mark.parametrize("overlap", [str(overlap) for overlap in Overlap])
@pytest.mark.parametrize("catch_up", [str(catch_up) for catch_up in CatchUp])
@pytest.mark.parametrize(
    ("title", "earlier"),
    [("no run with its key is unfinished", False), ("an earlier run is unfinished", True)],
)
async def test_the_table_is_true(
    backend: Backend, title: str, earlier: bool, catch_up: str, overlap: str
) -> None:
    assert await outcome(backend, catch_up, overlap, earlier) == cells(title)[catch_up, overlap]


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_the_next_one_meets_what_is_caught_up_as_any_earlier_run(
    backend: Backend, clock: FakeClock, overlap: Overlap
) -> None:
    assert await outcome(backend, "all", overlap, earlier=False)
    schedule = (await backend.schedules.find(["hourly"]))["hourly"]
    four = ONE + timedelta(hours=3)
    assert schedule.next_nominal == four
    spec = schedule.spec
    due = DueSchedule(
        uid=schedule.uid,
        name=spec.name,
        version=schedule.version,
        trigger=spec.trigger,
        next_nominal=four,
        next_due=four,
        catch_up=spec.catch_up,
        overlap=spec.overlap,
        lock=spec.lock,
    )
    clock.advance((four - NOW).total_seconds())
    done = await backend.schedules.fire(FENCE, plan([due], four).firings)
    assert (done.fired, done.skipped) == ((0, ("hourly",)) if overlap == "skip" else (1, ()))
