"""Columns that are sent as text: the server reads what was meant."""

from __future__ import annotations

import psycopg

from tenure.backends.postgres.columns import numbers, texts
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


def test_columns_sent_as_text_arrive_as_they_were(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url) as connection:
        cursor = connection.execute(
            "SELECT %s::text[], %s::text[], %s::bigint[]",
            [texts(TEXTS), texts([]), numbers([1, 2**62, -3])],
        )
        assert cursor.fetchone() == (TEXTS, [], [1, 2**62, -3])
