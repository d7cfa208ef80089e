"""An empty database for each test that asks for one. More time for the state machines: hundreds of
calls each, on a server that others use too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import NoLocale, PostgresServer

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and "Machine" in item.nodeid:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Of a PostgreSQL database that is this test's own."""
    return postgres.create_database("contract")


@pytest.fixture(scope="session")
def server_with_locale() -> Iterator[PostgresServer | None]:
    """One whose databases have another order than that of bytes; None if none can be made here."""
    try:
        server = PostgresServer(locale="en_US", fsync="off", synchronous_commit="off")
    except NoLocale:
        if os.environ.get("CI"):
            raise
        yield None
        return
    try:
        yield server.start()
    finally:
        server.close()
