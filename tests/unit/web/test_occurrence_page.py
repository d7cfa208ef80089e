"""Why a schedule ran at a time, or did not: each case has its sentence, and links what it names."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, TypeVar

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler, Event, cron, every
from tenure.backends.base import Backend
from tenure.model import Fence, Grant, Result, RunState
from tenure.node.names import LEADER
from tenure.process.identity import new_holder
from tenure.schedules.planning import plan
from tenure.testing import FakeClock
from tenure.web import dashboard
from tests.support.dashboard import links

T = TypeVar("T")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


class World:
    """A store, its clock, and a leader that is played by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock(BEGIN)
        self.scheduler = AsyncScheduler("memory://", clock=self.clock)
        self.scheduler.task(name="task")(lambda: None)
        self.grant: Grant | None = None
        app = dashboard(self.scheduler, allow_changes=True)
        self.client = TestClient(app, "http://localhost", client=("127.0.0.1", 1))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def with_store(self, work: Any) -> Any:
        async def ask() -> Any:
            return await self.scheduler._call(work(await self.scheduler._runtime.backend()))

        return asyncio.run(ask())

    def lead(self) -> None:
        async def work(backend: Backend) -> Grant:
            got = await backend.leases.acquire(LEADER, new_holder(), 15.0, fenced=True)
            assert isinstance(got, Grant)
            await backend.office.take(Fence(LEADER, got.term, got.holder))
            return got

        self.grant = self.with_store(work)

    def fire(self) -> None:
        """Whatever is due."""

        async def work(backend: Backend) -> None:
            assert self.grant
            await backend.leases.renew([self.grant])
            batch = await backend.schedules.due(100)
            fence = Fence(LEADER, self.grant.term, self.grant.holder)
            await backend.schedules.fire(fence, plan(batch.schedules, batch.now).firings)

        self.with_store(work)

    def claim(self, fails: str | None = None) -> int:
        """Begin the next run; and let it fail, if that is wanted."""

        async def work(backend: Backend) -> int:
            [run] = (await backend.runs.claim("host:7:abc", ["task"], 1)).runs
            if fails is not None:
                failed = RunState.FAILED
                end = Result(run.id, run.claim, "host:7:abc", failed, fails, failed=True)
                await backend.runs.claim("host:7:abc", [], 0, [end])
            return run.id

        found: int = self.with_store(work)
        return found

    def page(self, name: str, hours: float) -> str:
        at = (BEGIN + timedelta(hours=hours)).isoformat()
        answer = self.client.get("/occurrence", params={"name": name, "at": at})
        assert answer.status_code == 200, answer.text
        return answer.text

    def why(self, name: str, hours: float) -> str:
        found = re.search(r'<p class="reason[^>]*>(.*?)</p>', self.page(name, hours), re.DOTALL)
        assert found
        return unescape(re.sub(r"<[^>]+>", "", found.group(1)))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.lead()
    with made.client:
        yield made
    asyncio.run(made.scheduler.stop())


