"""Every page, with a store that has something of everything, and with an empty one."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from functools import partial
from html import unescape

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler
from tenure.model import PENDING, Fence, Result, RunState
from tenure.process.identity import new_holder
from tenure.web import dashboard
from tenure.web.pages import leases
from tenure.web.reading import Reader, Store
from tests.support.dashboard import NAME, crawled, fill, links

PAGES = ["/", "/schedules", "/runs", "/forecast", "/leases", "/events", "/audit"]


@pytest.fixture
def scheduler() -> Iterator[AsyncScheduler]:
    made = AsyncScheduler("memory://")
    asyncio.run(fill(made))
    yield made
    asyncio.run(made.stop())


@pytest.fixture
def client(scheduler: AsyncScheduler) -> Iterator[TestClient]:
    app = dashboard(scheduler, allow_changes=True)
    with TestClient(
        app, "http://localhost", client=("127.0.0.1", 1), follow_redirects=False
    ) as made:
        yield made


def proof(client: TestClient, page: str = "/bulk?action=run-now") -> str:
    found = re.search(r'name="proof" value="([0-9a-f]+)"', client.get(page).text)
    assert found
    return found.group(1)


def test_every_page_that_a_page_links_to_is_there(client: TestClient) -> None:
    seen = crawled(client)
    assert len([link for link in seen if link.startswith("/schedule?")]) == 3
    assert {"/run/1", "/run/2", "/lease?name=tenure%2Fleader"} <= seen


@pytest.mark.parametrize("path", PAGES)
def test_pages_of_an_empty_store_say_what_to_do(path: str) -> None:
    app = dashboard(AsyncScheduler("memory://"))
    with TestClient(app, "http://localhost", client=("127.0.0.1", 1)) as client:
        answer = client.get(path)
    assert answer.status_code == 200
    assert 'class="empty"' in answer.text


def test_reason_stands_at_the_top(client: TestClient) -> None:
    failed = client.get("/run/1").text
    assert failed.index('class="reason bad"') < failed.index("What happened")
    assert "It waits. " in client.get("/run/2").text


def test_what_an_open_page_fetches_is_its_content_alone(client: TestClient) -> None:
    part = client.get("/runs", headers={"tenure-fragment": "1"}).text
    assert "<html" not in part
    assert 'id="list"' in part


def test_sections_that_may_appear_have_their_place_in_an_open_page(client: TestClient) -> None:
    """The module replaces sections that are there."""

    def sections(path: str) -> list[str]:
        return re.findall(
            r'<section(?: class="hero")? id="([a-z]+)" data-live', client.get(path).text
        )

    assert sections("/run/1") == sections("/run/2")
    assert {"hangs", "attempts", "result"} <= set(sections("/run/2"))
    assert "parked" in sections("/events")
    assert {"bucket", "often"} <= set(sections("/forecast"))


def test_leases_are_found_and_listed_in_portions(
    client: TestClient, scheduler: AsyncScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SHOWN", 2)
    for name in ("import/1", "import/2", "import/3"):
        asyncio.run(Reader(scheduler).ask(partial(taken, name)))
    first = client.get("/leases?q=import").text
    assert "import/2</a>" in first
    assert "import/3" not in first
    [further] = [link for link in links(first) if "after=" in link]
    assert "import/3</a>" in client.get(further).text
    assert "No lease begins so" in client.get("/leases?q=nothing").text
    listed = client.get("/api/leases?prefix=import&limit=2").json()
    assert [each["name"] for each in listed["items"]] == ["import/1", "import/2"]
    rest = client.get("/api/leases", params={"prefix": "import", "cursor": listed["next"]}).json()
    assert [each["name"] for each in rest["items"]] == ["import/3"]
    assert rest["next"] is None


async def taken(name: str, store: Store) -> None:
    await store.leases.acquire(name, new_holder(), 15.0)


def summarise(scheduler: AsyncScheduler) -> None:
    """Add what has ended to the summaries, as a leader does."""

    async def work(store: Store) -> None:
        fence = Fence("test", 1, "ann")
        assert await store.backend.office.take(fence) == fence
        await store.summaries.advance(fence, 100, 0.0)

    asyncio.run(Reader(scheduler).ask(work))


def test_search_is_in_the_address(client: TestClient, scheduler: AsyncScheduler) -> None:
    summarise(scheduler)
    assert "paused" not in client.get("/schedules?q=BROKEN").text.partition("<tbody>")[2]
    assert "emits" not in client.get("/schedules?facet=paused").text.partition("<tbody>")[2]
    assert "broken" in client.get("/schedules?facet=failing&tenant=acme").text
    assert "No schedule matches" in client.get("/schedules?q=nothing%20like%20it").text


def test_actions_change_the_store_and_say_who(
    client: TestClient, scheduler: AsyncScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    sent = {"proof": proof(client), "name": NAME, "then": "/schedules", "reason": "stocktaking"}
    with caplog.at_level(logging.INFO, "tenure.web.audit"):
        answer = client.post("/do/pause", data=sent)
    assert answer.status_code == 303
    assert f"Paused {NAME}." in unescape(client.get(answer.headers["location"]).text)
    assert "Send money" not in client.get("/?said=Send%20money&mark=0").text
    paused = asyncio.run(scheduler.get(NAME))
    assert paused.reason == "paused: stocktaking (by local user from 127.0.0.1, dashboard)"
    assert 'action=pause by="local user from 127.0.0.1"' in caplog.text

    client.post("/do/resume", data=sent)
    assert asyncio.run(scheduler.get(NAME)).active
    for _ in range(2):
        client.post("/do/run-now", data={**sent, "name": "paused", "key": "k"})
    assert len(asyncio.run(scheduler.runs("paused"))) == 1
    client.post("/do/retry", data={**sent, "run": "1"})
    assert asyncio.run(scheduler.get_run(1)).state == "waiting"
    client.post("/do/cancel", data={**sent, "run": "1"})
    assert asyncio.run(scheduler.get_run(1)).state == "cancelled"
    stale = client.post("/do/evict", data={**sent, "name": "tenure/leader", "term": "7"})
    assert stale.status_code == 409
    client.post("/do/evict", data={**sent, "name": "tenure/leader", "term": "1"})
    assert "Nobody leads" in client.get("/").text


def test_change_is_shown_before_it_is_made(client: TestClient, scheduler: AsyncScheduler) -> None:
    shown = client.get("/preview/trigger", params={"trigger": "0 7 * * * tz=Europe/Berlin"}).text
    assert shown.count("<li>") == 10
    assert 'class="bad"' in client.get("/preview/trigger?trigger=whenever").text
    sent = {"proof": proof(client), "then": "/", "name": NAME, "trigger": "every 10m"}
    assert client.post("/do/change", data={**sent, "version": "99"}).status_code == 409
    assert client.post("/do/change", data={**sent, "version": "1"}).status_code == 303
    assert str(asyncio.run(scheduler.get(NAME)).trigger) == "every 10 minutes"
    policy = {**sent, "version": "2", "retries": "4"}
    assert client.post("/do/policies", data=policy).status_code == 303
    edits = unescape(client.get("/schedule", params={"name": NAME}).text).partition(">Edits<")[2]
    assert "trigger: every hour → every 10 minutes" in edits
    assert "retries: 0 → 4" in edits

    asked = {"name": "paused", "start": "2026-01-01T00:00", "end": "2026-01-03T00:00"}
    before = client.get("/preview/backfill", params=asked).text
    assert before.count("<li>") == 2, before
    made = client.post("/do/backfill", data={**sent, **asked})
    assert "Fired+2+occurrences" in made.headers["location"]
    assert "Nothing in this stretch" in client.get("/preview/backfill", params=asked).text


def test_result_that_is_not_known_yet_says_so(
    client: TestClient, scheduler: AsyncScheduler
) -> None:
    """Between the commit of `run.complete` and the end of the function."""

    async def end() -> int:
        backend = await scheduler._runtime.backend()

        async def work() -> int:
            [run] = (await backend.runs.claim("node", ["task"], 1)).runs
            done = Result(run.id, run.claim, "node", RunState.SUCCEEDED, value=PENDING)
            await backend.runs.claim("node", [], 0, [done])
            return run.id

        return await scheduler._call(work())

    shown = client.get(f"/run/{asyncio.run(end())}").text
    assert "Not known yet" in shown
    assert '<pre tabindex="0">?' not in shown


def test_forms_that_are_not_ours_change_nothing(
    client: TestClient, scheduler: AsyncScheduler
) -> None:
    for wrong in ({}, {"proof": "0" * 64}):
        answer = client.post("/do/pause", data={"name": NAME, **wrong})
        assert answer.status_code == 403
    plain = client.post("/do/pause", content=b"x", headers={"content-type": "text/plain"})
    assert plain.status_code == 415
    assert asyncio.run(scheduler.get(NAME)).active


def test_api_is_behind_the_same_guard(client: TestClient, scheduler: AsyncScheduler) -> None:
    assert client.get("/api/status").json()["namespace"] == "default"
    change, match = "/api/schedules/emits/pause", {"if-match": "*"}
    foreign = client.post(change, headers={**match, "origin": "https://evil.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "elsewhere")
    # A browser tells where a request comes from, and has to show that it comes from a page of ours.
    browser = {**match, "origin": "http://localhost", "sec-fetch-site": "same-origin"}
    unproven = client.post(change, headers=browser)
    assert (unproven.status_code, unproven.json()["code"]) == (403, "csrf")
    assert asyncio.run(scheduler.get("emits")).active
    ours = {**browser, "x-csrf-token": proof(client)}
    assert client.post(change, headers=ours).status_code == 200
    assert not asyncio.run(scheduler.get("emits")).active
    client.cookies.clear()  # a program
    assert client.post("/api/schedules/emits/resume", headers=match).status_code == 200


def test_mounted_into_another_application_its_links_lead_there(scheduler: AsyncScheduler) -> None:
    from fastapi import FastAPI

    app = FastAPI()
    app.mount("/tenure", dashboard(scheduler))
    with TestClient(app, "http://localhost", client=("127.0.0.1", 1)) as client:
        page = client.get("/tenure/")
        assert page.status_code == 200
        inside = {link for link in links(page.text) if not link.startswith("/static")}
        assert inside
        assert all(link.startswith("/tenure/") for link in inside)
        for link in inside:
            assert client.get(link).status_code == 200, link


@pytest.mark.parametrize(
    ("start", "end"), [("0001-01-01", "9999-12-31"), ("0001-01-01T00:00Z", "2026-01-01")]
)
def test_backfill_from_the_edge_of_the_calendar_is_no_defect(
    client: TestClient, start: str, end: str
) -> None:
    asked = {"name": NAME, "start": start, "end": end}
    assert client.get("/preview/backfill", params=asked).status_code == 200


def test_facets_have_counts_and_schedules_their_lateness(
    client: TestClient, scheduler: AsyncScheduler
) -> None:
    before = client.get("/schedules").text
    assert 'Failing <span class="number">0</span>' in before
    summarise(scheduler)
    after = client.get("/schedules").text
    assert 'Failing <span class="number">1</span>' in after
    assert 'All <span class="number">3</span>' in after
    assert re.search(r'data-name="Late, p95" class="nobreak">≤ ', after)


def test_changes_are_on_record_with_who_and_from_where(client: TestClient) -> None:
    sent = {"proof": proof(client), "name": NAME, "then": "/schedules", "reason": "stocktaking"}
    client.post("/do/pause", data=sent)
    client.post("/do/cancel", data={"proof": sent["proof"], "run": "999"})
    shown = unescape(client.get("/audit").text)
    assert "pause schedule" in shown
    assert NAME in shown
    assert "reason=stocktaking" in shown
    refused, done = client.get("/api/audit").json()["items"]
    assert (done["actor"], done["place"], done["via"]) == ("local user", "127.0.0.1", "dashboard")
    assert (done["action"], done["outcome"]) == ("pause schedule", "done")
    assert (refused["action"], refused["subject"]) == ("cancel run", "999")
    assert refused["outcome"].startswith("refused: ")


def test_api_puts_changes_on_record_without_their_arguments(client: TestClient) -> None:
    body = {"task": "report", "kwargs": {"password": "hunter2"}, "priority": 3}
    assert client.post("/api/runs", json=body).status_code == 201
    assert client.post("/api/runs/999/cancel").status_code == 404
    first = client.get("/api/audit?limit=1").json()
    [refused] = first["items"]
    [asked] = client.get("/api/audit", params={"cursor": first["next"]}).json()["items"]
    assert (asked["via"], asked["action"], asked["subject"]) == ("api", "enqueue", "report")
    assert "priority=3" in asked["detail"]
    assert "kwargs" in asked["detail"]
    assert "hunter2" not in client.get("/audit").text + client.get("/api/audit").text
    assert (refused["action"], refused["subject"]) == ("cancel run", "999")
    assert refused["outcome"].startswith("refused: ")


def test_edits_are_on_record_from_what_to_what_whichever_way_they_came(client: TestClient) -> None:
    """By the HTTP API, with and without If-Match that says what was read, and by a form."""
    body = {"task": "report", "trigger": "every 1h", "kwargs": {"password": "hunter2"}}
    assert client.put("/api/schedules/digest", json=body).status_code == 201
    edits: list[tuple[str, dict[str, object], str]] = [
        ("PATCH", {"retries": 3, "overlap": "queue"}, '"1"'),
        ("PUT", {**body, "trigger": "every 2h", "kwargs": {"password": "hunter3"}}, "*"),
        ("PATCH", {"retries": 4}, '"1"'),
        ("PATCH", {"retries": 0}, "*"),
    ]
    for method, sent, tag in edits:
        client.request(method, "/api/schedules/digest", json=sent, headers={"if-match": tag})
    form = {"proof": proof(client), "name": "digest", "version": "4", "then": "/"}
    client.post("/do/change", data={**form, "trigger": "every 5m"})
    client.post("/do/policies", data={**form, "version": "5", "timeout": "90"})
    lines = client.get("/api/audit", params={"subject": "digest"}).json()["items"][::-1]
    replaced = "trigger: every hour → every 2 hours; overlap: queue → skip"
    assert [line["detail"] for line in lines] == [
        'trigger="every 1h" task=report kwargs',
        "overlap: skip → queue; retries: 0 → 3",
        f"{replaced}; retries: 3 → 0; other arguments",
        "retries=4",
        "nothing differs",
        "trigger: every 2 hours → every 5 minutes",
        "timeout: none → 90",
    ]
    assert [line["outcome"] == "done" for line in lines] == [True, True, True, False, *[True] * 3]
    shown = client.get("/audit", params={"of": "digest"}).text
    assert "hunter" not in shown + str(lines)
    page = unescape(client.get("/schedule?name=digest").text)
    assert "trigger: every 2 hours → every 5 minutes · by local user, dashboard from" in page


def test_audit_finds_the_lines_about_something_and_links_it(client: TestClient) -> None:
    sent = {"proof": proof(client), "then": "/"}
    client.post("/do/pause", data={**sent, "name": "emits"})
    client.post("/do/run-now", data={**sent, "name": NAME, "key": "3"})
    client.post("/do/cancel", data={**sent, "run": "2"})
    client.post("/do/cancel", data={**sent, "run": "999"})
    linked = links(client.get("/audit").text)
    assert {"/schedule?name=emits", "/run/2"} <= linked
    assert "/run/999" not in linked, "there is none"
    shown = client.get("/audit", params={"of": NAME}).text
    assert "run now" in shown
    assert "pause schedule" not in shown
    assert "Nobody has asked" in client.get("/audit?of=nothing").text
