"""The HTTP API as HTTP: who may write, what a request may be, and how errors look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import AsyncScheduler, Leases
from tests.e2e.http_api import Api, application, named, serving


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('api') / 'tenure.db'}"


@pytest.fixture(scope="module")
def api(url: str) -> Iterator[Api]:
    with serving(url, actor="ann", may_write=True) as served:
        yield served


@pytest.mark.parametrize("state", [{}, {"actor": "ann"}, {"actor": "ann", "may_write": False}])
def test_nobody_writes_unless_security_says_so(url: str, state: dict[str, object]) -> None:
    with serving(url, **state) as api:
        api.get("/schedules")
        for method, path in (
            ("POST", "/schedules"),
            ("PUT", "/schedules/a"),
            ("PATCH", "/schedules/a"),
            ("DELETE", "/schedules/a"),
            ("POST", "/schedules/a/run-now"),
            ("POST", "/runs"),
            ("POST", "/runs/1/cancel"),
            ("POST", "/leases/a/evict"),
        ):
            api.refused(403, method, path, "read_only", json={"trigger": "every 1s", "task": "x"})
        assert api.get("/schedules")["items"] == []


def test_lease_is_evicted_by_who_has_seen_its_term(api: Api, url: str) -> None:
    with Leases(url) as leases:
        leases.acquire("nightly/import", ttl=60)
        path = named("leases", "nightly/import")
        held = api.get(path)
        assert (held["state"], held["holder"] is not None) == ("live", True)
        api.refused(428, "POST", f"{path}/evict")
        api.refused(412, "POST", f"{path}/evict", "stale", headers={"if-match": '"99"'})
        tag = api.etag(path)
        assert tag == f'"{held["term"]}"'
        free = api.post(f"{path}/evict", {"reason": "host is gone"}, if_match=tag)
        assert (free["state"], free["holder"]) == ("free", None)
        api.refused(409, "POST", f"{path}/evict", "free", headers={"if-match": "*"})
        [line, *_] = api.get(f"{path}/history")["items"]
        assert line["end"] == "evicted by ann: host is gone"
        assert api.get("/history", limit=1)["items"] == [line]
    listed = api.get("/leases", prefix="nightly/", limit=1)
    assert [each["name"] for each in listed["items"]] == ["nightly/import"]
    api.refused(404, "GET", "/leases/nightly/import")
    api.refused(404, "GET", "/leases/none")
    api.refused(404, "GET", "/leases/none/history")


def test_other_methods_and_paths_are_problems(api: Api) -> None:
    told = api.refused(405, "DELETE", "/status", "method")
    assert told["headers"]["allow"] == "GET, HEAD"
    told = api.refused(405, "POST", "/schedules/a")
    assert told["headers"]["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    api.refused(405, "POST", "/openapi.json")
    for path in ("/nothing", "/schedules/", "/schedules/a/b/c", "//", "/runs//log"):
        api.refused(404, "GET", path, "not_found")
    assert api.ask("HEAD", "/status").content == b""
    assert api.ask("HEAD", "/status").status_code == 200
    assert api.ask("HEAD", "/schedules/none").status_code == 404


def test_body_has_a_type_a_size_and_known_fields(api: Api) -> None:
    new = {"name": "x", "trigger": "every 1h", "task": "report"}
    for media_type in ("text/plain", "application/xml", "multipart/form-data", ""):
        headers = {"content-type": media_type}
        api.refused(415, "POST", "/schedules", content=json.dumps(new), headers=headers)
    large = new | {"kwargs": {"x": "y" * 330_000}}
    api.refused(413, "POST", "/schedules", "too_large", json=large)

    def pieces() -> Iterator[bytes]:
        for _ in range(330):
            yield b"x" * 1_000

    headers = {"content-type": "application/json"}
    api.refused(413, "POST", "/schedules", content=pieces(), headers=headers)
    for text in ("", "{", "[]", "null", "\xff", '{"name": "\\ud800"}', "[" * 100_000, "NaN"):
        content = text.encode("latin-1")
        api.refused(422, "POST", "/schedules", content=content, headers=headers)
    for wrong in (
        {"unknown": 1},
        {"name": ""},
        {"name": 7},
        {"name": "a\nb"},
        {"trigger": "whenever"},
        {"trigger": {"type": "no such"}},
        {"task": None},
        {"retries": -1},
        {"retries": 10**30},
        {"timeout": "soon"},
        {"catch_up": "sometimes"},
        {"tenant": "a\0b"},
        {"kwargs": {"x": "y" * 270_000}},
        {"emit": {"topic": "t"}},
    ):
        api.refused(422, "POST", "/schedules", "invalid", json=new | wrong)
    api.refused(404, "GET", "/schedules/x")


def test_query_has_known_parameters_once_and_of_their_types(api: Api) -> None:
    for query in (
        "tennant=a",
        "limit=0",
        "limit=501",
        "limit=1e2",
        "limit=5&limit=6",
        "ended=yes",
        "ended=1",
        "state=asleep",
        "tenant=",
        "tenant=a%00b",
    ):
        api.refused(422, "GET", f"/schedules?{query}", "invalid")
    api.refused(422, "GET", "/status?x=1")
    api.refused(422, "GET", "/schedules/a%00b")
    api.refused(422, "GET", "/schedules/%ff")


def test_store_that_does_not_answer_is_a_503_without_its_address(tmp_path: Path) -> None:
    scheduler = AsyncScheduler("postgresql://nobody:hunter2@127.0.0.1:1/secret_database")
    try:
        api = Api(application(scheduler, actor="ann", may_write=True))
        told = api.refused(503, "GET", "/status", "store_unavailable")
        assert int(told["headers"]["retry-after"]) > 0
        whole = json.dumps(told | {"headers": dict(told["headers"])})
        for secret in ("hunter2", "nobody", "127.0.0.1", "secret_database"):
            assert secret not in whole
    finally:
        asyncio.run(scheduler.stop())
    newer = AsyncScheduler(f"sqlite:///{tmp_path / 'absent.db'}", migrate=False)
    try:
        told = Api(application(newer)).refused(503, "GET", "/status", "store_unavailable")
        assert str(tmp_path) not in json.dumps(told | {"headers": dict(told["headers"])})
        assert not (tmp_path / "absent.db").exists()
    finally:
        asyncio.run(newer.stop())


def test_page_and_description_are_served_and_need_no_store() -> None:
    scheduler = AsyncScheduler("postgresql://nobody@127.0.0.1:1/none")
    api = Api(application(scheduler))
    page = api.ask("GET", "/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in page.text
    assert "<style" not in page.text
    assert "style=" not in page.text
    assert "POST /schedules/{name}/backfill" in page.text
    told = api.ask("GET", "/openapi.json").json()
    assert (told["openapi"], told["servers"]) == ("3.1.0", [{"url": "/api"}])
    assert api.client.get("/api", follow_redirects=False).headers["location"].endswith("/api/")
