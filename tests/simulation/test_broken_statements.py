"""What is broken in the SQL itself is caught, too."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from tenure.backends.sqlite import leases, runs, schedules
from tenure.testing.simulation import Weather, check, simulate
from tenure.testing.simulation.sqlite import OnSQLite

AT_MOST = 200
LATE = Weather(late=0.1)

CLAIM = "tenure_run.attempt = f.attempt AND tenure_run.node = f.node"
OLD = "finished_at < :before AND created_at < :before"
FIRST = """(-o.priority, o.attempt <= o.unbegun, o.due, o.id)
< (-r.priority, r.attempt <= r.unbegun, r.due, r.id)"""

STATEMENTS: dict[str, tuple[Any, str, tuple[str, str], dict[str, Any], str]] = {
    "finish does not compare the claim": (
        runs,
        "finish",
        ("tenure_run.state = 'claimed'\nAND " + CLAIM, "true"),
        {},
        "only its claim",
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
    "any term takes office": (
        schedules,
        "take_office",
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
    "claim takes the youngest": (runs, "waiting", (FIRST, "o.id > r.id"), {}, "queue order"),
    "recovery counts no crash": (
        runs,
        "rerun",
        ("crashes = crashes + 1,", ""),
        {"faults": ["crash"]},
        "counts",
    ),
    "prune takes what is young": (runs, "finished", (OLD, "finished_at > 0"), {}, "retention"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEMENTS)
def test_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, statement, (right, wrong), changed, invariant = STATEMENTS[name]
    assert right in module._sql[statement]
    monkeypatch.setitem(module._sql, statement, module._sql[statement].replace(right, wrong))
    catch(invariant, store="sqlite", **changed)


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
    catch("one run", store=TornTransactions, faults=["crash"])


def catch(invariant: str, **changed: Any) -> None:
    seen: set[str] = set()
    for seed in range(AT_MOST):
        seen |= {violation.invariant for violation in check(simulate(seed, **changed))}
        if invariant in seen:
            return
    pytest.fail(f"{AT_MOST} histories, and [{invariant}] was not among {sorted(seen)}")
