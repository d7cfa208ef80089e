"""Who may come in, and what is refused, before any page is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler, ConfigError, every
from tenure.web import dashboard
from tenure.web.pages import audit
from tenure.web.security.attempts import ALLOWED
from tenure.web.security.guard import HEADERS, LARGEST_BODY
from tenure.web.security.sessions import COOKIE
from tenure.web.serving import check_bind, read_bind

TOKEN = "correct horse battery"


@contextmanager
def visit(
    *, peer: str = "127.0.0.1", host: str = "localhost", **guard: Any
) -> Iterator[TestClient]:
    app = dashboard(AsyncScheduler("memory://"), **guard)
    with TestClient(app, f"http://{host}", client=(peer, 50_000), follow_redirects=False) as client:
        yield client


def log_in(client: TestClient, token: str = TOKEN) -> int:
    return client.post("/login", data={"token": token}).status_code


def test_without_a_token_this_machine_sees_the_cluster() -> None:
    with visit() as client:
        page = client.get("/")
    assert page.status_code == 200
    assert "Nobody leads" in page.text
    assert "read-only" in page.text
    for name, value in HEADERS.items():
        assert page.headers[name] == value
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_without_a_token_other_machines_are_refused() -> None:
    with visit(peer="10.0.0.9") as client:
        assert client.get("/").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1@evil.example"]
)
def test_a_host_that_is_not_ours_is_refused(host: str) -> None:
    """DNS rebinding: a foreign name that points to our address."""
    with visit(token=TOKEN) as client:
        assert client.get("/", headers={"host": host}).status_code == 421


def test_stated_hosts_are_ours() -> None:
    with visit(host="tenure.example", hosts=["Tenure.example"]) as client:
        assert client.get("/").status_code == 200


def test_with_a_token_pages_lead_to_the_login_and_back() -> None:
    with visit(peer="10.0.0.9", token=TOKEN) as client:
        first = client.get("/?x=1")
        assert first.status_code == 303
        assert first.headers["location"] == "/login?then=%2F%3Fx%3D1"
        assert "Nobody leads" not in first.text
        done = client.post(first.headers["location"], data={"token": TOKEN})
        assert done.headers["location"] == "/?x=1"
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert client.get("/").status_code == 200


def test_a_link_cannot_send_people_elsewhere_after_the_login() -> None:
    with visit(token=TOKEN) as client:
        for then in ("https://evil.example/", "//evil.example", "/\\evil.example"):
            answer = client.post("/login", params={"then": then}, data={"token": TOKEN})
            assert answer.headers["location"] == "/"


def test_many_wrong_tokens_are_refused_and_keep_nobody_else_out() -> None:
    """Those who come by a proxy all have its address."""
    wrong, right = ({"authorization": f"Bearer {token}"} for token in ("no" * 20, TOKEN))
    with visit(token=TOKEN) as client:
        assert [log_in(client, f"wrong {n}") for n in range(ALLOWED)] == [403] * ALLOWED
        assert log_in(client, "wrong") == 429
        refused = client.get("/api/status", headers=wrong)
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many"
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert client.get("/api/status", headers=right).status_code == 200
        assert client.get("/").status_code == 303
        assert log_in(client) == 303
        assert client.get("/").status_code == 200


def test_a_cookie_that_was_kept_is_refused_after_logging_out() -> None:
    with visit(token=TOKEN) as client:
        log_in(client)
        kept = client.cookies[COOKIE]
        page = client.get("/").text
        proof = page.split('name="proof" value="')[1].split('"')[0]
        assert client.post("/logout", data={"proof": "guessed"}).status_code == 403
        assert client.get("/").status_code == 200
        assert client.post("/logout", data={"proof": proof}).status_code == 303
        client.cookies.set(COOKIE, kept)
        assert client.get("/").status_code == 303


@pytest.mark.parametrize("cookie", ["", ".", "a.b.c", "x.99999999999.0", "ä.1.é"])
def test_cookies_that_we_did_not_sign_are_refused(cookie: str) -> None:
    with visit(token=TOKEN) as client:
        sent = [(b"cookie", f"{COOKIE}={cookie}".encode())]
        assert client.get("/", headers=sent).status_code == 303


def test_programs_send_the_token_itself() -> None:
    with visit(token=TOKEN) as client:
        assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/", headers={"authorization": "Bearer no"}).status_code == 303
        refused = client.get("/api/status")
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"


def test_wrong_tokens_of_programs_are_counted_too() -> None:
    wrong = {"authorization": "Bearer no"}
    with visit(token=TOKEN) as client:
        for _ in range(ALLOWED):
            assert client.get("/api/status", headers=wrong).status_code == 401
        assert client.get("/api/status", headers=wrong).status_code == 429
        assert log_in(client, "wrong") == 429


@pytest.mark.parametrize(
    "header",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_pages_elsewhere_cannot_make_a_browser_change_something(header: dict[str, str]) -> None:
    with visit(allow_changes=True) as client:
        assert client.post("/do/pause", headers=header).status_code == 403


def test_nothing_is_changed_unless_that_was_enabled() -> None:
    with visit() as client:
        answer = client.post("/api/schedules")
        assert answer.status_code == 403
        assert "--allow-changes" in answer.json()["detail"]
        assert answer.json()["code"] == "read_only"


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("path", ["/login", "/do/pause", "/api/runs"])
def test_large_bodies_are_refused_also_without_a_length(path: str) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(10):
            yield b"x" * 1_000_000

    header = {"content-type": "application/json"} if path.startswith("/api") else FORM
    with visit(allow_changes=True) as client:
        whole = client.post(path, content=b"x" * (LARGEST_BODY + 1), headers=header)
        assert whole.status_code == 413
        assert client.post(path, content=parts(), headers=header).status_code == 413


def test_answer_to_a_defect_is_protected_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(audit, "page", broken)
    app = dashboard(AsyncScheduler("memory://"))
    with TestClient(
        app, "http://localhost", client=("127.0.0.1", 1), raise_server_exceptions=False
    ) as client:
        answer = client.get("/audit")
    assert answer.status_code == 500
    assert "a defect" not in answer.text
    for name, value in {**HEADERS, "cache-control": "no-store"}.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize(
    "guard", [{}, {"user_header": "X-User", "proxies": ["127.0.0.1"]}], ids=["open", "proxy"]
)
def test_form_of_one_process_is_known_to_another(guard: dict[str, Any]) -> None:
    """A server with several workers, none of which has a token."""
    scheduler = AsyncScheduler("memory://")
    one, other = (
        TestClient(
            dashboard(scheduler, allow_changes=True, **guard),
            "http://localhost",
            client=("127.0.0.1", 1),
            headers={"x-user": "ada"},
            follow_redirects=False,
        )
        for _ in range(2)
    )
    with one, other:
        scheduler.task(name="t")(print)
        asyncio.run(scheduler.add("digest", every(hours=1), task="t"))
        page = one.get("/schedule?name=digest")
        proof = page.text.split('name="proof" value="')[1].split('"')[0]
        form = {"proof": proof, "name": "digest", "then": "/"}
        assert other.post("/do/pause", data=form).status_code == 403  # it is another browser
        other.cookies = one.cookies
        done = other.post("/do/pause", data=form)
        assert done.status_code == 303
        assert "Paused digest." in one.get(done.headers["location"]).text


def test_a_proxy_is_believed_only_from_its_addresses() -> None:
    guard: dict[str, Any] = {"user_header": "X-User", "proxies": ["10.1.0.0/16"], "hosts": ["t"]}
    header = {"x-user": "ada"}
    with visit(peer="10.1.2.3", host="t", **guard) as client:
        assert client.get("/", headers=header).status_code == 200
        assert client.get("/").status_code == 401
    with visit(peer="10.2.0.1", host="t", **guard) as client:
        assert client.get("/", headers=header).status_code == 401


def test_mistakes_show_at_the_start() -> None:
    for wrong in ({"token": "short"}, {"user_header": "X-User"}, {"proxies": ["10.0.0.0/8"]}):
        with pytest.raises(ConfigError):
            dashboard(AsyncScheduler("memory://"), **wrong)
    with pytest.raises(ConfigError, match="token is needed"):
        check_bind("0.0.0.0", guarded=False)
    check_bind("0.0.0.0", guarded=True)
    assert read_bind("[::1]:90") == ("::1", 90)
    for nonsense in ("", "a:b", "x/y", "u@h:1", "h:99999"):
        with pytest.raises(ConfigError):
            read_bind(nonsense)
