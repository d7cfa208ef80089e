"""Effects that commit with their run: exactly once, whatever happens to the nodes meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.exactly_once import Shop
from tests.faults.torture.exactly_once import main
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

RUNS, PACE = 100, 20


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database(f"bills_{id(tmp_path)}")


@pytest.mark.parametrize("ways", [["complete"], ["transactional", "engine"]], ids=" ".join)
def test_nodes_that_are_killed_frozen_and_cut_off_anywhere(url: str, ways: list[str]) -> None:
    shop = Shop(url, ways)
    shop.enqueue(RUNS, PACE)
    shop.harm_nodes(random.Random(7), RUNS)
    assert shop.wrong() == {}
    assert shop.bills == RUNS
    assert shop.taken > 0


def test_torture_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "30", "--store", "sqlite", "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    assert "30 runs" in shown
    assert "each exactly once" in shown


def test_torture_finds_what_is_not_exactly_once(tmp_path: Path) -> None:
    shop = Shop(f"sqlite:///{tmp_path}/shop.db", ["transactional"])
    shop.ask("CREATE TABLE tenure_run (id, state)")
    shop.ask("INSERT INTO tenure_run VALUES (1, 'succeeded'), (2, 'failed'), (3, 'succeeded')")
    shop.ask("INSERT INTO bill VALUES (1), (1), (2)")
    assert shop.wrong() == {
        "billed twice": 1,
        "billed without success": 1,
        "succeeded without a bill": 1,
        "not succeeded": 1,
    }
