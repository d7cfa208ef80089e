"""No password in an error, a log, a fact or a traceback, whatever is wrong with the URL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio
import sqlalchemy
from sqlalchemy.engine import URL

from tenure import AsyncScheduler, LeaseHeld, Leases, Scheduler, TenureError, single_instance
from tenure.backends.urls import shown
from tenure.cli.store import Store
from tests.support.secrets import FORMS, PASSWORDS, PLAIN, POSTGRES, check, everything, urls
from tests.support.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.slow


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def take(url: object) -> None:
    leases = Leases(url)
    try:
        leases.acquire("x")
    finally:
        leases.close()


def start(url: object) -> None:
    scheduler, facts = Scheduler(url), list[object]()
    scheduler.on("*", facts.append)
    try:
        scheduler.start()
    finally:
        scheduler.stop()
        check("\n".join(f"{fact} {fact!r}" for fact in facts), url)


def start_async(url: object) -> None:
    async def run() -> None:
        scheduler = AsyncScheduler(url)
        try:
            await scheduler.start()
        finally:
            await scheduler.stop()

    asyncio.run(run())


def start_beside(url: object) -> None:
    Scheduler("memory://", leases=url).start()


def guard(url: object) -> None:
    with single_instance(url):
        pass


def refused(use: Callable[[Any], None], url: object, log: pytest.LogCaptureFixture) -> None:
    """It raises an error of ours that tells nothing; and so do the logs."""
    log.clear()
    with pytest.raises(TenureError) as caught:
        use(url)
    check(everything(caught.value), url)
    check(log.text, url)


@pytest.mark.parametrize("form", FORMS)
def test_leases_on_every_url_that_does_not_work(
    form: str, log: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in urls(form):
        check(shown(url), url)
        refused(take, url, log)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("use", [start, start_async, start_beside, guard])
@pytest.mark.parametrize("form", FORMS)
def test_other_ways_in(
    form: str,
    use: Callable[[object], None],
    log: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for password in (PLAIN, *PASSWORDS[2:14:2]):
        refused(use, form.format(password), log)


@pytest.mark.parametrize("form", FORMS)
def test_url_in_a_variable_and_in_a_file(
    form: str, log: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in [*urls(form)][::7]:
        monkeypatch.setenv("TENURE_URL", url)
        refused(take, None, log)
    monkeypatch.delenv("TENURE_URL")
    monkeypatch.setenv("TENURE_URL_FILE", str(tmp_path / "url"))
    for url in [*urls(form)][::7]:
        (tmp_path / "url").write_text(url)
        refused(take, None, log)


def test_objects_that_are_handed_in(log: pytest.LogCaptureFixture) -> None:
    for password in PASSWORDS:
        engine = sqlalchemy.create_engine(
            URL.create("postgresql+psycopg", "app", password, "127.0.0.1", 1, "db")
        )
        pool = psycopg_pool.ConnectionPool(
            f"postgresql://app:{password}@127.0.0.1:1/db", open=False, min_size=0, max_size=1
        )
        odd = psycopg_pool.ConnectionPool(
            "host=127.0.0.1 port=1", kwargs={"password": password.encode()}, open=False
        )
        client = redis.Redis(host="127.0.0.1", port=1, password=password)
        for use in (take, start):
            for thing in (engine, pool, odd, client):
                refused(use, thing, log)


def test_store_of_a_command_does_not_tell_its_url() -> None:
    for form in POSTGRES[:1]:
        store = Store.parse(form.format(PLAIN), "default", "redis://:" + PLAIN + "@127.0.0.1:1/0")
        check(f"{store!r} {store.address!r} {store.address}", form)


# -- stores that answer ---------------------------------------------------------------------------


def test_lease_that_is_held_names_no_password(
    postgres: PostgresServer, log: pytest.LogCaptureFixture
) -> None:
    url = postgres.url.replace("tenure@", f"tenure:{PLAIN}@")
    with Leases(url, namespace="secrets") as leases, leases.hold("import"):
        with pytest.raises(LeaseHeld) as caught, leases.hold("import"):
            pass
        with pytest.raises(LeaseHeld) as waited, leases.hold("import", wait=0.05):
            pass
        with pytest.raises(LeaseHeld) as guarded:
            single_instance(url, "import", namespace="secrets").__enter__()
    for error in (caught, waited, guarded):
        check(everything(error.value), url)
        assert '--url "$TENURE_URL" --namespace secrets' in str(error.value)
    check(log.text, url)


@pytest.fixture(params=["AUTH", "HELLO"])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    """As an old one, or one whose administrator has renamed a command."""
    made = ValkeyServer()
    made.settings["rename-command"] = f"{request.param} X{request.param}"
    try:
        yield made.start()
    finally:
        made.close()


def test_server_that_repeats_what_it_does_not_know(
    server: ValkeyServer, log: pytest.LogCaptureFixture
) -> None:
    """It answers: unknown command 'AUTH', with args beginning with …; among them the password."""
    for protocol in (2, 3):
        url = f"redis://app:{PLAIN}@127.0.0.1:{server.port}/0?protocol={protocol}"
        refused(take, url, log)
        refused(start_beside, url, log)


def _use(url: str) -> Iterator[BaseException]:
    """What is raised on the caller's own thread, on Tenure's, and when it starts."""
    for use in (take, start, start_async, guard):
        with pytest.raises(TenureError) as caught:
            use(url)
        yield caught.value


def test_what_postgres_said_is_the_cause_without_the_connection(postgres: PostgresServer) -> None:
    url = postgres.url.replace("tenure@", f"tenure:{PLAIN}@")
    nowhere = f"{url.rpartition('/')[0]}/nowhere"
    for error in _use(nowhere):
        check(everything(error), nowhere)
        assert isinstance(error.__cause__, psycopg.OperationalError)
        assert 'database "nowhere" does not exist' in str(error.__cause__)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
    with Leases(postgres.url) as leases, leases.hold("x"):
        pass
    stranger = url.replace("tenure:", "stranger:")
    for error in _use(stranger):
        check(everything(error), stranger)
        assert "stranger" in str(error)
        said = [e for e in (error, error.__cause__, error.__context__) if e is not None]
        assert "42501" in [getattr(each, "sqlstate", None) for each in said], said


def test_what_redis_said_is_the_cause_without_the_connection() -> None:
    server = ValkeyServer()
    try:
        with redis.Redis.from_url(server.start().url) as line:
            line.config_set("requirepass", "another")
        url = f"redis://:{PLAIN}@127.0.0.1:{server.port}/0"
        for use in (take, start_beside, guard):
            with pytest.raises(TenureError, match="refused the login") as caught:
                use(url)
            check(everything(caught.value), url)
            causes = [caught.value.__cause__, getattr(caught.value.__cause__, "__cause__", None)]
            assert any(isinstance(each, redis.AuthenticationError) for each in causes), causes
    finally:
        server.close()
