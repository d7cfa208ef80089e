"""What is broken in the SQL itself is caught, too."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tenure.backends.sqlite import (
    attempts,
    claims,
    control,
    enqueue,
    leases,
    office,
    runs,
    schedules,
)
from tenure.tasks.registry import Tasks
from tenure.testing.simulation import SETTINGS, Weather
from tenure.testing.simulation.sqlite import OnSQLite
from tenure.triggers import every
from tests.simulation.catching import catch

LATE = Weather(late=0.1)

CLAIM = (
    "r.state = 'claimed' AND r.attempt = json_extract(f.value, '$[1]')"
    "\nAND r.node = json_extract(f.value, '$[2]')"
)
OLD = "finished_at < :before AND created_at < :before"

STATEMENTS: dict[str, tuple[Any, str, tuple[str, str], dict[str, Any], str]] = {
    "finish does not compare the claim": (
        runs,
        "kept",
        (CLAIM, "true"),
        {},
        "only its claim",
    ),
    "crashed attempts are not on record": (
        attempts,
        "crash",
        ("WHERE r.id IN", "WHERE false AND r.id IN"),
        {},
        "attempts",
    ),
    "keys of all tasks are the same": (
        enqueue,
        "of_key",
        ("AND task = :task", ""),
        {},
        "enqueued",
    ),
    "what is enqueued is never first": (
        enqueue,
        "insert",
        ("WHEN s.lock IS NULL THEN 1 ELSE", "WHEN s.lock IS NULL THEN 1 ELSE false AND"),
        {},
        "found",
    ),
    "what is enqueued is due when it was asked for": (
        enqueue,
        "insert",
        ("'waiting', :due", "'waiting', :nominal"),
        {},
        "enqueued",
    ),
    "fire does not compare the plan": (
        schedules,
        "judge_firings",
        ("\nAND s.next_nominal IS tenure_firing.expected", ""),
        {"weather": LATE},
        "as planned",
    ),
    "fire does not compare the version": (
        schedules,
        "judge_firings",
        ("AND s.version = tenure_firing.version", ""),
        {"weather": LATE, "faults": ["edit"]},
        "as planned",
    ),
    "fire does not look whether an occurrence overlaps": (
        schedules,
        "judge_firings",
        ("s.overlap = 'skip' AND", "s.overlap = 'never' AND"),
        {},
        "overlap",
    ),
    "fire does not look whether two of one call overlap": (
        schedules,
        "skip_later_firings",
        ("tenure_firing.uid <> first.uid", "false"),
        {},
        "overlap",
    ),
    "of one lock key the last fires": (
        schedules,
        "skip_later_firings",
        ("min(n)", "max(n)"),
        {},
        "overlap",
    ),
    "any term takes office": (
        office,
        "take",
        ("\nWHERE term < excluded.term", ""),
        {"faults": ["pause"]},
        "terms grow",
    ),
    "renew does not compare the term": (
        leases,
        "renew",
        (" AND term = :term", ""),
        {"weather": LATE},
        "only its own",
    ),
    "claim takes the youngest": (
        claims,
        "front",
        ("ORDER BY r.due, r.id LIMIT", "ORDER BY r.due DESC, r.id LIMIT"),
        {"settings": replace(SETTINGS, concurrency=1)},
        "queue order",
    ),
    "of what comes at once the last is marked": (
        schedules,
        "put_behind",
        ("ORDER BY f.due, f.n", "ORDER BY f.due DESC, f.n DESC"),
        {},
        "found",
    ),
    "the last of a queue is marked": (
        claims,
        "mark",
        ("o.due, o.id LIMIT 1", "o.due DESC, o.id LIMIT 1"),
        {},
        "found",
    ),
    "what is fired is not marked": (
        schedules,
        "judge_firings",
        ("s.target <> 'task' THEN 0", "s.target <> 'task' THEN s.overlap = 'skip'"),
        {},
        "found",
    ),
    "what queues is not marked": (
        schedules,
        "judge_firings",
        ("ELSE NOT (NOT EXISTS", "WHEN true THEN 1 ELSE NOT (NOT EXISTS"),
        {},
        "found",
    ),
    "what is run by hand is not marked": (
        schedules,
        "insert_manual_run",
        ("ELSE NOT EXISTS", "WHEN true THEN 0 ELSE NOT EXISTS"),
        {},
        "found",
    ),
    "recovery counts no crash": (
        runs,
        "rerun",
        ("crashes = crashes + 1,", ""),
        {"faults": ["crash"]},
        "counts",
    ),
    "retry counts claims anew": (
        control,
        "retry",
        ("state = 'waiting',", "state = 'waiting', attempt = 0, unbegun = 0,"),
        {"faults": ["control"]},
        "retried",
    ),
    "prune takes what is young": (runs, "finished", (OLD, "finished_at > 0"), {}, "retention"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, statement, (right, wrong), changed, invariant = STATEMENTS[name]
    assert right in module._sql[statement]
    monkeypatch.setitem(module._sql, statement, module._sql[statement].replace(right, wrong))
    catch(f"statement: {name}", invariant, store="sqlite", **changed)


def failing_queues(source: Random) -> Tasks:
    """The first of a queue often waits for its next attempt, and some of those are cancelled."""
    tasks = Tasks()

    async def work() -> None:
        await asyncio.sleep(source.uniform(0.1, 0.5))
        if source.random() < 0.7:
            raise RuntimeError("again")

    for number in range(3):
        rule = every(seconds=2)
        tasks.declare(work, trigger=rule, name=f"task{number}", overlap="queue", retries=5)
    return tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("_finish", {}),
        ("recover", {"faults": ["crash"]}),
        ("cancel", {"faults": ["control"], "workload": failing_queues}),
        ("retry", {"faults": ["control"]}),
    ],
    ids=["finish", "recovery", "cancel", "retry"],
)
def test_that_what_is_next_is_not_marked_is_caught(
    method: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of each by itself."""
    mark = claims.mark

    def forgets(c: Any, namespace: str, ids: Any) -> None:
        frames = [inspect.currentframe()]
        while (frame := frames[-1]) is not None and len(frames) < 4:
            frames.append(frame.f_back)
        names = {frame.f_code.co_qualname for frame in frames if frame is not None}
        if not any(f".{method}" in name for name in names):
            mark(c, namespace, ids)

    monkeypatch.setattr(claims, "mark", forgets)
    catch(f"not marked: {method}", "found", store="sqlite", **changed)


class TornTransactions(OnSQLite):
    """Each statement is committed by itself."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        whole = self._factory

        class Torn(whole):  # type: ignore[misc, valid-type]
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                done: sqlite3.Cursor = super().execute(sql, *args)
                if self.in_transaction and sql.startswith(("INSERT", "UPDATE")):
                    sqlite3.Connection.execute(self, "COMMIT")
                    sqlite3.Connection.execute(self, "BEGIN IMMEDIATE")
                return done

        self._factory = Torn


@pytest.mark.slow
def test_transaction_that_is_none_is_caught() -> None:
    catch("torn transactions", "one run", store=TornTransactions, faults=["crash"])
