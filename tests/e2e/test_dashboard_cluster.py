"""The dashboard in a real browser, on three real nodes: one cluster and one browser for all."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from tests.e2e.command import PATIENCE, Node, at_hand
from tests.support.browser import chromium
from tests.support.dashboard_cluster import (
    FAILS,
    HURT,
    PAUSED,
    SLOW,
    URL,
    WAIT,
    Served,
    cluster,
    served,
    watched,
)

PAGES = ("Cluster", "Schedules", "Runs", "Forecast", "Leases", "Events", "Audit")
SCHEMES: dict[str, Any] = {
    "light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "dark": {"type": "rule", "values": ["color-contrast"]},
}


@dataclass
class Running:
    folder: Path
    nodes: list[Node]
    dashboard: Served
    browser: Browser


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        cluster(folder) as nodes,
        served(folder, "--bind", "127.0.0.1:0", "--allow-changes") as dashboard,
        chromium() as browser,
    ):
        yield Running(folder, nodes, dashboard, browser)


def to(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()


def stored(running: Running, name: str) -> Any:
    """On another thread: Playwright's own loop runs on this one."""
    with ThreadPoolExecutor(1) as thread:
        asked = ("schedules", "show", name, "--json", "--url", URL)
        return thread.submit(at_hand, running.folder, *asked).result(PATIENCE).json


