"""URLs of Redis, taken apart in the same way by every Python."""

from __future__ import annotations

import pytest

from tenure.backends.redis import target
from tenure.backends.redis.urls import addresses, split
from tenure.backends.registry import keeps_schedules, parse, parse_leases
from tenure.errors import ConfigError
from tenure.process.clock import SystemClock

ODD = "p[ss]w{rd}|^℀%5B"
"""A password of characters over which versions of urlsplit disagree."""


def test_parts() -> None:
    parts = split("redis+sentinel://me:p@ss@a:1,[::1]:2/service/3?x=1@2&y=[z]")
    assert parts.scheme == "redis+sentinel"
    assert parts.credentials == "me:p@ss"
    assert parts.hosts == "a:1,[::1]:2"
    assert (parts.path, parts.query) == ("/service/3", "x=1@2&y=[z]")
    assert split("redis://h?client_name=a@b").hosts == "h"


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("", [("localhost", 7)]),
        ("Host", [("host", 7)]),
        ("h:", [("h", 7)]),
        (":1", [("localhost", 1)]),
        ("a:1,b,c:3", [("a", 1), ("b", 7), ("c", 3)]),
        ("a,[::1]:2,[fe80::1%eth0]", [("a", 7), ("::1", 2), ("fe80::1%eth0", 7)]),
    ],
)
def test_addresses(hosts: str, found: list[tuple[str, int]]) -> None:
    assert list(addresses(hosts, 7)) == found


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ("h:many", "a port in it is not a number"),
        ("h:65536", "a port in it is not a number"),
        ("h:-1", "a port in it is not a number"),
        ("h:²", "a port in it is not a number"),
        ("::1", "an IPv6 address needs brackets"),
        ("[::1", r"write \[::1\]:6379"),
        ("[::1]6379", r"write \[::1\]:6379"),
        ("[host]:1", "an IPv6 address in it is wrong"),
    ],
)
def test_what_is_no_address_is_refused(hosts: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        addresses(hosts, 7)


@pytest.mark.parametrize(
    ("scheme", "place"),
    [
        ("redis", "h/2"),
        ("redis", "[::1]:7"),
        ("redis+sentinel", "a:1,[::1]:26379/service"),
        ("rediss+cluster", "[::1]:7000,b"),
    ],
)
def test_redis_password_may_have_any_character_that_ends_nothing(scheme: str, place: str) -> None:
    url = f"{scheme}://me:{ODD}@{place}"
    assert not keeps_schedules(url)
    parsed = target.parse(url)
    assert parsed.options["username"] == "me"
    assert parsed.options["password"] == "p[ss]w{rd}|^℀["
    assert "{rd}" not in parsed.location


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://h:many/0", "a port in it is not a number"),
        ("redis+cluster://a,[::1/0", "an IPv6 address in it is wrong"),
        ("redis+cluster://::1:7000", "needs brackets"),
    ],
)
def test_redis_url_with_a_wrong_host_says_what_is_wrong(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be read: .*{why}"):
        target.parse(url)


def test_socket_file_of_redis_with_a_password() -> None:
    parsed = target.parse(f"unix://me:{ODD}@/run/redis[1].sock?db=2")
    assert parsed.location == "unix:///run/redis[1].sock"
    assert (parsed.options["username"], parsed.options["db"]) == ("me", 2)


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("redis://h", None),
        ("redis://h/", None),
        ("rediss://:pw@h/12", 12),
        ("redis://h/3/", 3),
        ("redis+sentinel://h/service", 0),
        ("redis+sentinel://h/service/4", 4),
        ("redis+cluster://h", None),
        ("redis+cluster://h/0", None),
    ],
)
def test_number_of_a_redis_database(url: str, database: int | None) -> None:
    parse_leases(url, "default", SystemClock())
    assert target.parse(url).options.get("db") == database


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@h/word",
        "redis://h/-1",
        "redis://h/0/1",
        "redis://h/1%20",
        "redis://h/²",
        "redis+sentinel://h/service/word",
        "redis+sentinel://h/service/1/2",
        "redis+cluster://h/1",
        "redis+cluster://h/word",
    ],
)
def test_redis_database_that_is_no_number_is_refused(url: str) -> None:
    """At once, where the URL is given, and where a backend is made without it being checked."""
    for read in (lambda: parse_leases(url, "default", SystemClock()), lambda: target.parse(url)):
        with pytest.raises(ConfigError, match=r"number|has only database 0") as refused:
            read()
        assert "secret" not in str(refused.value)
        assert "write redis" in str(refused.value).lower()


def test_unknown_lease_store_is_told_all_forms() -> None:
    for url in ("nonsense", "jobs.db", "carrier://pigeon"):
        with pytest.raises(ConfigError, match="redis://host:6379/0"):
            parse_leases(url, "default", SystemClock())
        with pytest.raises(ConfigError) as refused:
            parse(url, "default", SystemClock())
        assert "redis" not in str(refused.value), "Redis keeps no schedules"
