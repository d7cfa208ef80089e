"""Plain acquire and release on the calling thread, on every store that has them: for real."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tenure import Leases
from tenure.backends.base import BlockingLeases
from tenure.errors import TenureError
from tests.support.servers import PostgresServer, ValkeyServer

_databases = count()


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    """One that has been up for long: a new one grants no locks yet, see ADR 14."""
    server = ValkeyServer(clock=True)
    try:
        server.start().age(5_000)
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/leases.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database(f"local_{tmp_path.name}_{id(tmp_path)}")
    redis: ValkeyServer = request.getfixturevalue("valkey")
    return f"redis://127.0.0.1:{redis.port}/{next(_databases)}"


@pytest.fixture
def leases(url: str) -> Iterator[Leases]:
    with Leases(url) as leases:
        yield leases


def test_it_is_had_on_the_calling_thread(leases: Leases) -> None:
    lease = leases.acquire("import", ttl=5)
    assert lease is not None
    assert isinstance(leases._runtime.blocking(), BlockingLeases)
    assert lease._blocking
    assert lease.held
    assert 0 < lease.remaining <= 5


def test_it_excludes_others_and_itself(leases: Leases, url: str) -> None:
    with Leases(url) as others:
        lease = leases.acquire("import")
        assert lease is not None
        assert others.acquire("import") is None
        assert leases.acquire("import") is None
        assert lease.release()
        assert not lease.held
        again = others.acquire("import")
        assert again is not None
        assert again.term > lease.term
        assert not lease.release()  # once is enough


def test_both_ways_are_one_lease(leases: Leases) -> None:
    """Held by a block, it is refused to a plain call; and the other way round."""
    with leases.hold("import") as held:
        assert leases.acquire("import") is None
    lease = leases.acquire("import")
    assert lease is not None
    assert lease.term > held.term
    seen = leases.inspect("import")
    assert seen is not None
    assert (seen.holder, seen.term, seen.live) == (lease.holder, lease.term, True)
    assert lease.renew()
    assert lease.release()


def test_it_is_taken_over_once_it_has_expired(leases: Leases, url: str) -> None:
    with Leases(url) as others:
        lease = leases.acquire("import", ttl=3)
        assert lease is not None
        assert others.acquire("import") is None
        taken = None
        while taken is None:
            taken = others.acquire("import")
        assert not lease.held
        assert taken.term > lease.term
        assert not lease.release()


def test_release_wakes_those_who_wait(leases: Leases, url: str) -> None:
    lease = leases.acquire("import", ttl=60)
    assert lease is not None
    terms: list[int] = []

    def wait() -> None:
        with Leases(url) as others, others.hold("import", ttl=60, wait=30) as held:
            terms.append(held.term)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert lease.release()
    waiting.join(timeout=20)
    [term] = terms
    assert term > lease.term


def test_many_threads_never_hold_it_together(leases: Leases) -> None:
    counter = [0]

    def work() -> None:
        done = 0
        while done < 20:
            lease = leases.acquire("counter", ttl=60)
            if lease is None:
                continue
            value = counter[0]
            leases.inspect("counter")
            counter[0] = value + 1
            assert lease.release()
            done += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=40)
    assert counter == [80]


def test_it_is_given_back_after_the_leases_were_closed(leases: Leases) -> None:
    lease = leases.acquire("import", ttl=60)
    assert lease is not None
    leases.close()
    assert lease.release()
    assert leases.acquire("import") is not None


def test_what_threads_do_while_the_leases_are_closed_is_done_or_refused(leases: Leases) -> None:
    """Nothing hangs, and no connection stays behind."""
    failures: list[BaseException] = []
    going = threading.Event()

    def work() -> None:
        try:
            for _ in range(50):
                lease = leases.acquire("import", ttl=60)
                going.set()
                if lease is not None:
                    lease.release()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert going.wait(timeout=20)
    for _ in range(5):
        leases.close()
    for thread in threads:
        thread.join(timeout=40)
    assert not any(thread.is_alive() for thread in threads)
    assert all(isinstance(e, TenureError) for e in failures), failures
