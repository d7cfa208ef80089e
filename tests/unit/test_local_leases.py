"""Plain acquire and release on the calling thread, on a real SQLite file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import Leases
from tenure.backends.base import LocalLeases


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/leases.db"


@pytest.fixture
def leases(url: str) -> Iterator[Leases]:
    with Leases(url) as leases:
        yield leases


def test_it_is_had_on_the_calling_thread(leases: Leases) -> None:
    lease = leases.acquire("import", ttl=5)
    assert lease is not None
    assert isinstance(leases._local, LocalLeases)
    assert lease._local is leases._local
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
        assert again.term == lease.term + 1
        assert not lease.release()  # once is enough


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
    assert terms == [lease.term + 1]


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