def test_missed_names_the_time_without_a_leader_and_the_one_that_was_fired(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task"))
    world.clock.advance(4 * HOUR + 60)
    world.lead()
    world.fire()
    told = world.why("hourly", 2)
    assert told.startswith("Nobody led for 4h")
    assert "only the latest is caught up" in told
    page = world.page("hourly", 2)
    assert "/lease?name=tenure%2Fleader" in links(page)
    fired = next(link for link in links(page) if "T04%3A00" in link)
    assert "It was fired 1m late." in world.client.get(fired).text
    assert "to 2026-01-01 03:00" in page, "the stretch is one row, and the page says how long"


def test_skipped_names_the_run_in_the_way_also_of_another_schedule(world: World) -> None:
    for name, hours in (("first", 1), ("second", 2)):
        world.do(world.scheduler.add(name, every(hours=hours), task="task", lock="disk"))
    world.clock.advance(HOUR)
    world.fire()
    run = world.claim()
    world.clock.advance(HOUR)
    world.fire()
    for name in ("first", "second"):
        assert f"because run {run} of first was unfinished: on host:7 since" in world.why(name, 2)
        assert f"/run/{run}" in links(world.page(name, 2))


def test_fired_says_what_became_of_its_run(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task"))
    world.clock.advance(HOUR)
    world.fire()
    assert "Its run waits. No node is running." in world.why("hourly", 1)
    run = world.claim(fails="ValueError: no money")
    assert "Its run failed now: ValueError: no money" in world.why("hourly", 1)
    page = world.page("hourly", 1)
    assert f"/run/{run}" in links(page)
    steps = ("Due", "Fired", "Attempt 1 began", "Attempt 1 failed")
    found = [page.index(f'class="what">{step}<') for step in steps]
    assert found == sorted(found)
    link = next(each for each in links(world.client.get(f"/run/{run}").text) if "/occ" in each)
    assert "Its run failed" in world.client.get(link).text


def test_emitted_links_the_events(world: World) -> None:
    world.do(world.scheduler.add("emits", every(hours=1), emit=Event("ledger", "DayEnded", {})))
    world.clock.advance(HOUR)
    world.fire()
    assert "It emitted an event to ledger." in world.why("emits", 1)
    assert "/events?topic=ledger" in links(world.page("emits", 1))


def test_what_is_not_on_record_is_explained_too(world: World) -> None:
    world.do(world.scheduler.add("daily", cron("0 7 * * *"), task="task"))
    assert "It does not occur then." in world.why("daily", 8)
    assert "T07%3A00" in " ".join(links(world.page("daily", 8)))
    assert "It is planned, and due in 7h." in world.why("daily", 7)
    assert "The schedule did not exist yet" in world.why("daily", 7 - 24)
    world.clock.advance(7 * HOUR + 60)
    assert "It has been due for 1m, and nobody leads" in world.why("daily", 7)
    world.lead()
    assert "It has been due for 1m. The leader fires it next" in world.why("daily", 7)
    world.do(world.scheduler.pause("daily", "stocktaking"))
    assert "It does not fire, for 0ms: paused: stocktaking." in world.why("daily", 7)
    world.do(world.scheduler.resume("daily"))
    assert "It was missed: paused: stocktaking." in world.why("daily", 7)


def test_times_without_seconds_find_what_was_asked_for_in_that_minute(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task"))
    world.clock.advance(90)
    world.do(world.scheduler.run_now("hourly", "k"))
    assert "Its run waits" in world.why("hourly", 1 / 60)


def test_left_out_can_be_fired_after_all(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task"))
    world.clock.advance(3 * HOUR)
    world.lead()
    world.fire()
    page = world.page("hourly", 1)
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    sent = {name: unescape(value) for name, value in fields.items()}
    done = world.client.post("/do/backfill", data=sent)
    assert "Fired 2 occurrences of hourly after all." in done.text
    assert "no name" not in done.text


@pytest.mark.parametrize("at", ["", "then", "9999-99-99", "2026-01-01T00:00:00+99:00"])
def test_time_that_cannot_be_read_is_refused(world: World, at: str) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task"))
    answer = world.client.get("/occurrence", params={"name": "hourly", "at": at})
    assert answer.status_code == 400


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59"])
def test_edges_of_the_calendar_are_no_defect(world: World, at: str) -> None:
    world.do(world.scheduler.add("daily", cron("0 7 * * *", tz="Asia/Tokyo"), task="task"))
    answer = world.client.get("/occurrence", params={"name": "daily", "at": at})
    assert answer.status_code in (200, 400)
    assert world.client.get("/occurrence?name=none&at=2026-01-01").status_code == 404


def test_schedule_page_draws_edits_with_their_difference(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task", overlap="allow"))
    world.clock.advance(HOUR)
    world.fire()
    world.clock.advance(60)
    world.do(world.scheduler.update("hourly", retries=3, timeout=90))
    shown = unescape(world.client.get("/schedule?name=hourly").text)
    assert "timeout: none → 1m 30s · retries: 0 → 3" in shown
    world.clock.advance(HOUR)
    world.fire()
    world.do(world.scheduler.update("hourly", priority=2))
    world.clock.advance(30 * 60)
    world.do(world.scheduler.update("hourly", trigger="every 2h"))
    shown = unescape(world.client.get("/schedule?name=hourly").text)
    assert "by <time" in shown, "between two runs: only the last change has its own time"
    assert "retries: 0 → 3" in shown
    assert "Its trigger was changed to the present one. · priority: 0 → 2" in shown
    assert shown.count('class="edit"') == 2, shown


def test_edits_of_the_audit_replace_what_is_inferred_of_them(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task", overlap="allow"))
    world.clock.advance(HOUR)
    world.fire()
    world.clock.advance(60)

    def patch(**changes: object) -> None:
        sent = {"json": changes, "headers": {"if-match": "*"}}
        assert world.client.patch("/api/schedules/hourly", **sent).status_code == 200  # type: ignore[arg-type]

    patch(trigger="every 2h", retries=3)
    world.clock.advance(20)
    world.do(world.scheduler.update("hourly", timeout=90))  # of which the audit knows nothing
    patch(retries=3)  # changes nothing
    world.clock.advance(2 * HOUR)
    world.fire()
    shown = unescape(world.client.get("/schedule?name=hourly").text)
    [listed] = re.findall(r'<ol class="edits">.*?</ol>', shown, re.DOTALL)
    edits = [re.sub(r"<.*?>", "", each) for each in listed.split("</li>")]
    assert edits[0].startswith("01:01:20 timeout: none → 1m 30s")
    told = "trigger: every hour → every 2 hours · retries: 0 → 3 · by local user, api from"
    assert edits[1].startswith(f"01:01:00 {told} 127.0.0.1")
    assert edits[2].endswith("It was added.")
    assert [each for each in edits[3:] if each.strip()] == []
    assert f"01:01:00 UTC: {told.partition(' · by')[0]}" in shown, "the line in the drawing"


def test_policies_are_changed_by_a_form_that_says_what_would_hold(world: World) -> None:
    world.do(world.scheduler.add("hourly", every(hours=1), task="task", timeout=5))
    asked = {"name": "hourly", "retries": "3", "timeout": "", "lock": "disk", "version": "1"}
    told = unescape(world.client.get("/preview/policies", params=asked).text)
    for text in ("it is tried again, up to 3 times", "<ins>none</ins>", "<ins>disk</ins>"):
        assert text in told
    same = world.client.get("/preview/policies", params={"name": "hourly", "retries": "0"})
    assert "Nothing would change." in same.text
    for wrong in ({"retries": "many"}, {"overlap": "sometimes"}, {"priority": "9" * 40}):
        answer = world.client.get("/preview/policies", params={"name": "hourly", **wrong})
        assert 'class="bad"' in answer.text, answer.text
    page = world.client.get("/schedule?name=hourly").text
    proof = re.search(r'name="proof" value="([0-9a-f]+)"', page)
    assert proof
    sent = {**asked, "proof": proof.group(1), "then": "/schedule?name=hourly"}
    done = unescape(world.client.post("/do/policies", data=sent).text)
    assert "Changed what holds for hourly: lock, retries, timeout." in done
    spec = world.do(world.scheduler.get("hourly")).spec
    assert (spec.retries, spec.timeout, spec.lock) == (3, None, "disk")
    assert world.client.post("/do/policies", data=sent).status_code == 409
