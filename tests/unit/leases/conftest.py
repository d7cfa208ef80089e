"""A store for leases: SQLite, or what a test marked `everywhere` names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.servers import PostgresServer, ValkeyServer

_numbers = count(1)


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """One that has been up for long: it need not ask itself what it has forgotten."""
    server = ValkeyServer(clock=True)
    try:
        server.start().age(5_000)
        yield server
    finally:
        server.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty one."""
    kind = getattr(request, "param", "sqlite")
    if kind == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return postgres.create_database("leases")
    if kind == "valkey":
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        return f"{valkey.url}?prefix=test{next(_numbers)}"
    return f"sqlite:///{tmp_path}/leases.db"
