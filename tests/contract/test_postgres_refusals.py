"""A PostgreSQL that refuses a connection for good: reason and remedy, and not "unavailable"."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import psycopg
import pytest

from tenure import Leases, single_instance
from tenure.errors import StoreError, StoreUnavailable
from tenure.leases.single_instance import OnHeld
from tests.e2e.command import until
from tests.support.servers import PostgresServer, free_port


@pytest.fixture(scope="module")
def place(postgres: PostgresServer) -> Iterator[str]:
    """user@host:port, without a database."""
    with psycopg.connect(postgres.url, autocommit=True) as line:
        _clear(line)  # this module may come to one process in two portions
        line.execute("CREATE ROLE nologin_role NOLOGIN")
        line.execute("CREATE ROLE outsider LOGIN")
        line.execute("CREATE DATABASE closed_to_all")
        line.execute("REVOKE CONNECT ON DATABASE closed_to_all FROM PUBLIC")
    yield postgres.url.rpartition("/")[0]
    with psycopg.connect(postgres.url, autocommit=True) as line:
        _clear(line)


def _clear(line: psycopg.Connection) -> None:
    line.execute("DROP DATABASE IF EXISTS closed_to_all WITH (FORCE)")
    line.execute("DROP ROLE IF EXISTS outsider")
    line.execute("DROP ROLE IF EXISTS nologin_role")


def _as(place: str, user: str) -> str:
    scheme, _, rest = place.partition("://")
    return f"{scheme}://{user}@{rest.rpartition('@')[2]}"


def _refused(url: str) -> StoreError:
    with Leases(url) as leases, pytest.raises(StoreError) as told:
        leases.acquire("job")
    assert told.value.stage == "connect"
    return told.value


def test_database_that_does_not_exist(place: str) -> None:
    error = _refused(f"{place}/nowhere_at_all")
    assert type(error) is StoreError
    assert 'database "nowhere_at_all" does not exist' in str(error)
    assert str(error).endswith("Create it (createdb), or correct the URL.")


def test_role_that_does_not_exist(place: str) -> None:
    error = _refused(f"{_as(place, 'nobody_at_all')}/postgres")
    assert type(error) is StoreError
    assert 'role "nobody_at_all" does not exist' in str(error)
    assert "CREATE ROLE" in str(error)


def test_role_that_may_not_log_in(place: str) -> None:
    error = _refused(f"{_as(place, 'nologin_role')}/postgres")
    assert type(error) is StoreError
    assert "ALTER ROLE … LOGIN" in str(error)


def test_database_that_the_role_may_not_use(place: str) -> None:
    error = _refused(f"{_as(place, 'outsider')}/closed_to_all")
    assert type(error) is StoreError
    assert "GRANT CONNECT" in str(error)


@pytest.fixture
def strict() -> Iterator[PostgresServer]:
    """A server of its own, which asks one role for a password and does not let another in."""
    server = PostgresServer(fsync="off")
    try:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as line:
            line.execute("CREATE ROLE keyed LOGIN PASSWORD 'right'")
            line.execute("CREATE ROLE barred LOGIN")
            rules = server.data / "pg_hba.conf"
            rules.write_text(
                "host all keyed 127.0.0.1/32 scram-sha-256\n"
                "host all barred 127.0.0.1/32 reject\n"
                "host all tenure 127.0.0.1/32 trust\n"
            )
            line.execute("SELECT pg_reload_conf()")
            until(lambda: _refuses(server, "barred"), "the new rules")
        yield server
    finally:
        server.close()


def _refuses(server: PostgresServer, user: str) -> bool:
    try:
        psycopg.connect(_as(server.url.rpartition("/")[0], user) + "/postgres").close()
    except psycopg.OperationalError:
        return True
    return False


def test_what_the_server_is_told_to_refuse(strict: PostgresServer) -> None:
    place = strict.url.rpartition("/")[0]
    for user, says in (
        ("keyed:wrong", "authentication failed"),
        ("keyed", "no password supplied"),
        ("barred", "pg_hba.conf rejects connection"),
        ("stranger", "no pg_hba.conf entry"),
    ):
        error = _refused(f"{_as(place, user)}/postgres")
        assert type(error) is StoreError, (user, error)
        assert says in str(error)
        assert "wrong" not in str(error)
        asked = "password" if user.startswith("keyed") else "in its pg_hba.conf"
        assert asked in str(error).rpartition(says)[2]
    with Leases(f"{_as(place, 'tenure')}/postgres") as leases:
        assert leases.acquire("job") is not None


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("sslmode=bogus", "invalid sslmode value. Correct it in the URL."),
        ("options=-c%20work_mem%3Dsecret", 'parameter "work_mem". Correct it in the URL.'),
        ("options=-c%20nosuch%3D1", 'parameter "nosuch". Correct it in the URL.'),
        ("keepalives=abc", 'option "keepalives". Correct it in the URL.'),
        ("service=nosuch", 'service "nosuch" not found. Correct it in the URL.'),
        (
            "sslmode=require",
            "SSL was required. Set sslmode=prefer in the URL, or turn TLS on there.",
        ),
    ],
)
def test_setting_that_cannot_be_used(place: str, setting: str, says: str) -> None:
    error = _refused(f"{place}/postgres?{setting}")
    assert type(error) is StoreError
    assert str(error).endswith(says)
    assert "secret" not in str(error)


def test_port_that_does_not_exist() -> None:
    error = _refused("postgresql://127.0.0.1:99999/postgres")
    assert type(error) is StoreError
    assert str(error).endswith("A port is a number from 1 to 65535: correct it in the URL.")


class _Web(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_port_of_another_server() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        error = _refused(f"postgresql://127.0.0.1:{server.server_address[1]}/postgres")
        server.shutdown()
    assert type(error) is StoreError
    assert "is not PostgreSQL: check host and port" in str(error)


def test_port_that_nobody_listens_on_may_come_up_later() -> None:
    error = _refused(f"postgresql://127.0.0.1:{free_port()}/postgres")
    assert isinstance(error, StoreUnavailable)
    assert "Check host and port in the URL, and whether the server is up." in str(error)


def test_guard_that_cannot_be_had_is_an_error_whatever_it_does_when_held(place: str) -> None:
    choices: tuple[OnHeld, ...] = ("raise", "skip", "wait")
    for on_held in choices:
        guard = single_instance(f"{place}/nowhere_at_all", on_held=on_held)
        with pytest.raises(StoreError, match="does not exist"), guard:
            pass
