"""The checker itself: it sees what it is there to see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import TTL, Cluster, task

pytestmark = pytest.mark.faults

DOUBLE = (
    "INSERT INTO tenure_occurrence (schedule_uid, kind, key, nominal, last, state, reason,"
    " recorded_at, term) SELECT schedule_uid, kind, 'again', nominal, last, 'missed', 'x', 0, 1"
    " FROM tenure_occurrence WHERE run_id = 1"
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A few occurrences, all of them right."""
    cluster = Cluster(tmp_path_factory.mktemp("history"))
    try:
        cluster.node("node", task("tick", 0.1), ttl=TTL)
        for run in (1, 2):  # those that are tampered with
            cluster.journal.wait("end", run=run)
        cluster.stop_all()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def history(original: Cluster, tmp_path: Path) -> Cluster:
    copy = Cluster(tmp_path)
    shutil.copy(original.database, copy.database)
    shutil.copy(original.journal.path, copy.journal.path)
    assert copy.complaints() == []
    return copy


@pytest.mark.parametrize(
    ("tampering", "complaint"),
    [
        ("DELETE FROM tenure_occurrence WHERE run_id = 1", "accounted for 0 times"),
        (DOUBLE, "accounted for 2 times"),
        ("DELETE FROM tenure_run WHERE id = 2", "run 2 stands for"),
        ("UPDATE tenure_run SET attempt = 2 WHERE id = 1", "nobody executed attempt 2"),
        ("UPDATE tenure_run SET unbegun = 1 WHERE id = 1", "nobody executed attempt 0"),
        ("UPDATE tenure_schedule SET next_nominal = next_nominal + 100000", "0 times"),
        (
            "UPDATE tenure_occurrence SET state = 'skipped', run_id = NULL WHERE run_id = 1",
            "has no reason",
        ),
    ],
)
def test_tampered_store_is_noticed(history: Cluster, tampering: str, complaint: str) -> None:
    with history.store.connect() as connection:
        assert connection.execute(tampering).rowcount == 1
    assert any(complaint in found for found in history.complaints())


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({}, "was begun 2 times"),
        ({"attempt": 2}, "was executed 2 times"),
        ({"run": 999, "nominal": 4_000_000_000_000_000}, "early"),
    ],
)
def test_false_execution_is_noticed(
    history: Cluster, changed: dict[str, int], complaint: str
) -> None:
    begun = history.journal.entries("begin")[0]
    history.journal.write("begin", "node", **{**begun.values, **changed})
    assert any(complaint in found for found in history.complaints())
