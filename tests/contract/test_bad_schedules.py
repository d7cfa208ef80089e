"""Schedules that somebody wrote by hand."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from psycopg.errors import CheckViolation

from tenure.backends.base import Backend
from tenure.model import Fence
from tenure.schedules.planning import plan
from tenure.testing.contract.harness import adding
from tenure.triggers import dump, every
from tests.contract.test_bad_leases import store as store  # noqa: PLC0414 - a fixture
from tests.support.bad_rows import PostgresSpoiler

FENCE = Fence("leader", 1, "ann")


@pytest.mark.parametrize("policy", ["overlap", "catch_up", "target"])
async def test_row_without_a_place_is_set_aside_once(
    store: tuple[Backend, Any, Any], policy: str
) -> None:
    """One whose plan stands where no time is, and which has a word in it that this code does not
    know. To put it off the store would have to know where its plan stands."""
    backend, _, spoiler = store
    schedules = backend.schedules
    assert await backend.office.take(FENCE) == FENCE
    now = await backend.now()
    trigger = dump(every(hours=1).anchored(now))
    await schedules.change([adding(name, now, trigger=trigger) for name in ("bad", "good")])
    postgres = isinstance(spoiler, PostgresSpoiler)
    table, nominal = ("tenure.schedule", "infinity") if postgres else ("tenure_schedule", "x")
    spoiler.connection.execute(
        f"UPDATE {table} SET next_nominal = '{nominal}', {policy} = 'perhaps' WHERE name = 'bad'"
    )
    batch = await schedules.due(10)
    planned = plan(batch.schedules, batch.now)
    await schedules.fire(FENCE, planned.firings, planned.faults)
    assert [fault.until for fault in planned.faults] == [None]
    left = (await schedules.due(10)).schedules
    assert [schedule.name for schedule in left] == []


async def test_target_of_newer_code_is_put_off_and_no_run_is_made(
    store: tuple[Backend, Any, Any],
) -> None:
    backend, _, spoiler = store
    schedules = backend.schedules
    assert await backend.office.take(FENCE) == FENCE
    now = await backend.now()
    trigger = dump(every(hours=1).anchored(now))
    await schedules.change([adding(name, now, trigger=trigger) for name in ("newer", "known")])
    table = _table(spoiler, "schedule")
    spoiler.connection.execute(f"UPDATE {table} SET target = 'signal' WHERE name = 'newer'")
    batch = await schedules.due(10)
    planned = plan(batch.schedules, batch.now)
    assert planned.unknown == {"signal"}
    assert (await schedules.fire(FENCE, planned.firings, planned.faults)).fired == 1
    assert [run.schedule for run in await backend.runs.find(limit=10)] == ["known"]
    newer = (await schedules.find(names=["newer"]))["newer"]
    assert newer.active
    assert newer.next_nominal == now
    assert newer.reason is not None
    assert newer.reason.startswith("put off: its target 'signal' is not known")


LIMIT = 1_500_000
"""Of a trigger, and of all else that a schedule has."""


@pytest.mark.parametrize("column", ["trigger", "kwargs"])
async def test_row_that_takes_too_long_to_read_is_refused(
    store: tuple[Backend, Any, Any], column: str
) -> None:
    backend, _, spoiler = store
    now = await backend.now()
    await backend.schedules.change([adding("a", now)])
    table = _table(spoiler, "schedule")
    with pytest.raises((CheckViolation, sqlite3.IntegrityError), match=r"(?i)check"):
        spoiler.connection.execute(f"UPDATE {table} SET \"{column}\" = '{'x' * (LIMIT + 1)}'")


async def test_result_that_takes_too_long_to_read_is_refused(
    store: tuple[Backend, Any, Any],
) -> None:
    backend, _, spoiler = store
    await backend.schedules.change([adding("a", await backend.now())])
    await backend.schedules.run_now("a", "1")
    table = _table(spoiler, "run")
    with pytest.raises((CheckViolation, sqlite3.IntegrityError), match=r"(?i)check"):
        spoiler.connection.execute(f"UPDATE {table} SET result = '{'x' * 1_000_001}'")


async def test_row_of_the_longest_arguments_can_be_fired(store: tuple[Backend, Any, Any]) -> None:
    """Whatever a schedule may have fits into its run, or no other would be fired with it."""
    backend, _, spoiler = store
    schedules = backend.schedules
    assert await backend.office.take(FENCE) == FENCE
    now = await backend.now()
    trigger = dump(every(hours=1).anchored(now))
    await schedules.change([adding("a", now, trigger=trigger)])
    left = 0 if not isinstance(spoiler, PostgresSpoiler) else _other_texts(spoiler)
    kwargs = '{"a":"' + "x" * (LIMIT - left - 8) + '"}'
    table = _table(spoiler, "schedule")
    spoiler.connection.execute(f"UPDATE {table} SET kwargs = '{kwargs}'")
    batch = await schedules.due(10)
    planned = plan(batch.schedules, batch.now)
    assert (await schedules.fire(FENCE, planned.firings)).fired == 1
    assert await schedules.run_now("a", "by hand") is not None
    claimed = await backend.runs.claim("node", [adding("a", now).spec.task], 10)
    assert [run.arguments for run in claimed.runs] == [kwargs]


async def test_schedule_is_added_after_a_restore_without_the_sequence(
    store: tuple[Backend, Any, Any],
) -> None:
    backend, _, spoiler = store
    now = await backend.now()
    names = [str(n) for n in range(5)]
    before = await backend.schedules.change([adding(name, now) for name in names])
    if isinstance(spoiler, PostgresSpoiler):
        spoiler.connection.execute("SELECT setval('tenure.schedule_uid_seq', 1, false)")
    else:
        spoiler.connection.execute("DELETE FROM sqlite_sequence WHERE name = 'tenure_schedule'")
    added = await backend.schedules.change([adding(name, now) for name in ("a", "b")])
    assert min(new.uid for new in added) > max(old.uid for old in before)
    assert [new.spec.lock for new in added] == [f"schedule:{new.uid}" for new in added]
    assert (await backend.schedules.find(["a"]))["a"].spec.lock == added[0].spec.lock


async def test_skipped_one_without_a_readable_name_has_a_text_for_it(
    store: tuple[Backend, Any, Any],
) -> None:
    backend, _, spoiler = store
    if isinstance(spoiler, PostgresSpoiler):
        pytest.skip("has nothing but texts in that column")
    assert await backend.office.take(FENCE) == FENCE
    now = await backend.now()
    trigger = dump(every(hours=1).anchored(now))
    await backend.schedules.change([adding("a", now, trigger=trigger)])
    await backend.schedules.run_now("a", "is in its way")
    spoiler.connection.execute("UPDATE tenure_schedule SET name = x'ff', overlap = 'skip'")
    batch = await backend.schedules.due(10)
    planned = plan(batch.schedules, batch.now)
    fired = await backend.schedules.fire(FENCE, planned.firings)
    assert fired.skipped == ("b'\\xff'",)
    assert await backend.schedules.find(fired.skipped) == {}


@pytest.mark.parametrize("late", ["x'3a'", "'x'", "7", "x''", "'1,2'"])
async def test_summary_that_cannot_be_read_begins_again(
    store: tuple[Backend, Any, Any], late: str
) -> None:
    backend, _, spoiler = store
    if isinstance(spoiler, PostgresSpoiler):
        pytest.skip("has nothing but texts in that column")
    [added] = await backend.schedules.change([adding("a", await backend.now())])
    spoiler.connection.execute(
        "INSERT INTO tenure_schedule_summary VALUES"
        f" ({added.uid}, 'default', 0, 'succeeded', 1000000, {late})"
    )
    known = await backend.summaries.of([added.uid])
    assert set(known[added.uid].late) == {0}


def _table(spoiler: Any, name: str) -> str:
    return f"tenure{'.' if isinstance(spoiler, PostgresSpoiler) else '_'}{name}"


def _other_texts(spoiler: PostgresSpoiler) -> int:
    """How many bytes a schedule has that count beside its arguments."""
    columns = "namespace name task catch_up overlap lock on_crash definition target"
    nullable = "tenant app lock_rule"
    sizes = [f"octet_length({c})" for c in columns.split()]
    sizes += [f"coalesce(octet_length({c}), 0)" for c in nullable.split()]
    row = spoiler.connection.execute(f"SELECT {' + '.join(sizes)} FROM tenure.schedule").fetchone()
    assert row is not None
    return int(row[0])
