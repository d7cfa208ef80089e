"""Rows of leases, the fence, editions and the ledger that somebody edited: nodes start and lead, or
say what to do; and the tools that repair it work."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Leases, Scheduler, every
from tenure.errors import SchemaMismatch, StoreError
from tenure.model import HIGHEST_TERM
from tests.e2e.command import Answer, at_hand, until
from tests.support.servers import PostgresServer

TOP = 2**63 - 1
READING = (
    ("status",),
    ("leases", "list"),
    ("leases", "list", "--all"),
    ("leases", "show", "tenure/leader"),
    ("leases", "history"),
    ("schedules", "list"),
    ("runs", "list"),
    ("runs", "show", "1"),
    ("doctor",),
)


class Store:
    """A store in which somebody edits rows."""

    def __init__(self, url: str, execute: Callable[..., Any], prefix: str, folder: Path) -> None:
        self.url = url
        self.execute = execute
        self.prefix = prefix
        self.folder = folder
        self.done = 0
        self.started: list[Scheduler] = []

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def start(self, app: str = "default") -> Scheduler:
        scheduler = Scheduler(self.url, ttl=3, app=app)
        self.started.append(scheduler)

        @scheduler.task(every(seconds=0.25), name=f"{app} note")
        def note() -> None:
            self.done += 1

        scheduler.start()
        return scheduler

    def set(self, table: str, changes: str, where: str = "true") -> None:
        self.execute(f"UPDATE {self.prefix}{table} SET {changes} WHERE {where}")

    def fires(self) -> None:
        count = self.done
        until(lambda: self.done >= count + 2, "a schedule fires")

    def cli(self, *arguments: object) -> Answer:
        return at_hand(self.folder, *arguments, "--url", self.url)

    def findings(self) -> str:
        answer = self.cli("doctor", "--json")
        assert answer.code in (0, 1), answer
        return "\n".join(f"{f['text']} → {f['remedy']}" for f in answer.json["findings"])

    def stop(self) -> None:
        while self.started:
            self.started.pop().stop(grace=1)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    connection: Any
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        connection = sqlite3.connect(path, isolation_level=None, timeout=20)
        store = Store(f"sqlite:///{path}", connection.execute, "tenure_", tmp_path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database("bad_leases")
        connection = psycopg.connect(url, autocommit=True)
        store = Store(url, connection.execute, "tenure.", tmp_path)
    yield store
    store.stop()
    connection.close()


EDITS = {
    "info": "info = '{'",
    "term": f"term = {TOP}",
    "ttl": "ttl = 1e300",
    "counter": f"counter = {TOP}",
    "pid": "pid = 2147483647",
}


def _expiry(store: Store) -> str:
    if store.is_sqlite:
        return "expires = 9e999"
    return "expires_at = 'infinity', expires_boot = 'infinity'"


@pytest.mark.parametrize("edit", [*EDITS, "expiry", "all"])
def test_a_bad_row_of_leadership_stops_nobody(store: Store, edit: str) -> None:
    edits = EDITS | {"expiry": _expiry(store)}
    changes = ", ".join(edits.values()) if edit == "all" else edits[edit]
    store.start()
    store.fires()
    store.set("lease", changes, "name = 'tenure/leader'")
    for command in READING:
        for more in ((), ("--json",)):
            answer = store.cli(*command, *more)
            assert answer.code in (0, 1), answer
            assert "cannot read (" not in answer.err
    store.fires()
    store.start("second")  # beside the first
    store.stop()
    store.set("lease", changes, "name = 'tenure/leader'")
    store.start()  # after it, on what it left
    store.fires()


def test_doctor_names_a_bad_lease_and_eviction_ends_it(store: Store) -> None:
    with Leases(store.url) as leases:
        lease = leases.acquire("import", ttl=3600)
        assert lease is not None
        store.set("lease", f"term = {TOP}, ttl = 1e300, info = '{{'", "name = 'import'")
        found = store.findings()
        assert f"term={TOP}, ttl=1e+300, info='{{'" in found
        assert "`tenure leases evict import --url " in found
        shown = store.cli("leases", "show", "import")
        assert "its row cannot be read: " in shown.out
        evicted = store.cli("leases", "evict", "import", "--yes")
        assert evicted.code == 0, evicted
        assert "has what cannot be there" not in store.findings()
        again = leases.acquire("import")
        assert again is not None
        assert again.term > lease.term


def test_the_highest_term_is_refused_with_a_remedy(store: Store) -> None:
    with Leases(store.url) as leases:
        assert leases.acquire("import") is not None
        store.set("lease", f"term = {HIGHEST_TERM}, holder = NULL", "name = 'import'")
        with pytest.raises(StoreError, match=r"none above.*Stop all that may hold it.*doctor"):
            leases.acquire("import")
        assert leases.acquire("export") is not None


@pytest.mark.parametrize("term", [TOP, 10**12])
def test_a_fence_above_the_leader_is_passed(store: Store, term: int) -> None:
    store.start()
    store.fires()
    store.set("fence", f"term = {term}", "scope = 'tenure/leader'")
    store.fires()
    store.stop()
    store.set("fence", f"term = {term}", "scope = 'tenure/leader'")
    assert (f"term={TOP}" in store.findings()) == (term == TOP)
    store.start()
    store.fires()


def test_doctor_compares_leader_and_fence(store: Store) -> None:
    store.start()
    store.fires()
    store.stop()
    store.execute(f"DELETE FROM {store.prefix}lease WHERE name = 'tenure/leader'")
    with Leases(store.url) as leases:
        assert leases.acquire("import", ttl=60) is not None
        store.set("lease", "name = 'tenure/leader', term = 1", "name = 'import'")
        store.set("fence", "term = 1000", "scope = 'tenure/leader'")
        found = store.findings()
    assert "term 1000 is in office, above term 1 of the leader: nobody can fire" in found
    assert "`tenure leases evict tenure/leader --url " in found


def test_a_user_s_fence_that_cannot_be_read_lets_nobody_pass(store: Store, tmp_path: Path) -> None:
    connection: Any = (
        sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        if store.is_sqlite
        else psycopg.connect(store.url)
    )
    with Leases(store.url) as leases:
        lease = leases.acquire("import")
        assert lease is not None
        lease.fence(connection)
        connection.execute("COMMIT")
        store.set("fence", f"term = {TOP}", "scope = 'import'")
        with pytest.raises(StoreError, match=r"the term 9223372036854775807, which was never"):
            lease.fence(connection)
    connection.close()
    assert "Stop all that may write under an old term of it, then: `DELETE" in store.findings()


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', "null", "[" * 100_000])
def test_a_bad_release_stops_no_start(store: Store, text: str) -> None:
    for app in ("first", "second"):
        store.start(app)
    store.fires()
    store.set("edition", f"definitions = '{text}'")
    if text != '{"a": 1}':
        assert f"{store.prefix.rstrip('.')}" in store.findings()
        assert "definitions=" in store.findings()
    for app in ("first", "second", "third"):
        store.start(app)
    store.fires()
    until(lambda: "definitions=" not in store.findings(), "nodes write it anew")


@pytest.mark.parametrize("key", ["major", "serves"])
def test_a_bad_ledger_is_named_with_the_remedy(store: Store, key: str) -> None:
    store.start()
    store.set("meta", "value = 'x'", f"key = '{key}'")
    store.fires()
    with pytest.raises(
        SchemaMismatch, match=rf"{key}='x', which is not a number.*`UPDATE"
    ) as refused:
        store.start("second")
    store.started.pop()
    assert f"{key}='x'" in store.findings()
    remedy = str(refused.value).split("`")[1]
    store.execute(remedy)
    store.start("second")
    assert f"{key}='x'" not in store.findings()


def test_a_line_that_the_ledger_lost_is_put_back(store: Store) -> None:
    store.start()
    ledger = f"{store.prefix}migration"
    columns = "number, name, version, applied_at, digest"
    newer = f"SELECT 2, 'newer', version, applied_at, 'unknown' FROM {ledger}"
    store.execute(f"INSERT INTO {ledger} ({columns}) {newer}")
    for after, why in ((2, "later ones were"), (1, ".*already exists")):
        store.execute(f"DELETE FROM {store.prefix}migration WHERE number = 1 OR number > {after}")
        with pytest.raises(SchemaMismatch, match=rf"lacks 0001_tables, but {why}") as refused:
            store.start("second")
        store.started.pop()
        assert "lacks" in store.findings()
        store.execute(str(refused.value).split("`")[1])
    store.start("second")
