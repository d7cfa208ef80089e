"""Rows of runs on PostgreSQL: the short way reads them as the general one does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.backends.postgres.moments import Beyond
from tenure.backends.postgres.run_rows import begun, end_first, run
from tenure.backends.postgres.statements import as_it_is
from tenure.backends.shared import rows as from_rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
USUAL: dict[str, Any] = {
    "id": 7,
    "schedule": "nightly",
    "schedule_uid": 3,
    "kind": "planned",
    "nominal": NOON,
    "task": "app.work",
    "kwargs": '{"user": 1}',
    "state": "claimed",
    "due": NOON,
    "attempt": 3,
    "unbegun": 1,
    "crashes": 1,
    "failures": 2,
    "lock": "schedule:3",
    "priority": -1,
    "timeout": 2.5,
    "retries": 4,
    "on_crash": "abandon",
    "term": 9,
    "node": "here:1",
    "created_at": NOON,
    "claimed_at": NOON,
    "finished_at": None,
    "error": None,
    "tenant": "acme",
    "cancel_requested_at": None,
    "result": None,
    "traceparent": "00-1-2-01",
    "ready": True,
    "namespace": "default",
}
OTHERS: list[dict[str, Any]] = [
    {},
    {"schedule": None, "schedule_uid": None, "kind": "enqueued", "lock": None, "timeout": None},
    {"tenant": ""},
    {"tenant": None, "node": None, "claimed_at": None, "state": "waiting", "traceparent": None},
    {"finished_at": NOON, "error": "x", "result": "1", "cancel_requested_at": NOON},
    {"kind": "made by newer code"},
    {"state": "strange"},
    {"on_crash": "?"},
    {"timeout": float("nan")},
    {"timeout": float("inf")},
    {"priority": None},
    {"task": b"bytes, if the database has no encoding"},
    {"nominal": Beyond.of("infinity")},
    {"due": Beyond.of("-infinity")},
    {"claimed_at": Beyond.of("0044-03-15 12:00:00+00 BC")},
    {"cancel_requested_at": Beyond.of("infinity")},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_the_short_way_says_the_same_as_the_general_one(other: dict[str, Any]) -> None:
    row = USUAL | other
    assert repr(run(row)) == repr(from_rows.run(row, as_it_is))


def test_claimed_runs_are_begun_in_their_order_and_the_row_without_one_comes_first() -> None:
    end = dict.fromkeys(USUAL) | {"now": NOON}
    later = USUAL | {"id": 8, "now": None}
    urgent = USUAL | {"id": 9, "priority": 5, "now": None}
    rows = end_first([later, end, urgent])
    assert rows[0] is end
    assert [each.id for each in begun(rows)] == [9, 8]
