"""Any value in any column of a lease: every call answers, the lease beside it is as ever, and the
bad one can be ended by force and taken anew. Any value in the floor of terms: none comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.base import Backend, Upkeep
from tenure.backends.postgres import PostgresBackend
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import HIGHEST_TERM, Grant
from tenure.process.clock import SystemClock
from tenure.process.identity import new_holder
from tenure.testing import FakeClock
from tenure.testing.contract.harness import adding, forget_lines
from tests.support.bad_rows import Column, PostgresSpoiler, Spoiler, SQLiteSpoiler
from tests.support.servers import PostgresServer

Store = tuple[Backend, FakeClock, Spoiler]
TTL = 10.0
DAY = 86_400.0
BAD_FLOORS = [-5, HIGHEST_TERM + 1]


@asynccontextmanager
async def _sqlite(path: Path) -> AsyncIterator[tuple[Backend, FakeClock, Spoiler]]:
    clock = FakeClock()
    backend = SQLiteBackend(path, clock=clock)
    await backend.open()
    yield backend, clock, SQLiteSpoiler(path)
    await backend.close()


@asynccontextmanager
async def _postgres(server: PostgresServer) -> AsyncIterator[tuple[Backend, FakeClock, Spoiler]]:
    url = server.create_database("bad_leases")
    clock = FakeClock(SystemClock().now())
    backend = PostgresBackend(url, clock=clock)
    await backend.open()
    yield backend, clock, PostgresSpoiler(url)
    await backend.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Backend, FakeClock, Spoiler]]:
    if request.param == "sqlite":
        opening = _sqlite(tmp_path / "leases.db")
    else:
        opening = _postgres(request.getfixturevalue("postgres"))
    async with opening as (backend, clock, spoiler):
        yield backend, clock, spoiler
        spoiler.close()


def _cases(spoiler: Spoiler, table: str) -> Iterator[tuple[Column, str, Any]]:
    for column in spoiler.columns():
        if column.table == f"{spoiler.prefix}{table}" and column.name not in ("namespace", "name"):
            for what, value in spoiler.values_for(column).items():
                yield column, what, value


@pytest.mark.slow
async def test_every_call_answers(store: tuple[Backend, FakeClock, Spoiler]) -> None:
    backend, clock, spoiler = store
    leases = backend.leases
    ann, bob = new_holder(), new_holder()
    good = await leases.acquire("good", ann, 3600.0)
    assert isinstance(good, Grant)
    last = 0
    for column, what, value in _cases(spoiler, "lease"):
        about = f"{column.name} = {what}"
        bad = await leases.acquire("bad", ann, TTL, fenced=True, info={"n": 1})
        assert isinstance(bad, Grant), f"before {about}: {bad}"
        assert bad.term > last, about
        last = bad.term
        [row] = [row for row in spoiler.rows(column.table) if _name(spoiler, row) == "bad"]
        if spoiler.spoil(column, row, what, value) is None:
            continue
        try:
            await _ask_everything(backend, ann, bob, bad, good)
            clock.advance(TTL / 100)
            await leases.evict("bad", "by hand")
            found = await leases.read("bad")
            assert found is not None
            assert found.holder is None
        except Exception as error:
            error.add_note(about)
            raise
        if found.term == HIGHEST_TERM:  # as somebody put it there: see the contract
            raise AssertionError(f"no case has that: {about}")


async def _ask_everything(backend: Backend, ann: Any, bob: Any, bad: Grant, good: Grant) -> None:
    leases = backend.leases
    seen = {record.name: record for record in await leases.all()}
    assert seen["good"].live
    assert seen["good"].unreadable is None
    await leases.read("bad")
    await leases.suspect(seen["bad"])
    await leases.forget("", 0.0, dry_run=True)
    await forget_lines(leases, 1000.0, dry_run=True)
    await leases.history()
    assert good in await leases.renew([bad, good])
    await leases.acquire("bad", bob, TTL)
    again = await leases.acquire("bad", ann, TTL)
    assert isinstance(again, Grant) or again.name == "bad"


def _name(spoiler: Spoiler, row: Any) -> str:
    name = spoiler.get(Column(f"{spoiler.prefix}lease", "name", "text"), row)
    return name.decode() if isinstance(name, bytes) else str(name)


async def _held(store: Store, name: str, floor: int = 0) -> Grant:
    grant = await store[0].leases.acquire(name, new_holder(), TTL, floor=floor)
    assert isinstance(grant, Grant)
    return grant


async def _free(store: Store, name: str, floor: int = 0) -> int:
    grant = await _held(store, name, floor)
    assert await store[0].leases.release(grant)
    return grant.term


def _execute(store: Store, text: str) -> None:
    _, _, spoiler = store
    spoiler.connection.execute(text.replace("tenure_", spoiler.prefix))


def _spoil(store: Store, term: int) -> None:
    _execute(store, "DELETE FROM tenure_lease_floor")
    _execute(store, f"INSERT INTO tenure_lease_floor (namespace, term) VALUES ('default', {term})")


def _age(store: Store, name: str) -> None:
    _, clock, spoiler = store
    if spoiler.prefix == "tenure_":
        clock.advance(DAY)
        return
    for table, column in (("lease", "renewed_at"), ("lease_history", "acquired_at")):
        _execute(
            store,
            f"UPDATE tenure_{table} SET {column} = {column} - interval '1 day'"
            f" WHERE name = '{name}'",
        )
    _execute(
        store,
        "UPDATE tenure_lease_history SET ended_at = ended_at - interval '1 day'"
        f" WHERE name = '{name}'",
    )


async def _remedies(store: Store) -> list[str]:
    """What doctor says to paste, of each bad floor."""
    assert isinstance(store[0], Upkeep)
    remedies = [f.remedy for f in await store[0].diagnose() if "lease_floor has" in f.text]
    return [remedy.split("`")[1] for remedy in remedies if remedy]


@pytest.mark.parametrize("bad", BAD_FLOORS)
@pytest.mark.parametrize("kept", ["lease", "lease_history"])
async def test_with_a_bad_floor_the_greatest_of_leases_and_history_counts_instead(
    store: Store, bad: int, kept: str
) -> None:
    assert await _free(store, "z", floor=99) == 100
    for table in {"lease", "lease_history"} - {kept}:
        _execute(store, f"DELETE FROM tenure_{table} WHERE name = 'z'")
    _spoil(store, bad)
    assert (await _held(store, "new")).term > 100


@pytest.mark.parametrize("bad", BAD_FLOORS)
@pytest.mark.parametrize("kept", ["lease", "lease_history"])
@pytest.mark.parametrize("dropped", ["lease", "lease_history"])
async def test_what_drops_a_record_mends_a_bad_floor_upwards(
    store: Store, bad: int, kept: str, dropped: str
) -> None:
    leases = store[0].leases
    await _free(store, "low")
    _age(store, "low")
    assert await _free(store, "z", floor=99) == 100
    for table in {"lease", "lease_history"} - {kept}:
        _execute(store, f"DELETE FROM tenure_{table} WHERE name = 'z'")
    _spoil(store, bad)
    if dropped == "lease":
        assert (await leases.forget("low", 1_000.0)).count == 1
    else:
        assert await forget_lines(leases, 1_000.0) == 1
    _execute(store, "DELETE FROM tenure_lease")
    _execute(store, "DELETE FROM tenure_lease_history")
    assert (await _held(store, "new")).term > 100


@pytest.mark.parametrize("bad", BAD_FLOORS)
@pytest.mark.parametrize("kept", ["lease", "lease_history"])
async def test_doctors_remedy_keeps_the_terms(store: Store, bad: int, kept: str) -> None:
    assert await _free(store, "z", floor=99) == 100
    for table in {"lease", "lease_history"} - {kept}:
        _execute(store, f"DELETE FROM tenure_{table} WHERE name = 'z'")
    _spoil(store, bad)
    [remedy] = await _remedies(store)
    _execute(store, remedy)
    assert await _remedies(store) == []
    _execute(store, "DELETE FROM tenure_lease")
    _execute(store, "DELETE FROM tenure_lease_history")
    assert (await _held(store, "new")).term > 100


async def test_doctors_remedy_in_an_empty_namespace_is_no_term(store: Store) -> None:
    _spoil(store, -5)
    [remedy] = await _remedies(store)
    _execute(store, remedy)
    assert (await _held(store, "new")).term == 1


@pytest.mark.parametrize("evicted", [False, True])
async def test_doctor_names_a_term_that_is_the_highest_and_its_remedy_helps(
    store: Store, evicted: bool
) -> None:
    backend = store[0]
    assert isinstance(backend, Upkeep)
    before = await _held(store, "x")
    _execute(store, f"UPDATE tenure_lease SET term = {HIGHEST_TERM} WHERE name = 'x'")
    if evicted:
        await backend.leases.evict("x", "by hand")
    [found] = [f for f in await backend.diagnose() if "lease has" in f.text]
    assert found.remedy is not None
    _execute(store, found.remedy.split("`")[1])
    assert (await _held(store, "x")).term > before.term


async def test_doctor_names_words_and_numbers_that_mean_nothing(store: Store) -> None:
    backend = store[0]
    assert isinstance(backend, Upkeep)
    await backend.schedules.change([adding("a", await backend.now())])
    await backend.schedules.run_now("a", "key")
    assert [f.text for f in await backend.diagnose() if "cannot be there, where" in f.text] == []
    wrong = "trigger = 'nonsense', overlap = 'x', catch_up = 'x', on_crash = 'x', retries = -9"
    _execute(store, f"UPDATE tenure_schedule SET {wrong}")
    _execute(store, "UPDATE tenure_run SET kind = 'x', on_crash = 'x'")
    _execute(store, "UPDATE tenure_occurrence SET kind = 'x', state = 'x'")
    told = " ".join(f.text for f in await backend.diagnose() if "cannot be there, where" in f.text)
    for column in ("trigger", "overlap", "catch_up", "on_crash", "retries", "kind", "state"):
        assert f"{column}=" in told, column


@pytest.mark.slow
async def test_doctor_evicts_no_holder_that_renews(store: Store) -> None:
    """Either a renewal mends what is wrong, or doctor does not say that it would."""
    backend, _, spoiler = store
    assert isinstance(backend, Upkeep)
    wrong = {c.name: (c, w, v) for c, w, v in _cases(spoiler, "lease") if spoiler.is_wrong(c, v)}
    for column, what, value in wrong.values():
        grant = await _held(store, "x")
        [row] = spoiler.rows(column.table)
        damage = spoiler.spoil(column, row, what, value)
        if damage is None:
            assert await backend.leases.release(grant)
            continue
        about = f"{column.name} = {what}"
        renewed = await backend.leases.renew([grant])
        found = [f.remedy or "" for f in await backend.diagnose() if "lease has" in f.text]
        if renewed:
            assert not any("evict" in remedy for remedy in found), f"{about}: {found}"
        await backend.leases.evict("x", "by hand")
        _execute(store, "DELETE FROM tenure_lease")
