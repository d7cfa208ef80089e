"""A start goes through its stages in order; a failure says which one it was, and why."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenure import ConfigError, Leases, Scheduler, SchemaMismatch, TenureError, every
from tenure.errors import STAGES, StoreUnavailable
from tenure.facts import Fact
from tenure.node.node import Node
from tenure.node.rollout import Rollout


def start(scheduler: Scheduler) -> list[Fact]:
    """Start and stop it; what it told about its start, also if that failed."""
    told: list[Fact] = []
    scheduler.on("start.*", told.append)
    try:
        scheduler.start()
    except TenureError:
        scheduler.stop()
    else:
        scheduler.stop()
    return told


def failure(scheduler: Scheduler | Leases) -> TenureError:
    with pytest.raises(TenureError) as raised:
        scheduler.start() if isinstance(scheduler, Scheduler) else scheduler.inspect("any")
    error = raised.value
    assert f"Startup stopped at stage {error.stage!r}" in error.__notes__[0]
    return error


def test_stages_are_told_in_their_order(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/app.db")
    assert [fact.values() for fact in start(scheduler)] == [{"stage": name} for name in STAGES]


def test_connect(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/nowhere/app.db"
    error = failure(Scheduler(url))
    assert error.stage == failure(Leases(url)).stage == "connect"
    assert isinstance(error, ConfigError)
    assert "does not exist" in str(error)
    told = start(Scheduler(url))
    assert [fact.name for fact in told] == ["start.stage", "start.stage", "start.failed"]
    assert told[-1].values() == {"stage": "connect", "error": str(error)}


def test_migrate_that_is_needed_and_not_wanted(tmp_path: Path) -> None:
    error = failure(Scheduler(f"sqlite:///{tmp_path}/app.db", migrate=False))
    assert error.stage == "migrate"
    assert isinstance(error, SchemaMismatch)
    assert "tenure migrate" in str(error)
    assert str(error).endswith("and so does a scheduler that starts without migrate=False.")
    assert not list(tmp_path.iterdir())


def test_migrate_to_tables_that_are_too_new(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    start(Scheduler(url))
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        connection.execute("UPDATE tenure_meta SET value = '99' WHERE key = 'serves'")
    error = failure(Scheduler(url))
    assert error.stage == "migrate"
    assert "newer Tenure" in str(error)


def test_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def declare(self: Rollout) -> None:
        raise StoreUnavailable("locked by another writer")

    monkeypatch.setattr(Rollout, "declare", declare)
    scheduler = Scheduler(f"sqlite:///{tmp_path}/app.db")
    scheduler.task(every(hours=1))(print)
    assert failure(scheduler).stage == "check"
    assert not scheduler.running


def test_campaign_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Node) -> None:
        raise StoreUnavailable("gone")

    scheduler = Scheduler(f"sqlite:///{tmp_path}/app.db")
    with monkeypatch.context() as patched:
        patched.setattr(Node, "start", fail)
        assert failure(scheduler).stage == "campaign"
    assert not scheduler.running
    assert [fact.name for fact in start(scheduler)] == ["start.stage"] * len(STAGES)
