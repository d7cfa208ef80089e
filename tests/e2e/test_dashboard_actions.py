"""What pages do in a real browser: every action, live sections, a store in trouble, all widths."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from tenure.model import Result, RunState
from tenure.web.reading import Reader, Store
from tests.support.browser import chromium
from tests.support.dashboard import MARKUP, NAME, done, filled
from tests.support.dashboard_cluster import WAIT, watched

PHONE: ViewportSize = {"width": 390, "height": 844}
WIDTHS = (390, 1180, 3840)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATHS = (
    "",
    "schedules",
    "runs",
    "forecast",
    "leases",
    "events",
    "audit",
    "schedule?name=paused",
    "schedule?name=broken%20%3Cb%3E%26%27%22",
    "run/1",
    "run/2",
    "lease?name=tenure/leader",
    "occurrence?name=paused&at=2026-01-01T06:00",
    "bulk?action=pause",
    "login",
    "nothing/here",
    "api/",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def confirm(page: Page, button: str, said: str, reason: str = "") -> None:
    """Press it, agree, and see what came of it."""
    page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.get_by_role("dialog")
    if reason:
        dialog.get_by_label("Why").fill(reason)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(page.locator(".said")).to_have_text(said)


def test_every_action_is_asked_done_told_and_on_record(browser: Browser) -> None:
    with (
        filled(allow_changes=True) as (scheduler, address),
        watched(browser, f"{address}schedule?name=paused") as page,
    ):
        confirm(page, "Resume", "Resumed paused.")
        page.wait_for_url(f"{address}schedule?name=paused")
        page.reload()  # what was said is not said again
        expect(page.locator(".said")).to_have_count(0)
        assert done(scheduler.get("paused")).active
        confirm(page, "Pause", "Paused paused.", reason=f"stocktaking {MARKUP}")
        expect(page.locator("#head")).to_contain_text("stocktaking <img")
        assert not done(scheduler.get("paused")).active
        confirm(page, "Run now", "Asked to run: paused.")
        [run] = done(scheduler.runs("paused"))
        page.goto(f"{address}run/{run.id}")
        confirm(page, "Cancel run", f"Run {run.id} is cancelled.")
        expect(page.locator("h1 .badge")).to_have_text("cancelled")

        page.goto(f"{address}events")
        for place in ("#relays", "#parked"):  # trouble, and why it is parked
            expect(page.locator(place)).to_contain_text("<img src=x onerror=")
        confirm(page, "Send again", "The event is sent again to hook.")
        expect(page.locator("#parked")).to_be_hidden()

        page.goto(f"{address}schedules")
        for name in (NAME, "emits"):
            page.get_by_role("checkbox", name=name).check()
        page.get_by_role("button", name="Pause …").click()
        expect(page.locator("h1")).to_have_text("Pause: 2 schedules")
        assert done(scheduler.get("emits")).active
        page.get_by_label("Why").fill("both")
        page.get_by_role("button", name="Pause 2 schedules").click()
        expect(page.locator(".said")).to_have_text("Paused 2 schedules.")
        assert not any(schedule.active for schedule in done(scheduler.schedules()))

        page.goto(f"{address}lease?name=tenure/leader")
        confirm(page, "Evict", "Evicted the holder of tenure/leader; term 1 is over.", reason="old")
        page.get_by_role("link", name="Audit", exact=True).click()
        for action in ("resume schedule", "run now", "cancel run", "replay parked", "evict lease"):
            expect(page.locator("#list tr", has_text=action)).to_contain_text("done")
        expect(page.locator("#list tr", has_text="pause schedule")).to_have_count(3)
        assert page.locator("main img").count() == 0


def test_open_page_shows_why_its_run_failed_as_soon_as_it_does(browser: Browser) -> None:
    with (
        filled() as (scheduler, address),
        watched(browser, f"{address}run/2") as page,
    ):
        expect(page.locator("#live")).to_contain_text("live", timeout=WAIT)
        expect(page.locator(".reason")).to_contain_text("It waits.")
        expect(page.locator("#attempts")).to_be_hidden()
        page.evaluate("window.same = true")
        done(Reader(scheduler).ask(fail))
        expect(page.locator("#attempts")).to_contain_text("no such customer", timeout=WAIT)
        expect(page.locator("#head .badge")).to_have_text("failed")
        assert page.evaluate("window.same") is True


async def fail(store: Store) -> None:
    """As a node does."""
    [node] = [each for each in await store.leases.all("tenure/node/") if each.holder]
    [run] = (await store.runs.claim(node.holder or "", ["task"], 1)).runs
    error = "Traceback: …\nValueError: no such customer"
    failed = Result(run.id, run.claim, node.holder or "", RunState.FAILED, error, failed=True)
    await store.runs.claim(node.holder or "", [], 0, [failed])


def test_page_says_that_the_store_is_in_trouble_and_goes_on_after_it(
    browser: Browser, tmp_path: Path
) -> None:
    def rename(old: str, new: str) -> None:
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as file:
            file.execute(f"ALTER TABLE {old} RENAME TO {new}")

    with (
        filled(f"sqlite:///{tmp_path}/jobs.db") as (_, address),
        watched(browser, address, but="503") as page,
    ):
        expect(page.locator("#live")).to_contain_text("live", timeout=WAIT)
        rename("tenure_lease", "tenure_lease_away")
        expect(page.locator("#live")).to_have_text("stale", timeout=WAIT)
        expect(page.locator("#banner")).to_contain_text("What you see may be old.")
        expect(page.locator("#sentence h1")).to_contain_text("leads, term 1")
        rename("tenure_lease_away", "tenure_lease")
        expect(page.locator("#live")).to_have_text("live", timeout=WAIT)
        expect(page.locator("#banner")).to_be_hidden()


def test_click_counts_though_the_page_changes_between_press_and_release(browser: Browser) -> None:
    with (
        filled(allow_changes=True) as (_, address),
        watched(browser, address) as page,
        held_back(page) as (wait, let_go),
    ):
        page.goto(f"{address}events")
        wait()
        page.get_by_role("button", name="Send again", exact=True).hover()
        page.mouse.down()
        let_go()
        page.mouse.up()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_role("button", name="Leave it").click()
        expect(page.locator("#parked[data-was]")).to_be_visible()  # and now it is up to date
        expect(page.locator("#live")).to_have_text("live")


def test_dialogs_open_close_and_act_before_the_script_is_there(browser: Browser) -> None:
    with (
        filled(allow_changes=True) as (scheduler, address),
        watched(browser, f"{address}login", but="ERR_FAILED") as page,
    ):
        page.route("**/tenure.js", lambda route: route.abort())
        page.goto(f"{address}schedule?name=paused")
        for button in ("Resume", "Change when …", "Change policies …", "Backfill …"):
            page.get_by_role("button", name=button, exact=True).click()
            page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
            expect(page.get_by_role("dialog")).to_have_count(0)
        confirm(page, "Resume", "Resumed paused.")
        confirm(page, "Pause", "Paused paused.", reason="stocktaking")
        assert not done(scheduler.get("paused")).active


def test_text_that_is_marked_stays_so_and_the_page_says_what_waits_for_it(browser: Browser) -> None:
    with (
        filled() as (_, address),
        watched(browser, address) as page,
        held_back(page) as (wait, let_go),
    ):
        page.goto(f"{address}events")
        wait()
        page.evaluate("getSelection().selectAllChildren(document.getElementById('log'))")
        let_go()
        expect(page.locator("#live")).to_have_text("partly paused")
        assert page.locator("#groups[data-was]").count() == 1
        assert page.locator("#log[data-was]").count() == 0
        assert "DayEnded" in page.evaluate("getSelection().toString()")
        page.evaluate("getSelection().removeAllRanges()")
        expect(page.locator("#log[data-was]")).to_be_visible()
        expect(page.locator("#live")).to_have_text("live")


@contextmanager
def held_back(page: Page) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """What a page asks for, to replace its sections: wait until it does, and let it have that."""
    held = list[Route]()
    holds = True

    def hold(route: Route) -> None:
        if holds and "tenure-fragment" in route.request.headers:
            held.append(route)
        else:
            route.continue_()

    def wait() -> None:
        while not held:
            page.wait_for_timeout(10)

    def let_go() -> None:
        nonlocal holds
        holds = False
        with page.expect_response(lambda response: response.request == held[0].request) as done:
            held[0].continue_()
        done.value.finished()
        page.wait_for_timeout(100)  # for what the page does with it

    page.route("**/events", hold)
    yield wait, let_go


def test_past_and_future_open_at_now_on_a_phone(browser: Browser) -> None:
    with filled() as (scheduler, address), browser.new_context(viewport=PHONE) as context:
        now = datetime.now(UTC)
        assert done(scheduler.backfill("paused", now - timedelta(days=9), now))
        page = context.new_page()
        page.goto(f"{address}schedule?name=paused")
        expect(page.locator("#axis line.now")).to_be_in_viewport(timeout=WAIT)


def test_no_page_is_wider_than_the_window(browser: Browser) -> None:
    """On a phone, a laptop and a wall, by day and by night."""
    wide = list[str]()
    with filled(allow_changes=True) as (_, address), browser.new_context() as context:
        page = context.new_page()
        for path in PATHS:
            page.goto(address + path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    found = page.evaluate("document.documentElement.scrollWidth")
                    if found > width:
                        wide.append(f"{path} {scheme}: {found} instead of {width}")
    assert wide == []