def faults(page: Page, part: str = "html") -> list[str]:
    """What axe finds that is serious or critical: everything by day, and the colours by night."""
    found = list[str]()
    page.evaluate(AXE_SCRIPT)
    for scheme, only in SCHEMES.items():
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        asked = {"resultTypes": ["violations"], "elementRef": False, "runOnly": only}
        told = page.evaluate("([part, asked]) => axe.run(part, asked)", [part, asked])
        found += [
            f"{page.url} {scheme} {each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in told["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
    return found


def test_every_page_opens_without_a_complaint_for_everyone(running: Running) -> None:
    found = list[str]()
    with watched(running.browser, running.dashboard.address) as page:
        for name in PAGES:
            to(page, name)
            expect(page.locator("h1")).to_be_visible()
            found += faults(page)
        for path, title in (
            (f"/schedule?name={SLOW}", SLOW),
            ("/run/1", "Run 1 of"),
            ("/lease?name=tenure/leader", "tenure/leader"),
            (f"/occurrence?name={PAUSED}&at=2026-01-01T06:00", "at 2026-01-01 06:00"),
            ("/bulk?action=pause", "Pause: "),
            ("/login", "Log in"),
        ):
            page.goto(running.dashboard.address + path)
            expect(page.locator("h1")).to_contain_text(title)
            found += faults(page)
        page.goto(f"{running.dashboard.address}/api/")
        expect(page.locator("h1")).to_contain_text("HTTP API")
        found += faults(page, "section:nth-of-type(-n+3)")  # the others are made alike
        page.goto(f"{running.dashboard.address}/schedule?name={SLOW}")
        for button in ("Change when …", "Change policies …", "Backfill …"):
            page.get_by_role("button", name=button).click()
            found += faults(page, "dialog[open]")
            page.keyboard.press("Escape")
    assert found == []


def test_why_it_did_not_run_is_three_clicks_from_the_first_page(running: Running) -> None:
    with watched(running.browser, running.dashboard.address) as page:
        to(page, "Schedules")
        page.get_by_role("link", name=SLOW, exact=True).click()
        skipped = page.locator("#past tr", has_text="skipped").last
        skipped.locator("a").first.click()
        reason = page.locator(".reason")
        expect(reason).to_contain_text("It was skipped, because run ")
        expect(reason).to_contain_text(f"of {SLOW} was unfinished")
        expect(page.locator("h1 .badge")).to_have_text("skipped")
        # What was in the way is a link.
        reason.get_by_role("link", name="Run ").click()
        expect(page.locator("h1")).to_contain_text(f"of {SLOW}")
        expect(page.locator(".reason")).to_contain_text("has been executing it since")
        # And from a run to its occurrence.
        page.locator(".crumb a").last.click()
        expect(page.locator(".reason")).to_contain_text("It runs on ")


def test_what_tasks_and_people_have_written_is_text(running: Running) -> None:
    with watched(running.browser, f"{running.dashboard.address}/runs?state=failed") as page:
        page.locator("#list tbody th a").first.click()
        expect(page.locator(".reason")).to_contain_text(HURT)
        for place in ("#attempts", "main"):
            expect(page.locator(place)).to_contain_text(HURT)
        page.get_by_role("link", name=FAILS).click()
        expect(page.locator("#policy")).to_contain_text(HURT)
        for path in (f"schedule?name={PAUSED}", "schedules", "events"):
            page.goto(f"{running.dashboard.address}/{path}")
            expect(page.locator("main")).to_contain_text(HURT)
            assert page.locator("main img").count() == 0


def test_schedule_is_edited_after_it_was_shown_what_changes(running: Running) -> None:
    with watched(running.browser, f"{running.dashboard.address}/schedule?name={PAUSED}") as page:
        page.get_by_role("button", name="Change when …").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Trigger")).to_have_value("0 7 * * * tz=Europe/Berlin")
        expect(dialog.locator("li")).to_have_count(10)
        dialog.get_by_label("Trigger").fill("every 10x")
        expect(dialog.locator(".preview .bad")).to_be_visible()
        dialog.get_by_role("button", name="Leave it").click()
        page.get_by_role("button", name="Change policies …").click()
        dialog.get_by_label("Retries").fill("4")
        dialog.get_by_label("If its node dies").select_option("abandon")
        expect(dialog.locator(".preview ins")).to_have_count(2)
        dialog.get_by_role("button", name="Change", exact=True).click()
        expect(page.locator(".said")).to_contain_text("on_crash, retries")
        expect(page.locator("#policy")).to_contain_text("up to 4 times")
    told = stored(running, PAUSED)
    assert (told["retries"], told["on_crash"]) == (4, "abandon")


def test_form_of_another_page_changes_nothing(running: Running) -> None:
    """A page elsewhere that a person with a dashboard open looks at."""
    with running.browser.new_context() as context:
        page = context.new_page()
        page.set_content(
            f'<form method="post" action="{running.dashboard.address}/do/pause">'
            f'<input name="name" value="{SLOW}"><button>Win</button></form>'
        )
        with page.expect_response("**/do/pause") as answered:
            page.get_by_role("button").click()
        assert answered.value.status == 403
    assert stored(running, SLOW)["active"] is True


def test_page_shows_the_new_leader_and_its_own_connection_without_a_reload(
    running: Running,
) -> None:
    with watched(running.browser, running.dashboard.address) as page:
        sentence, rows = page.locator("#sentence h1"), page.locator("#nodes tbody tr")
        expect(sentence).to_contain_text("leads, term 1", timeout=WAIT)
        expect(rows).to_have_count(3, timeout=WAIT)
        page.evaluate("window.same = true")
        leader = next(node for node in running.nodes if f"pid {node.pid}" in sentence.inner_text())
        os.kill(leader.pid, signal.SIGKILL)
        leader.process.wait(timeout=PATIENCE)

        expect(sentence).to_contain_text("leads, term 2", timeout=WAIT)
        expect(rows).to_have_count(2, timeout=WAIT)
        assert str(leader.pid) not in sentence.inner_text()
        assert page.evaluate("window.same") is True


def test_page_says_that_it_is_offline_and_goes_on_when_it_is_back(running: Running) -> None:
    port = running.dashboard.address.rpartition(":")[2]
    with running.browser.new_context() as context:
        page = context.new_page()
        page.goto(running.dashboard.address)
        expect(page.locator("#live")).to_contain_text("live", timeout=WAIT)
        running.dashboard.end()
        expect(page.locator("#banner")).to_contain_text("No connection since", timeout=WAIT)
        with served(running.folder, "--bind", f"127.0.0.1:{port}"):
            expect(page.locator("#live")).to_contain_text("live", timeout=WAIT)
            expect(page.locator("#banner")).to_be_hidden(timeout=WAIT)
