"""URLs as they are shown, refused and repeated."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tenure import Leases, Scheduler
from tenure.backends.postgres import PostgresBackend
from tenure.backends.registry import resolve
from tenure.backends.urls import (
    check_server,
    is_public,
    of_sqlite,
    scheme_of,
    shown,
    sqlite_path,
    without_passwords,
)
from tenure.cli.output import print_json
from tenure.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://app:pw@db.example:5433/app", "postgresql://app@db.example:5433/app"),
        ("postgresql+psycopg2://app:pw@db/app", "postgresql://app@db/app"),
        ("postgresql://app:p#w@db/app?sslmode=require", "postgresql://app@db/app"),
        ("postgresql://a,b:5433,[::1]:5/app", "postgresql://a,b:5433,[::1]:5/app"),
        ("postgresql:///app?host=/run/postgresql", "postgresql:///app"),
        ("postgresql://app:p/w@db/app", "postgresql://…"),
        ("postgresql://app:p@w@db/app", "postgresql://…"),
        ("postgresql://db/app?password=p@w", "postgresql://…"),
        ("redis://app:pw@cache/0", "redis://cache/0"),
        ("redis://token@cache/0", "redis://cache/0"),
        ("rediss+sentinel://:pw@a,b:1/service", "rediss+sentinel://a,b:1/service"),
        ("sqlite:///jobs db.db?key=pw", "sqlite:///jobs db.db"),
        ("sqlite:///app:pw@db/app", "sqlite://…"),
        ("sqlite:///C:/data/a@b.db", "sqlite:///C:/data/a@b.db"),
        ("host=db password=pw", "…"),
        ("hunter2://host", "…"),
        ("https://token@example.org/x", "https://example.org/x"),
    ],
)
def test_url_for_people(url: str, seen: str) -> None:
    assert shown(url) == seen


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("sqlite:///a.db", "sqlite"),
        ("PostgreSQL+psycopg://h/db", "postgresql"),
        ("postgresql://a,[::1]:5433/db", "postgresql"),
        ("redis+sentinel://a:1,[::1]:26379/service", "redis"),
        ("jobs.db", ""),
        ("my jobs://x", ""),
        ("S3://bucket", "s3"),
        ("3s://bucket", ""),
        ("redis:6379", ""),
        ("", ""),
    ],
)
def test_scheme(url: str, scheme: str) -> None:
    assert scheme_of(url) == scheme


def test_blanks_around_a_url_are_of_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", " postgresql://db/app\n")
    assert resolve(None) == "postgresql://db/app"


def test_what_may_stand_in_a_command() -> None:
    public = ("postgresql://app@db/app?sslmode=require", "redis://cache/0", "sqlite:///x.db")
    assert all(map(is_public, public))
    for url in (
        "postgresql://app:pw@db/app",
        "postgresql://app:@db/app",
        "postgresql://db/app?password=pw",
        "postgresql://db/app?sslmode=require&something=new",
        "redis://token@cache/0",
        "sqlite:///x.db?key=pw",
        "nonsense",
    ):
        assert not is_public(url), url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///app",
        "postgresql://:5433/app",
        "postgresql://app:a:b#c%20d@db/app",
        "postgresql://%2Frun%2Fpostgresql/app",
        "postgresql://app@a:1,b:2/app?target_session_attrs=read-write&options=-c%20x%3D1",
        "postgresql://app:p[s]w{r}|^@a:1,[::1]:5433/app",
        "redis://:p@w@cache:6379/0",
        "redis://me:p[s]w{r}|^@[::1]:7/0",
        "redis+sentinel://me:p%40@a,b:2/service?ssl_ca_certs=/ca.pem",
        "unix://:pw@/run/redis.sock?db=1",
    ],
)
def test_url_that_a_driver_understands_is_not_refused(url: str) -> None:
    check_server(url)


@pytest.mark.parametrize("url", ["memory://?x=1", "memory://name", "memory:///tenure.db"])
def test_memory_takes_no_parameters(url: str) -> None:
    for made in (Scheduler, Leases):
        with pytest.raises(ConfigError, match="nothing after its slashes"):
            made(url)


def test_password_that_sqlalchemy_has_hidden() -> None:
    url = make_url("postgresql+psycopg://app:pw@db/app")
    with pytest.raises(ConfigError, match="hide_password=False"):
        Scheduler(str(url))
    Scheduler(url.render_as_string(hide_password=False))


def test_file_comes_back_from_its_url() -> None:
    for name in ("/a b/50% off?.db", "/x#y.db", "/new\nline.db", "/ü.db", "/\udcff.db"):
        url = of_sqlite(Path(name))
        assert url.isprintable()
        if "\udcff" not in name:
            assert sqlite_path(url) == Path(name)


def test_urls_in_a_text_lose_their_passwords() -> None:
    code = "scheduler = Scheduler('postgresql://app:p w/x@db/app', ttl=5)"
    assert without_passwords(code) == "scheduler = Scheduler('postgresql://…', ttl=5)"
    assert without_passwords("see https://example.org/x") == "see https://example.org/x"


# -- names that a store would misunderstand -------------------------------------------------------


@pytest.mark.parametrize("namespace", ["a}b", "{a}", "a{", "}"])
def test_namespace_with_braces_is_refused_for_redis(namespace: str) -> None:
    """Else {a}:lease:x of one namespace could be a key of another, or of another slot."""
    with pytest.raises(ConfigError, match="has braces"):
        Leases("redis://cache", namespace=namespace)
    with pytest.raises(ConfigError, match="has braces"):
        Scheduler("memory://", leases="redis+cluster://a", namespace=namespace)
    Leases("sqlite:///x.db", namespace=namespace)


@pytest.mark.parametrize("namespace", ["", "\n", "a\x1b", "x" * 101, None, 5, b"x"])
def test_namespace_is_a_short_printable_text(namespace: str) -> None:
    for url in ("memory://", "sqlite:///x.db", "postgresql://db/app"):
        with pytest.raises(ConfigError, match="1 to 100 printable characters"):
            Scheduler(url, namespace=namespace)


@pytest.mark.parametrize("schema", ['te"nure', "te'nure", "a b", "", "x" * 64, "1a", "a%sb", "a\0"])
def test_schema_with_quotes_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="is not a name that Tenure uses for a schema"):
        PostgresBackend("postgresql://db/app", schema=schema)


# -- JSON -----------------------------------------------------------------------------------------


def test_json_is_json_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    nested: list[object] = []
    for _ in range(10_000):
        nested = [nested]
    print_json(
        {
            "nan": math.nan,
            "infinite": [math.inf, -math.inf],
            "bytes": b"\xff",
            "text": "ü\x1b\x9b\u202e\U000e0001\ud800\x7f",
            "nested": nested,
            7: 1.5,
        }
    )
    out = capsys.readouterr().out

    def refused(constant: str) -> object:
        raise AssertionError(constant)

    found = json.loads(out, parse_constant=refused)
    assert found["nan"] is None
    assert found["infinite"] == [None, None]
    assert found["text"] == "ü\x1b\x9b\u202e\U000e0001\ud800\x7f"
    assert found["7"] == 1.5
    assert "ü" in out
    assert all(c.isprintable() or c == "\n" for c in out)
