"""The dashboard in a real browser, and under a rude one."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, expect
from starlette.testclient import TestClient

from tenure import AsyncScheduler
from tenure.web import dashboard
from tenure.web.client_timeouts import MOST_CONNECTIONS
from tests.e2e.command import PATIENCE, node, tenure, until
from tests.support.browser import chromium
from tests.support.dashboard import NAME, crawled, done, fill, filled
from tests.support.dashboard_cluster import WAIT, watched
from tests.support.servers import PostgresServer

APP = """
from tenure import Scheduler, every

scheduler = Scheduler("sqlite:///jobs.db", ttl=5)

@scheduler.task(every(seconds=1))
def sweep():
    pass
"""


FORM = (
    b"POST /login HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)
HALF_FORM = FORM + b"Content-Length: 50\r\n\r\ntoken="
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
TOKEN = "a token for this test"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_pages_show_what_was_stored_as_text_and_act_when_told(browser: Browser) -> None:
    with (
        filled(allow_changes=True) as (scheduler, address),
        watched(browser, address) as page,
    ):
        for link in ("Schedules", "Runs", "Forecast", "Leases", "Events", "Audit", "Cluster"):
            page.get_by_role("link", name=link, exact=True).click()
            expect(page.locator("h1")).to_be_visible()
            assert page.locator("main img").count() == 0
        # Three clicks from the first page to why it did not run.
        page.get_by_role("link", name="Schedules", exact=True).click()
        page.keyboard.press("/")
        page.keyboard.type("broken")
        page.keyboard.press("Enter")
        page.get_by_role("link", name=NAME).click()
        page.get_by_role("button", name="Change when").click()
        page.keyboard.type("every 10m")
        expect(page.get_by_role("dialog").locator("li")).to_have_count(10, timeout=WAIT)
        page.keyboard.press("Escape")
        page.locator("#past").get_by_role("link", name="1", exact=True).click()
        expect(page.locator(".reason")).to_contain_text("<img src=x onerror=")
        assert page.title() != "owned"

        page.get_by_role("button", name="Retry").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Run 1 again?")
        dialog.get_by_role("button", name="Leave it").click()
        assert done(scheduler.get_run(1)).state == "failed"
        page.get_by_role("button", name="Retry").click()
        dialog.get_by_role("button", name="Retry").click()
        expect(page.locator(".said")).to_have_text("Run 1 waits again.")
        assert done(scheduler.get_run(1)).state == "waiting"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database("rude")


def test_rude_clients_are_refused_and_do_not_harm_the_node_beside_it(
    url: str, tmp_path: Path
) -> None:
    """Slow ones, more of them than there may be, and large bodies: others are answered, and the
    node goes on firing in time."""
    (tmp_path / "app.py").write_text(APP.replace("sqlite:///jobs.db", url))
    with ExitStack() as stack:
        started = stack.enter_context(node(tmp_path, "app:scheduler", "--dashboard", "127.0.0.1:0"))
        found = re.search(r"dashboard +http://127.0.0.1:(\d+)/", started.log.read_text())
        assert found
        place = "127.0.0.1", int(found.group(1))
        slow = list[socket.socket]()
        for number in range(MOST_CONNECTIONS + 50):
            slow.append(stack.enter_context(socket.create_connection(place, PATIENCE)))
            slow[-1].sendall(HALF_HEAD if number % 2 else HALF_FORM)
        for large in (b"Content-Length: 10000000", b"Transfer-Encoding: chunked"):
            with socket.create_connection(place, PATIENCE) as client:
                client.sendall(FORM + large + b"\r\n\r\n")
                with suppress(OSError):  # it may hang up in between
                    for _ in range(10):
                        client.sendall(b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 413")
        asked = Request(f"http://127.0.0.1:{place[1]}/", headers={"Host": "localhost"})
        with urlopen(asked, timeout=PATIENCE) as answer:
            assert b" leads," in answer.read()

        def begun() -> list[dict[str, Any]]:
            told = tenure(tmp_path, "runs", "list", "--url", url, "--json").json
            return [run for run in told if run["claimed_at"]]

        already = len(begun())
        until(lambda: len(begun()) >= already + 3, "three more runs")
        for run in begun()[:3]:
            due, claimed = map(datetime.fromisoformat, (run["due"], run["claimed_at"]))
            assert (claimed - due).total_seconds() < 2
        # They are gone: the first had to make room, and the last were late.
        for client in slow if url.startswith("sqlite") else slow[:40]:
            with suppress(ConnectionResetError):
                assert client.recv(12) in (b"", b"HTTP/1.1 408")


def test_pages_are_the_same_on_postgresql(postgres: PostgresServer) -> None:
    scheduler = AsyncScheduler(postgres.create_database("dashboard"))
    done(fill(scheduler))
    app = dashboard(scheduler, allow_changes=True)
    with TestClient(app, "http://localhost", client=("127.0.0.1", 1)) as client:
        assert {"/run/1", "/run/2", "/lease?name=tenure%2Fleader"} <= crawled(client)
    done(scheduler.stop())


def test_login_asks_for_the_token_and_leads_on(browser: Browser) -> None:
    with (
        filled(token=TOKEN) as (_, address),
        watched(browser, f"{address}runs?state=failed", but="403") as page,
    ):
        page.get_by_label("Token").fill("not this one")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("That is not the token.")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#list")).to_contain_text("broken")
        expect(page.locator("#live")).to_contain_text("live", timeout=WAIT)
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Log in")


def test_what_would_be_open_to_the_world_does_not_start(tmp_path: Path) -> None:
    answer = tenure(tmp_path, "dashboard", "--bind", "0.0.0.0:0")
    assert answer.code == 2
    assert "--token-file" in answer.err
