"""What `tenure doctor` says of an old snapshot."""

from __future__ import annotations

import pytest

from tenure.backends.postgres import snapshots


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("nightly", "`ROLLBACK PREPARED 'nightly'`"),
        ("x'; DROP TABLE t; --", "`ROLLBACK PREPARED 'x''; DROP TABLE t; --'`"),
        ("a\\'b", "`ROLLBACK PREPARED E'a\\\\''b'`"),
    ],
)
def test_a_prepared_transaction_can_be_ended_as_told(name: str, statement: str) -> None:
    """Whoever prepares it chooses its name."""
    row = {
        "pid": 0,
        "usename": "ann",
        "state": "prepared",
        "application_name": name,
        "slot": None,
        "seconds": 2 * snapshots.OLD,
    }
    [finding] = snapshots.finding([row])
    assert finding.remedy is not None
    assert statement in finding.remedy
