"""What pages and API say about a store: to wait helps only if it is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler
from tenure.errors import SchemaMismatch, StoreError, StoreUnavailable
from tenure.web import dashboard
from tenure.web.api.problems import problem_of


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (StoreUnavailable("at db.internal"), "Try again"),
        (StoreError("role at db.internal may not"), "refused"),
        (SchemaMismatch("at db.internal"), "missing"),
    ],
)
def test_api_says_what_helps_and_not_where_the_store_is(error: StoreError, says: str) -> None:
    told = problem_of(error)
    assert told.status == 503
    assert says in str(told)
    assert ("Try again" in str(told)) == isinstance(error, StoreUnavailable)
    assert "db.internal" not in str(told)


def test_page_without_a_database_does_not_say_that_it_is_slow(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/absent.db", migrate=False)
    with TestClient(dashboard(scheduler), "http://localhost", client=("127.0.0.1", 1)) as client:
        answer = client.get("/")
    assert answer.status_code == 503
    assert "The store cannot be used" in answer.text
    assert "tenure migrate" in answer.text
