"""Transactional tasks with the rights of a node, and no others."""

from __future__ import annotations

import psycopg
import pytest

from tenure import Scheduler
from tests.e2e.command import until
from tests.support.roles import RoleStore

_FUNCTION = "tenure.mark_next(text, text[])"


@pytest.mark.parametrize("may_call", [True, False], ids=["with all", "with fewer"])
def test_runs_of_a_lock_key_follow_each_other(store: RoleStore, may_call: bool) -> None:
    if not may_call:
        store.admin.execute(f"REVOKE EXECUTE ON FUNCTION {_FUNCTION} FROM tenure_node".encode())
    [granted] = store.admin.execute(
        "SELECT has_function_privilege('tenure_node', %s, 'EXECUTE')", (_FUNCTION,)
    )
    assert granted == (may_call,)
    scheduler = Scheduler(store.of("node"), migrate=False)

    @scheduler.task(transactional=True, lock="one", max_running=2)
    def bill(connection: psycopg.Connection, number: int) -> int:
        if number % 2:
            connection.execute("SELECT 1")
        return number

    with scheduler:
        runs = [scheduler.enqueue(bill, kwargs={"number": number}) for number in range(8)]
        until(lambda: all(scheduler.get_run(run).state == "succeeded" for run in runs), "their end")
        held = [scheduler.result(run, 20) for run in runs]
    assert held == [*range(8)]
