"""Columns that Tenure encodes itself: the server reads what was meant."""

from __future__ import annotations

import psycopg
import pytest

from tenure.backends.postgres.columns import Numbers, Texts
from tests.support.servers import PostgresServer

TEXTS = [
    "a",
    None,
    "",
    "NULL",
    'say "no"',
    "back\\slash\\",
    "{a,b}",
    " ",
    "line\nbreak",
    "\u00e9",
    "a",
]


@pytest.mark.parametrize("encoding", ["utf8", "latin1", "sql_ascii"])
def test_columns_arrive_as_they_were(postgres: PostgresServer, encoding: str) -> None:
    with psycopg.connect(postgres.url, client_encoding=encoding) as connection:
        cursor = connection.execute(
            "SELECT %s::text[], %s::text[], %s::bigint[]",
            [Texts(TEXTS), Texts(), Numbers([1, 2**62, -3])],
        )
        read, *others = cursor.fetchone() or ()
    # With SQL_ASCII the driver does not know what the bytes mean.
    assert [t.decode() if isinstance(t, bytes) else t for t in read] == TEXTS
    assert others == [[], [1, 2**62, -3]]
