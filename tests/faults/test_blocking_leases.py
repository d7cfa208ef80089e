"""Plain acquire and release, which block the calling thread, when the line or the server fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tenure import Leases, StoreUnavailable
from tests.faults.postgres import running_pooler, running_server
from tests.faults.support import ROOT, until
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.faults

TTL = 3.0
SLACK = 15.0
"""On top of a promised time: these tests run on busy machines."""


@dataclass
class Place:
    """A real server, reached through a line to which things happen."""

    server: PostgresServer | ValkeyServer
    line: Proxy
    url: str

    @property
    def straight(self) -> str:
        """The same store by a line of its own."""
        return self.url.replace(str(self.line.port), str(self.server.port))


@contextmanager
def open_place(kind: str) -> Iterator[Place]:
    server: PostgresServer | ValkeyServer
    server = PostgresServer(fsync="off") if kind == "postgres" else ValkeyServer(clock=True)
    try:
        server.start()
        if isinstance(server, ValkeyServer):
            server.age(5_000)
        with Proxy(server.port) as line:
            yield Place(server, line, server.url.replace(str(server.port), str(line.port)))
    finally:
        server.close()


@pytest.fixture(params=["postgres", "redis"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param) as place:
        yield place


@pytest.fixture
def leases(place: Place) -> Iterator[Leases]:
    with Leases(place.url) as leases:
        lease = leases.acquire("import", ttl=TTL)
        assert lease is not None
        assert lease._blocking
        assert lease.release()
        yield leases
        place.line.become("pass")


def test_a_line_that_was_cut_is_made_anew(place: Place, leases: Leases) -> None:
    lease = leases.acquire("import", ttl=60)
    assert lease is not None
    place.line.become("cut")
    with pytest.raises(StoreUnavailable, match="is not available"):
        leases.acquire("export", ttl=60)
    place.line.become("pass")
    assert leases.acquire("export", ttl=60) is not None
    assert lease.release()


def test_a_line_that_was_cut_while_nobody_used_it_is_not_noticed(
    place: Place, leases: Leases
) -> None:
    for name in ("one", "two"):
        place.line.become("cut")
        place.line.become("pass")
        lease = leases.acquire(name, ttl=60)
        assert lease is not None
        place.line.become("cut")
        place.line.become("pass")
        assert lease.release()


def test_a_server_that_does_not_answer_is_given_up_in_time(place: Place, leases: Leases) -> None:
    """Its processes are there, and take what they are sent: only an answer never comes."""
    place.line.become("half-open")
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        leases.acquire("import", ttl=TTL)
    assert time.monotonic() - begun < 10 + SLACK
    place.line.become("pass")
    lease = leases.acquire("export", ttl=60)
    assert lease is not None
    assert lease.release()


def test_others_are_not_kept_waiting_for_ever_either(place: Place, leases: Leases) -> None:
    place.line.become("half-open")
    outcomes: list[str] = []

    def ask(name: str) -> None:
        try:
            leases.acquire(name, ttl=TTL)
        except StoreUnavailable:
            outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(f"job {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20 + SLACK)
    assert outcomes == ["refused"] * 4


def test_a_release_that_was_not_answered_can_be_repeated(place: Place, leases: Leases) -> None:
    lease = leases.acquire("import", ttl=60)
    assert lease is not None
    place.line.become("cut")
    with pytest.raises(StoreUnavailable):
        lease.release()
    assert not lease.held
    place.line.become("pass")
    _until(lease.release)
    with Leases(place.straight) as others:
        assert others.acquire("import") is not None


def test_an_interrupted_call_leaves_nothing_half_done(place: Place, leases: Leases) -> None:
    """Ctrl-C while the server does not answer; the next call has a line of its own."""
    place.line.become("half-open")
    us = threading.main_thread().ident
    assert us is not None
    sent: list[float] = []

    def interrupt() -> None:
        until(lambda: place.line.swallowed, "the question to be asked")
        sent.append(time.monotonic())
        signal.pthread_kill(us, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come from the first line on
        interrupting.start()
        leases.acquire("import", ttl=60)
    assert time.monotonic() - sent[0] < 4.9  # not at its limit
    interrupting.join()
    place.line.become("pass")
    lease = leases.acquire("export", ttl=60)
    assert lease is not None
    assert lease.release()


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.parametrize("how", ["acquire", "hold"])
def test_the_server_gives_up_a_statement_before_its_caller_does(place: Place, how: str) -> None:
    """So nothing is left behind that waits for a lock, and lands when nobody expects it."""
    with Leases(place.url) as leases, psycopg.connect(place.straight) as other:
        lease = leases.acquire("import", ttl=TTL)
        assert lease is not None
        assert lease.release()
        other.execute("SELECT * FROM tenure.lease WHERE name = 'import' FOR UPDATE")
        ask = leases.acquire if how == "acquire" else _held_by(leases)
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            ask("import", TTL)
        other.rollback()
        assert leases.acquire("import", ttl=TTL) is not None


_FORKS = """
import os, sys
from tenure import Leases
leases = Leases(sys.argv[1])
lease = leases.acquire("parent", ttl=60)
assert lease is not None and lease._blocking
child = os.fork()
if child == 0:
    assert leases.acquire("parent", ttl=60) is None
    mine = leases.acquire("child", ttl=60)
    assert mine is not None and mine._blocking and mine.release()
    leases.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
for _ in range(3):
    again = leases.acquire("again", ttl=60)
    assert again is not None and again.term > 0 and again.release()
assert lease.release()
leases.close()
print("done")
"""


def test_a_forked_child_has_a_line_of_its_own(place: Place, tmp_path: Path) -> None:
    program = tmp_path / "forks.py"
    program.write_text(_FORKS)
    ended = subprocess.run(
        [sys.executable, str(program), place.url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=ROOT,
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr


def test_through_a_pooler_it_goes_by_our_own_thread() -> None:
    with running_server() as server, running_pooler(server) as pooler:
        url = server.url.replace(str(server.port), str(pooler.port))
        with Leases(url) as leases:
            lease = leases.acquire("import", ttl=60)
            assert lease is not None
            assert not lease._blocking
            assert leases.acquire("import") is None
            assert lease.release()


def _held_by(leases: Leases) -> Callable[[str, float], object]:
    return lambda name, ttl: leases.hold(name, ttl).__enter__()


def _until(done: Callable[[], bool], patience: float = SLACK) -> None:
    """The engine's own connections come back within a moment."""
    deadline = time.monotonic() + patience
    while True:
        try:
            assert done()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
