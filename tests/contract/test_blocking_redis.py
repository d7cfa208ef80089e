"""Plain blocking calls to Redis with TLS, behind Sentinel, as a cluster, by a client handed in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.asyncio import Redis as AsyncRedis
from redis.sentinel import Sentinel

from tenure import Leases, StoreError, StoreUnavailable
from tests.support.redis_servers import ClusterSetup, SentinelSetup, TlsFront
from tests.support.servers import ValkeyServer, free_port

LONG_UP = 5_000.0
"""A server that has just been started grants no locks yet: see ADR 14."""


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        server.start().age(LONG_UP)
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def sentinel() -> Iterator[SentinelSetup]:
    setup = SentinelSetup(clock=True)
    try:
        setup.start().master.age(LONG_UP)
        yield setup
    finally:
        setup.close()


def taken_and_given_back(where: str | object, *, blocking: bool = True) -> None:
    with Leases(where) as leases, Leases(where) as others:
        lease = leases.acquire("import", ttl=60)
        assert lease is not None
        assert lease._blocking is blocking
        assert others.acquire("import", ttl=60) is None
        assert lease.release()
        again = others.acquire("import", ttl=60)
        assert again is not None
        assert again.term > lease.term
        assert again.release()


def test_tls(server: ValkeyServer) -> None:
    with TlsFront(server.port) as front:
        taken_and_given_back(front.url(ssl_ca_certs=front.ca))


def test_a_certificate_that_is_not_accepted_is_said(server: ValkeyServer) -> None:
    refused = pytest.raises(StoreError, match="certificate of this Redis is not accepted")
    with TlsFront(server.port) as front, Leases(front.url()) as leases, refused:
        leases.acquire("import")


def test_sentinel(sentinel: SentinelSetup) -> None:
    taken_and_given_back(sentinel.url)


def test_a_cluster_goes_by_our_own_thread() -> None:
    setup = ClusterSetup(clock=True)
    try:
        setup.start()
        for node in setup.nodes:
            node.age(LONG_UP)
        taken_and_given_back(setup.url, blocking=False)
    finally:
        setup.close()


def test_a_blocking_client(server: ValkeyServer) -> None:
    with redis.Redis(port=server.port, db=1) as client:
        taken_and_given_back(client)
        assert client.ping()  # it is the application's still
        assert client.hget("tenure:{default}:lease:import", "holder") == b""


def test_a_client_of_a_sentinel(sentinel: SentinelSetup) -> None:
    host, port = "127.0.0.1", sentinel.sentinels[0].port
    asking: Any = Sentinel([(host, port)], socket_timeout=5)  # type: ignore[no-untyped-call]
    client = asking.master_for("tenure-test", db=1)
    try:
        taken_and_given_back(client)
    finally:
        client.close()


def test_a_client_of_a_loop(server: ValkeyServer) -> None:
    client = AsyncRedis(port=server.port, db=2)
    taken_and_given_back(client)
    asyncio.run(client.aclose())


def test_a_server_that_is_not_there_is_said() -> None:
    refused = pytest.raises(StoreUnavailable, match="Redis is not available")
    with Leases(f"redis://127.0.0.1:{free_port()}") as leases, refused:
        leases.acquire("import")


def test_a_server_that_goes_away_is_said() -> None:
    server = ValkeyServer(clock=True)
    try:
        server.start().age(LONG_UP)
        with Leases(server.url) as leases:
            lease = leases.acquire("import", ttl=60)
            assert lease is not None
            server.stop()
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="Redis is not available"):
                    leases.acquire("export", ttl=60)
            with pytest.raises(StoreUnavailable, match="Redis is not available"):
                lease.release()
            server.start()
            # It has forgotten everything, and grants nothing for one ttl: nobody may have both.
            assert leases.acquire("import", ttl=60) is None
    finally:
        server.close()
