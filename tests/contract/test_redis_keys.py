"""Keys in Redis: their prefix, when those of finished locks expire, and a server that has begun
anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from tenure import Leases, RedisClient, single_instance
from tenure.backends.redis import RedisBackend
from tenure.backends.redis.keys import FINISHED
from tenure.errors import ConfigError, StoreError
from tenure.model import Grant, LeaseRecord
from tenure.process.identity import new_holder
from tests.support.servers import ValkeyServer

PREFIXED = "?prefix=shop:locks"


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    """A fresh one, whose clock can be moved."""
    server = ValkeyServer(clock=True)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def old(server: ValkeyServer) -> ValkeyServer:
    """One that has been up for long."""
    server.age(5_000)
    return server


def test_prefix_of_the_url_is_that_of_all_keys(old: ValkeyServer) -> None:
    with Leases(old.url + PREFIXED) as shop, Leases(old.url) as others:
        assert shop.acquire("job") is not None
        assert shop.acquire("job") is None
        assert others.acquire("job") is not None  # another lease
        keys = old.command("KEYS", "*")
        assert "shop:locks:{default}:lease:job" in keys
        assert "tenure:{default}:lease:job" in keys
        assert all(key.startswith(("shop:locks:{", "tenure:{")) for key in keys)


def test_client_that_is_handed_in_may_have_a_prefix(old: ValkeyServer) -> None:
    with closing(redis.Redis.from_url(old.url)) as client:
        shop = RedisClient(client, prefix="shop:locks")
        assert "Redis<" not in repr(shop)  # nor its password
        with Leases(shop) as leases, Leases(old.url + PREFIXED) as by_url:
            assert leases.acquire("job") is not None
            assert by_url.acquire("job") is None
        with single_instance(shop, "job2"), Leases(old.url + PREFIXED) as by_url:
            assert by_url.acquire("job2") is None
        assert all(key.startswith("shop:locks:{") for key in old.command("KEYS", "*"))
        for wrong in ("", "a b", "{a}", "a:"):
            with pytest.raises(ConfigError, match="prefix"):
                RedisClient(client, prefix=wrong)
    with pytest.raises(ConfigError, match="takes a client of redis-py or valkey-py, not str"):
        RedisClient(old.url)


async def test_prefix_is_part_of_what_people_are_told(old: ValkeyServer) -> None:
    backend = RedisBackend(old.url + PREFIXED)
    assert backend.location == old.url + PREFIXED
    assert "~shop:locks:{default}:*" in backend.role_script("tenure_").commands
    await backend.close()


@pytest.mark.parametrize("wrong", ["", "a b", "{a}", "a:", "a" * 51, "ä"])
def test_other_prefixes_are_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="prefix"), Leases(f"redis://h/0?prefix={wrong}") as used:
        used.acquire("job")


def test_database_that_the_server_does_not_have(old: ValkeyServer) -> None:
    says = "below the server's setting databases"
    with Leases(f"{old.url}99") as leases, pytest.raises(StoreError, match=says):
        leases.acquire("job")


def test_finished_lock_expires_by_itself_and_a_held_one_does_not(old: ValkeyServer) -> None:
    key = "tenure:{default}:lease:job"
    with Leases(old.url) as leases:
        lease = leases.acquire("job", ttl=10)
        assert lease is not None
        assert old.command("TTL", key) == -1
        lease.release()
        assert FINISHED - 60 < old.command("TTL", key) <= FINISHED
        again = leases.acquire("job", ttl=10)
        assert again is not None
        assert old.command("TTL", key) == -1
        leases.evict("job")
        assert FINISHED - 60 < old.command("TTL", key) <= FINISHED


def test_term_of_a_lock_that_expired_is_not_granted_again(old: ValkeyServer) -> None:
    """Not even if the clock, from which terms come, was set back."""
    with Leases(old.url) as leases:
        lease = leases.acquire("job", ttl=10)
        assert lease is not None
        lease.release()
        old.command("PEXPIRE", "tenure:{default}:lease:job", 1)
        while old.command("EXISTS", "tenure:{default}:lease:job"):
            pass
        assert leases.inspect("job") is None
        old.move_clock(4_000)
        again = leases.acquire("job", ttl=10)
        assert again is not None
        assert again.term > lease.term


async def test_wait_of_a_server_that_began_anew_is_told_once_with_its_end(
    server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tenure.store")
    backend = RedisBackend(server.url)
    await backend.open()
    try:
        await backend.leases.acquire("one", new_holder(), 100.0)
        answer = await backend.leases.acquire("two", new_holder(), 100.0)
        assert isinstance(answer, LeaseRecord)
        [told] = [r for r in caplog.records if "started over" in r.getMessage()]
        assert told.levelno == logging.WARNING
        assert f"granted from {answer.expires_at:%Y-%m-%d %H:%M:%S} UTC on" in told.getMessage()
    finally:
        await backend.close()


async def test_lock_waits_no_longer_than_its_own_ttl_demands(server: ValkeyServer) -> None:
    """The server has been up for 100 s: a lock of an hour has to wait, and others do not have to
    wait because of it."""
    server.age(100)
    backend = RedisBackend(server.url)
    await backend.open()
    try:
        long = await backend.leases.acquire("long", new_holder(), 3_600.0)
        assert isinstance(long, LeaseRecord)
        assert isinstance(await backend.leases.acquire("short", new_holder(), 10.0), Grant)
        server.age(3_700)
        server.command("HINCRBYFLOAT", "tenure:{default}:server", "boot_since", -3_600)
        assert isinstance(await backend.leases.acquire("long", new_holder(), 3_600.0), Grant)
    finally:
        await backend.close()


async def test_restarted_server_counts_from_its_start(server: ValkeyServer) -> None:
    """Not from the first question, which may come much later."""
    backend = RedisBackend(server.url)
    await backend.open()
    await backend.leases.acquire("job", new_holder(), 10.0)  # notes this run
    run = server.command("HGET", "tenure:{default}:server", "run")
    other = ("0" if run[0] != "0" else "1") + run[1:]
    server.command("HSET", "tenure:{default}:server", "run", other)
    server.age(100)
    try:
        assert isinstance(await backend.leases.acquire("job", new_holder(), 10.0), Grant)
    finally:
        await backend.close()


async def test_emptied_server_counts_from_the_first_question(old: ValkeyServer) -> None:
    backend = RedisBackend(old.url)
    await backend.open()
    old.command("FLUSHALL")
    try:
        answer = await backend.leases.acquire("job", new_holder(), 0.5)
        assert isinstance(answer, LeaseRecord)
        async with asyncio.timeout(60):
            while isinstance(answer, LeaseRecord):
                answer = await backend.leases.acquire("job", new_holder(), 0.5)
    finally:
        await backend.close()
