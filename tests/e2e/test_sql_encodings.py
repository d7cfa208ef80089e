"""add_schedule in databases that are not in UTF-8: any name that prints is a name."""

from __future__ import annotations

import psycopg
import pytest

from tenure import Scheduler
from tests.support.servers import PostgresServer

ENCODINGS = {
    "UTF8": "utf-8",
    "EUC_JP": "euc_jp",
    "WIN1251": "cp1251",
    "LATIN1": "latin1",
    "SQL_ASCII": "utf-8",
}
BLOCKS = [(0xA1, 0x500), (0x3041, 0x30FF), (0x4E00, 0x5200)]
UNALIKE = {"EUC_JP": set("¡¢£¥¨¬°±\xb4¶÷×")}
"""Python and PostgreSQL do not agree on all signs."""


def _printable(codec: str) -> list[str]:
    found = []
    for code in (code for first, end in BLOCKS for code in range(first, end)):
        try:
            chr(code).encode(codec)
        except UnicodeEncodeError:
            continue
        if chr(code).isprintable():
            found.append(chr(code))
    return found


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_name_that_prints_is_taken(postgres: PostgresServer, encoding: str) -> None:
    options = f"ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"
    url = postgres.create_database("names", options)
    with Scheduler(url):
        pass  # which makes the tables
    texts = [c for c in _printable(ENCODINGS[encoding]) if c not in UNALIKE.get(encoding, ())]
    names = [f"{n} " + "".join(texts[n : n + 20]) for n in range(0, len(texts), 20)]
    with psycopg.connect(url) as connection:
        if encoding != "SQL_ASCII":
            connection.execute("SET client_encoding = 'UTF8'")
        for text in names:
            connection.execute("SELECT tenure.add_schedule(%s, 'every 1h', 'pack')", (text,))
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="printable"):
            connection.execute("SELECT tenure.add_schedule(E'a\\nb', 'every 1h', 'pack')")
    assert len(names) > 3
