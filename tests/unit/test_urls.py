"""URLs of stores, taken apart in the same way by every Python."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from tenure.backends.redis import target
from tenure.backends.urls import LIBPQ, addresses, scheme_of, split
from tenure.errors import ConfigError
from tenure.stores import is_redis_url, parse
from tenure.testing import FakeClock

ODD = "p[ss]w{rd}|^℀%5B"
"""A password of characters over which versions of urlsplit disagree."""


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("sqlite:///a.db", "sqlite"),
        ("PostgreSQL+psycopg://h/db", "postgresql+psycopg"),
        (" redis://h", "redis"),
        ("postgresql://a,[::1]:5433/db", "postgresql"),
        ("postgresql://u:p[ss@h/db", "postgresql"),
        ("jobs.db", ""),
        ("my jobs://x", ""),
        ("redis:6379", ""),
        ("", ""),
    ],
)
def test_scheme(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


def test_parts() -> None:
    parts = split("redis+sentinel://me:p@ss@a:1,[::1]:2/service/3?x=1@2&y=[z]")
    assert parts.scheme == "redis+sentinel"
    assert (parts.user, parts.credentials) == ("me", "me:p@ss")
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
        ("h:many", "'many' is not a port"),
        ("h:65536", "'65536' is not a port"),
        ("h:-1", "'-1' is not a port"),
        ("h:²", "is not a port"),
        ("::1", "An IPv6 address needs brackets"),
        ("[::1", r"not an address such as \[::1\]:6379"),
        ("[::1]6379", r"not an address such as \[::1\]:6379"),
        ("[host]:1", "host"),
    ],
)
def test_what_is_no_address_is_refused(hosts: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        addresses(hosts, 7)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@a:1,[::1]:5433/db",
        f"postgresql://me:{ODD}@a:1,[::1]:5433/db?sslmode=prefer",
        "postgresql://me:w?y#t@[::1]:5433/db",
        "postgresql://me:p/w@h/db",
        "postgresql://[::1]/db",
        "postgresql://me:secret@/db?host=/run/postgresql",
        "postgresql://a,b,c/db?target_session_attrs=read-write",
        "postgresql://",
    ],
)
def test_postgres_urls_are_read_as_libpq_reads_them(url: str) -> None:
    backend = parse(url, "default", FakeClock())()
    assert conninfo_to_dict(backend.location).items() <= conninfo_to_dict(url).items()
    found, parts = conninfo_to_dict(url), split(url, credentials_before=LIBPQ)
    assert parts.user == found.get("user", "")
    assert (":" in parts.credentials) == ("password" in found)
    assert parts.path.removeprefix("/") == found.get("dbname", "")


@pytest.mark.parametrize(
    ("scheme", "hosts"),
    [
        ("redis", "h"),
        ("redis", "[::1]:7"),
        ("redis+sentinel", "a:1,[::1]:26379"),
        ("rediss+cluster", "[::1]:7000,b"),
    ],
)
def test_redis_password_may_have_any_character_that_ends_nothing(scheme: str, hosts: str) -> None:
    url = f"{scheme}://me:{ODD}@{hosts}/service"
    assert is_redis_url(url)
    parsed = target.parse(url)
    assert parsed.options["username"] == "me"
    assert parsed.options["password"] == "p[ss]w{rd}|^℀["
    assert "{rd}" not in parsed.location


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://h:many/0", "'many' is not a port"),
        ("redis+cluster://a,[::1/0", "is not an address"),
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
