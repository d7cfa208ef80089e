"""Engines and pools become the URL of their database, or a clear refusal. Nothing connects here."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import redis.asyncio
from psycopg_pool import AsyncConnectionPool, ConnectionPool, NullConnectionPool
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from tenure import AsyncScheduler, Leases, Scheduler
from tenure.backends.engines import url_of
from tenure.backends.redis import target
from tenure.backends.registry import parse, resolve
from tenure.errors import ConfigError
from tenure.testing import FakeClock

ENGINES = {
    "postgresql+psycopg://u:p%40w@h:1/db?sslmode=require": (
        "postgresql://u@h:1/db?password=p%40w&sslmode=require"
    ),
    "postgresql+psycopg://u@/db?host=/run/pg": "postgresql://u@/db?host=%2Frun%2Fpg",
    "postgresql+psycopg://u@/db?host=a:1&host=b:2": "postgresql://u@a:1,b:2/db",
    "postgresql+psycopg://u@[::1]:1/db": "postgresql://u@[::1]:1/db",
    "sqlite:///jobs.db": "sqlite:///jobs.db",
    "sqlite:////var/my jobs.db": "sqlite:////var/my%20jobs.db",
}


@pytest.mark.parametrize("given", ENGINES)
def test_engine_becomes_the_url_of_its_database(given: str) -> None:
    assert url_of(create_engine(given)) == ENGINES[given]
    assert url_of(create_engine(given, poolclass=NullPool)) == ENGINES[given]


def test_async_engine_as_well_whatever_its_driver() -> None:
    expected = "postgresql://u@h:1/db?password=p&sslmode=require"
    assert url_of(create_async_engine("postgresql+asyncpg://u:p@h:1/db?ssl=require")) == expected
    assert (
        url_of(create_async_engine("postgresql+psycopg://u:p@h:1/db?sslmode=require")) == expected
    )
    assert url_of(create_async_engine("sqlite+aiosqlite:///jobs.db")) == "sqlite:///jobs.db"


def test_connect_args_are_taken_as_far_as_they_say_where_and_as_whom() -> None:
    engine = create_engine(
        "postgresql+psycopg://u@h/db",
        connect_args={"sslrootcert": "/ca.pem", "password": "x", "connect_timeout": 3},
    )
    assert url_of(engine) == "postgresql://u@h/db?password=x&sslrootcert=%2Fca.pem"


@pytest.mark.parametrize("kind", [ConnectionPool, AsyncConnectionPool, NullConnectionPool])
def test_pool_becomes_the_url_of_its_database(kind: Callable[..., Any]) -> None:
    pool = kind("host=h port=2 dbname=db", kwargs={"user": "u", "autocommit": True}, open=False)
    assert url_of(pool) == "postgresql://u@h:2/db"
    assert url_of(kind("postgresql://u:p@h/db", open=False)) == "postgresql://u@h/db?password=p"


def test_url_leads_to_where_the_settings_did() -> None:
    engine = create_engine("postgresql+psycopg://u%2F:p%40%2F@h:7/d%3Fb?options=-c%20a%3Db")
    url = url_of(engine)
    assert url is not None
    info = psycopg.conninfo.conninfo_to_dict(url)
    expected = {"user": "u/", "password": "p@/", "host": "h", "port": "7", "dbname": "d?b"}
    assert info == {**expected, "options": "-c a=b"}


def _listening() -> object:
    engine = create_engine("postgresql+psycopg://h/db")
    event.listen(engine, "do_connect", lambda *_: None)
    return engine


def _closed() -> object:
    pool = ConnectionPool("host=127.0.0.1 port=1", min_size=0, max_size=1, open=True)
    pool.close()
    return pool


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: create_engine("sqlite://"), "in memory"),
        (lambda: create_engine("sqlite:///:memory:", poolclass=StaticPool), "in memory"),
        (lambda: create_engine("sqlite:///file:a.db?uri=true"), "file: URI"),
        (
            lambda: create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect("")),
            "creator=",
        ),
        (_listening, "do_connect"),
        (
            lambda: create_async_engine(
                "postgresql+asyncpg://h/db", connect_args={"ssl": ssl.create_default_context()}
            ),
            "SSLContext",
        ),
        (lambda: ConnectionPool(lambda: "host=h", open=False), "function"),
        (_closed, "closed"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_with_a_way_on(
    make: Callable[[], object], why: str
) -> None:
    with pytest.raises(ConfigError, match=r"cannot be taken over.* Give a URL instead") as refused:
        Scheduler(make())
    assert why in str(refused.value)


def test_pool_that_is_not_open_yet_is_taken() -> None:
    """Applications make pools at import and open them at their start."""
    pool = AsyncConnectionPool("host=h", open=False)
    assert AsyncScheduler(pool).url == "postgresql://h/"


@pytest.mark.parametrize("thing", [5, object(), Path("jobs.db"), {"url": "sqlite:///a.db"}])
def test_anything_else_is_refused(thing: object) -> None:
    for take in (resolve, Leases, Scheduler):
        with pytest.raises(ConfigError, match="an SQLAlchemy engine or a psycopg pool, not"):
            take(thing)


def test_scheduler_refuses_a_redis_client_and_says_the_two_ways_on() -> None:
    for client in (redis.Redis(), redis.asyncio.Redis()):
        with pytest.raises(ConfigError, match=r"Either keep.*leases='redis://…'"):
            Scheduler(client)


def test_where_several_hosts_are_is_told_without_the_password() -> None:
    backend = parse("postgresql://u:secret@a:1,b:2/db", "default", FakeClock())()
    assert backend.location == "postgresql://u@a:1,b:2/db"


# -- Redis ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379/0",
        "redis://h:7/2",
        "rediss://h:7/0",
        "unix:///run/redis.sock",
        "redis+sentinel://a:1,[::1]:26379/service",
        "redis+sentinel://a:1/service/3",
        "rediss+cluster://a:1,b:6379",
    ],
)
def test_where_a_redis_is_can_be_told_again(url: str) -> None:
    assert target.parse(url).location == url


def test_parts_of_a_redis_url() -> None:
    parsed = target.parse(
        "rediss+sentinel://me:p%40@a,b:2/service?ssl_ca_certs=/ca.pem&sentinel_password=x"
    )
    assert parsed.hosts == (("a", 26379), ("b", 2))
    assert parsed.service == "service"
    secure = {"ssl": True, "ssl_ca_certs": "/ca.pem"}
    assert parsed.options == {"username": "me", "password": "p@", "db": 0, **secure}
    assert parsed.sentinel_options == {"password": "x", **secure}
    assert "p@" not in parsed.location + repr(parsed)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://host", "names the service"),
        ("redis+swarm://host", "unknown form"),
        ("redis://host:many/0", "a port in it is not a number"),
        ("redis://host?socket_timeout=soon", "cannot be read"),
    ],
)
def test_redis_url_that_cannot_be_read_says_why(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        target.parse(url)


def test_option_that_the_driver_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="shoe_size"):
        target.parse("redis://host?shoe_size=43").connect()


def test_settings_of_a_client_are_taken_not_its_ways() -> None:
    client = redis.Redis.from_url(
        "rediss://me:secret@h:7/2?ssl_ca_certs=/ca.pem", decode_responses=False, socket_timeout=99
    )
    taken = target.of(client)
    assert taken.location == "rediss://h:7/2"
    assert taken.options["password"] == "secret"
    assert taken.options["ssl_ca_certs"] == "/ca.pem"
    assert "socket_timeout" not in taken.options
    assert target.of(redis.asyncio.Redis(unix_socket_path="/s")).location == "unix:///s"
    assert target.of(client.connection_pool) == taken


def test_client_that_asks_more_of_tls_than_ours_can_is_refused() -> None:
    client = redis.Redis(ssl=True, ssl_validate_ocsp=True)
    with pytest.raises(ConfigError, match=r"ssl_validate_ocsp.* Give a URL"):
        target.of(client)


def test_clients_of_sentinel_and_cluster_are_taken() -> None:
    for module in (redis.sentinel, redis.asyncio.sentinel):
        sentinel: Any = module.Sentinel([("a", 1), ("b", 2)], sentinel_kwargs={"password": "s"})
        taken = target.of(sentinel.master_for("service", password="p"))
        assert taken.location == "redis+sentinel://a:1,b:2/service"
        assert (taken.options["password"], taken.sentinel_options["password"]) == ("p", "s")
    cluster = redis.asyncio.RedisCluster(host="a", port=1, password="p", ssl=True)
    assert target.of(cluster).location == "rediss+cluster://a:1"
    assert target.of(cluster).options["password"] == "p"


def test_client_that_talks_to_no_server_is_refused() -> None:
    """As the fakes of test suites: taken for a real one, it would lead to localhost."""

    class Fake(redis.Connection):
        pass

    pool = redis.ConnectionPool(connection_class=Fake)
    with pytest.raises(ConfigError, match=r"Fake. Give a URL"):
        target.of(redis.Redis(connection_pool=pool))
