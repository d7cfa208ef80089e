"""What spoils rows for other tests puts back just what it spoiled: the same row, and nothing that
somebody has written since."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.base import Backend
from tenure.model import Grant
from tenure.process.identity import new_holder
from tests.contract.test_bad_leases import store as store  # noqa: PLC0414 - a fixture
from tests.support.bad_rows import Spoiler


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        pytest.param("info", "tomorrow", {"a": {"n": 1}, "b": {"n": 2}}, id="untouched"),
        pytest.param("counter", 1_000, {"a": 1_002, "b": 2}, id="written-since"),
    ],
)
async def test_mend(
    store: tuple[Backend, Any, Spoiler], name: str, value: object, left: dict[str, object]
) -> None:
    backend, _, spoiler = store
    grants: list[Grant] = []
    for number, lease in enumerate(left, start=1):
        grant = await backend.leases.acquire(lease, new_holder(), 60.0, info={"n": number})
        assert isinstance(grant, Grant)
        grants.append(grant)
    table = f"{spoiler.prefix}lease"
    [column] = [c for c in spoiler.columns() if (c.table, c.name) == (table, name)]
    stored = value.encode() if isinstance(value, str) and spoiler.prefix else value
    damage = spoiler.spoil(column, spoiler.rows(table)[0], "bad", stored)
    assert damage is not None
    # A renewal writes the row elsewhere, and the next one perhaps another's where it was.
    for _ in range(2):
        assert await backend.leases.renew(grants) == set(grants)
    spoiler.mend(damage)
    found = {record.name: record for record in await backend.leases.all()}
    assert {lease: getattr(found[lease], name) for lease in left} == left
