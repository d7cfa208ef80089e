"""A store with the roles of `tenure migrate --roles`, for the tests of what each may do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer


@pytest.fixture
def role_url(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.create_database("roles")


@pytest.fixture
def store(role_url: str) -> Iterator[RoleStore]:
    store = RoleStore(role_url).made()
    yield store
    store.close()
