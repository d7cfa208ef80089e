"""The rights of our role, compared with what a reader, an editor and a node need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import DictRow

from tenure.backends.address import Address
from tenure.backends.postgres.statements import PACKAGE
from tenure.backends.shared import sql
from tenure.errors import StoreError
from tenure.model import Finding, Severity

if TYPE_CHECKING:
    from tenure.backends.postgres.connections.connection import Connection
    from tenure.backends.postgres.connections.database import Database

_SQL = sql.load(PACKAGE, "sql/rights.sql")
HAS = _SQL["has"].format(rights=_SQL["rights"])
_READING = ("SELECT", "USAGE", "EXECUTE")
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


@dataclass(frozen=True, slots=True)
class Rights:
    """Every right that each kind of role needs, and whether this role has it."""

    schema: str
    rows: Sequence[DictRow]

    @property
    def role(self) -> str:
        name: str = self.rows[0]["role"]
        return name

    def lacks(self, kind: str) -> str:
        """What it lacks to be of this kind, in words; empty if nothing."""
        return self._listed(row for row in self.rows if row["kind"] == kind and not row["has"])

    def lacks_of(self, refusal: str) -> str:
        """The rights of a node that it lacks on the tables that an error of the server's names.
        Goes by names only, since the server's language varies."""
        words = set(re.findall(r"\w+", refusal))
        return self._listed(
            row
            for row in self.rows
            if row["kind"] == "node"
            and not row["has"]
            and (self.schema if row["thing"] == "schema" else row["thing"]) in words
        )

    @property
    def writes(self) -> bool:
        return any(
            row["has"] for row in self.rows if row["kind"] == "node" and row["act"] not in _READING
        )

    def _listed(self, rows: Iterable[DictRow]) -> str:
        acts: dict[str, list[str]] = {}
        for row in rows:
            acts.setdefault(self._name(row["thing"]), []).append(row["act"])
        things: dict[str, list[str]] = {}
        for thing, some in acts.items():
            things.setdefault(", ".join(some), []).append(thing)
        return "; ".join(f"{some} on {', '.join(on)}" for some, on in things.items())

    def _name(self, thing: str) -> str:
        return f"schema {self.schema}" if thing == "schema" else f"{self.schema}.{thing}"


async def read(database: Database, connection: Connection) -> Rights:
    async with database.begun(connection, database.longest):
        cursor = await connection.execute(HAS, {"schema": database.schema}, prepare=False)
        return Rights(database.schema, await cursor.fetchall())


async def known(database: Database, error: Exception) -> Rights | None:
    """The rights of the role that was refused something; None for any other error, or if they
    cannot be read now."""
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        with suppress(psycopg.Error, OSError, StoreError):
            connection = await database.connect()
            try:
                return await read(database, connection)
            finally:
                await connection.close()
    return None


def remedy(address: Address) -> str:
    """How a role gets the rights that it lacks."""
    return (
        f"`{address.command('migrate', '--roles')}` prints the SQL that makes the roles reader,"
        " editor, node and migrator: have an administrator run it and grant the right one."
    )


def refuse(rights: Rights, address: Address) -> None:
    """Raise `StoreError` if these rights are not enough for a node."""
    if lacks := rights.lacks("node"):
        raise StoreError(
            f"the role {rights.role!r} may not run a node: it lacks {lacks}. {remedy(address)}"
        )


def finding(rights: Rights, address: Address) -> Finding:
    """Which kind of role this is."""
    role = rights.role
    unrun = rights.lacks("node")
    if not unrun:
        return Finding("rights", _OK, f"{role!r} may do all that a node needs")
    if unread := rights.lacks("reader"):
        text = f"the role {role!r} may not even read: it lacks {unread}"
        return Finding("rights", _PROBLEM, text, remedy(address))
    if not rights.lacks("editor"):
        text = f"{role!r} is an editor: it changes schedules, and runs no node"
        return Finding("rights", _OK, text)
    if not rights.writes:
        text = f"{role!r} is a reader: it sees everything, and changes nothing"
        return Finding("rights", _OK, text)
    text = f"the role {role!r} is more than a reader, but no node: for that it lacks {unrun}"
    return Finding("rights", _WARNING, text, remedy(address))
