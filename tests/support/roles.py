"""A PostgreSQL store with the roles of `tenure migrate --roles`, each of which may log in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg

from tenure.backends.postgres import PostgresBackend
from tests.e2e.command import at_hand

KINDS = ("migrator", "node", "editor", "reader")


def make_roles(url: str, prefix: str = "tenure_", schema: str = "tenure") -> list[str]:
    """Print the script and run it, as whoever the URL says; returns what the server remarked."""
    script = PostgresBackend(url, schema=schema).role_script(prefix).commands
    remarks: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(lambda said: remarks.append(said.message_primary or ""))
        connection.execute(script.encode())
    return remarks


def migrate(url: str, schema: str = "tenure") -> None:
    async def opened() -> None:
        backend = PostgresBackend(url, schema=schema)
        await backend.open()
        await backend.close()

    asyncio.run(opened())


class RoleStore:
    """A database of its own. Roles are the server's: all of these share them."""

    def __init__(self, url: str) -> None:
        self.url = url
        make_roles(url)
        self.admin: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        for kind in KINDS:
            self.admin.execute(f"ALTER ROLE tenure_{kind} LOGIN".encode())

    def made(self) -> RoleStore:
        """With tables, by the migrator."""
        migrate(self.of("migrator"))
        make_roles(self.of("migrator"))
        return self

    def of(self, kind: str) -> str:
        """The URL for a role of this kind."""
        return self.url.replace("tenure@", f"tenure_{kind}@")

    def connect(self, kind: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        return psycopg.connect(self.of(kind), autocommit=autocommit)

    def close(self) -> None:
        self.admin.close()


def rights_of(url: str, folder: Path) -> dict[str, Any]:
    """What doctor says of them."""
    answer = at_hand(folder, "doctor", "--json", "--url", url)
    [found] = [each for each in answer.json["findings"] if each["check"] == "rights"]
    assert not [each for each in answer.json["findings"] if each["check"] == "row security"], answer
    return dict(found)
