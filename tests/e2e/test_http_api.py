"""The HTTP API on real stores: what can be done with it, and how it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import triggers
from tenure.backends.postgres import schedules as postgres
from tenure.backends.sqlite import schedules as sqlite
from tenure.triggers import Trigger
from tenure.web.api import status as status_of_all
from tests.e2e.http_api import Api, named, serving
from tests.support.servers import PostgresServer

HOURLY = {"trigger": "every 1h", "task": "report"}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('api') / 'tenure.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database("api")
    with serving(url, actor="ann", may_write=True) as served:
        yield served


def _added(api: Api, name: str, **more: Any) -> Any:
    return api.post("/schedules", HOURLY | {"name": name} | more, 201)


# -- schedules ------------------------------------------------------------------------------------


def test_schedule_is_created_and_found_where_the_answer_says(api: Api) -> None:
    body = HOURLY | {"name": "acme/daily: 100 %", "kwargs": {"customer": 7}, "tenant": "acme"}
    answer = api.ask("POST", "/schedules", json=body | {"retries": 2, "overlap": "queue"})
    assert answer.status_code == 201, answer.text
    made, place = answer.json(), answer.headers["location"]
    assert answer.headers["etag"] == f'"{made["version"]}"'
    assert (made["kwargs"], made["retries"], made["overlap"]) == ({"customer": 7}, 2, "queue")
    found = api.client.get(place)
    assert found.json() == made
    assert found.headers["etag"] == answer.headers["etag"]
    assert found.headers["cache-control"] == "no-store"
    api.refused(409, "POST", "/schedules", "conflict", json=body)


def test_list_goes_on_with_its_cursor_until_all_are_told(api: Api) -> None:
    names = [f"page-{n:02}" for n in range(7)]
    for n, name in enumerate(names):
        _added(api, name, tenant="pages", task=f"even-{n % 2}")
    told: list[str] = []
    page = api.get("/schedules", tenant="pages", limit=3)
    while True:
        told += [item["name"] for item in page["items"]]
        if page["next"] is None:
            break
        page = api.get("/schedules", tenant="pages", limit=3, cursor=page["next"])
    assert told == names
    odd = api.get("/schedules", tenant="pages", task="even-1", limit=2)
    assert [item["name"] for item in odd["items"]] == ["page-01", "page-03"]
    rest = api.get("/schedules", tenant="pages", task="even-1", cursor=odd["next"])
    assert [item["name"] for item in rest["items"]] == ["page-05"]
    assert api.get("/schedules", text="GE-04")["items"][0]["name"] == "page-04"
    assert api.get("/schedules", state="orphaned", tenant="pages")["items"] == []


def test_cursor_of_another_list_or_none_is_refused(api: Api) -> None:
    _added(api, "cursor-1")
    _added(api, "cursor-2")
    cursor = api.get("/schedules", limit=1)["next"]
    for path in ("/runs", "/events"):
        api.refused(422, "GET", path, "invalid", params={"cursor": cursor})
    for wrong in ("x", "W10", "é", "bnVsbA", "A" * 1_999):
        api.refused(422, "GET", "/schedules", params={"cursor": wrong})


def test_change_needs_the_version_that_was_read(api: Api) -> None:
    _added(api, "versioned")
    path = "/schedules/versioned"
    tag = api.etag(path)
    for method, below, body in (
        ("PATCH", "", {"retries": 1}),
        ("PUT", "", HOURLY),
        ("DELETE", "", None),
        ("POST", "/pause", {}),
        ("POST", "/resume", {}),
        ("POST", "/rename", {"to": "other"}),
    ):
        api.refused(428, method, path + below, "no_version", json=body)
        for stale in ('"0"', '"9999999999"', '"none"'):
            headers = {"if-match": stale}
            api.refused(412, method, path + below, "stale", json=body, headers=headers)
        headers = {"if-match": tag.strip('"')}
        api.refused(422, method, path + below, "invalid", json=body, headers=headers)
    assert api.etag(path) == tag
    paused = api.post(f"{path}/pause", {"reason": "holiday"}, if_match=tag)
    assert (paused["state"], paused["reason"]) == ("paused", "paused: holiday")
    stale = api.refused(412, "POST", f"{path}/resume", "stale", headers={"if-match": tag})
    assert stale["headers"]["etag"] == api.etag(path) != tag
    assert api.post(f"{path}/resume", if_match="*")["state"] == "active"
    changed = api.ask("PATCH", path, json={"retries": 4}, headers={"if-match": api.etag(path)})
    assert changed.json()["retries"] == 4
    assert changed.json()["task"] == "report"
    renamed = api.post(f"{path}/rename", {"to": "versioned-2"}, if_match=api.etag(path))
    assert renamed["name"] == "versioned-2"
    gone = api.ask("DELETE", "/schedules/versioned-2", headers={"if-match": "*"})
    assert (gone.status_code, gone.content) == (204, b"")
    api.refused(404, "GET", "/schedules/versioned-2", "not_found")
    api.refused(404, "DELETE", "/schedules/versioned-2", headers={"if-match": "*"})


def test_put_creates_without_a_version_and_replaces_with_one(api: Api) -> None:
    path = "/schedules/put"
    made = api.ask("PUT", path, json=HOURLY)
    assert made.status_code == 201
    api.refused(428, "PUT", path, json=HOURLY)
    headers = {"if-match": made.headers["etag"]}
    replaced = api.ask("PUT", path, json=HOURLY | {"retries": 3}, headers=headers)
    assert (replaced.status_code, replaced.json()["retries"]) == (200, 3)
    api.refused(412, "PUT", path, json=HOURLY, headers=headers)
    again = api.ask("PUT", path, json=HOURLY, headers={"if-match": "*"})
    assert again.json()["retries"] == 0
    api.refused(404, "PUT", "/schedules/none", json=HOURLY, headers={"if-match": '"1"'})


def test_schedule_that_emits(api: Api) -> None:
    event = {"topic": "ledger", "type": "MonthEnded", "data": {"books": [1, 2.5, None, "\u20ac"]}}
    made = api.post("/schedules", {"name": "emits", "trigger": "every 1h", "emit": event}, 201)
    assert made["emit"] == event | {"key": None, "headers": {}}
    told = api.post("/schedules/emits/run-now", status=201, idempotency_key="first")
    assert told["run"] is None
    assert api.post("/schedules/emits/run-now", idempotency_key="first")["event"] == told["event"]
    stored = api.get(named("events", told["event"]))
    assert (stored["topic"], stored["data"]) == ("ledger", event["data"])
    assert api.get("/events", topic="ledger", limit=1)["items"] == [stored]
    api.refused(404, "GET", "/events/none")


def test_preview_and_explain(api: Api) -> None:
    _added(api, "nightly", trigger="cron 30 2 * * * tz=Europe/Berlin")
    told = api.get("/schedules/nightly/preview", count=3, after="2026-03-28")
    assert [each["nominal"] for each in told["times"]] == [
        "2026-03-28T01:30:00.000000Z",
        "2026-03-29T01:00:00.000000Z",
        "2026-03-30T00:30:00.000000Z",
    ]
    why = api.get("/schedules/nightly/explain", time="2026-03-29T02:30")
    assert why["explanation"]["occurs"]
    assert why["explanation"]["reason"] == "skipped hour"
    assert why["recorded"] is None
    assert not api.get("/schedules/nightly/explain", time="2026-03-29T07:00Z")["explanation"][
        "occurs"
    ]
    free = api.get("/preview", trigger="every 10m start=2026-01-01T00:00Z", count=2)
    assert len(free["times"]) == 2
    api.refused(422, "GET", "/preview", params={"trigger": "every now and then"})
    api.refused(422, "GET", "/schedules/nightly/preview", params={"count": "many"})
    api.refused(422, "GET", "/schedules/nightly/explain")
    api.refused(404, "GET", "/schedules/none/preview")


def test_backfill_fires_each_time_once(api: Api) -> None:
    _added(api, "fills", trigger="cron 0 0 * * * start=2026-01-01", overlap="queue")
    path, body = "/schedules/fills/backfill", {"start": "2026-01-01", "end": "2026-01-03"}
    times = [f"2026-01-0{n}T00:00:00.000000Z" for n in (1, 2, 3)]
    assert api.post(path, body | {"dry_run": True})["nominal"] == times
    assert api.post(path, body, idempotency_key="k")["nominal"] == times
    assert api.post(path, body, idempotency_key="k")["nominal"] == times
    assert api.post(path, body)["nominal"] == []
    api.refused(
        422, "POST", path, json=body | {"end": "2026-01-02"}, headers={"idempotency-key": "k"}
    )
    api.refused(422, "POST", path, json=body | {"end": "2025-01-02"})
    page = api.get("/schedules/fills/occurrences", limit=2)
    assert [each["nominal"] for each in page["items"]] == times[:0:-1]
    assert {each["run_state"] for each in page["items"]} == {"waiting"}
    page = api.get("/schedules/fills/occurrences", limit=2, cursor=page["next"])
    assert [each["nominal"] for each in page["items"]] == times[:1]
    assert page["next"] is None
    page = api.get("/schedules/fills/occurrences", until="2026-01-02")
    assert [each["nominal"] for each in page["items"]] == times[1::-1]
    why = api.get("/schedules/fills/explain", time="2026-01-02")
    assert why["recorded"]["kind"] == "backfill"


# -- runs -----------------------------------------------------------------------------------------


def test_run_now_gives_the_same_run_for_the_same_key(api: Api) -> None:
    _added(api, "now")
    told = api.post("/schedules/now/run-now", status=201, idempotency_key="monday")
    assert told["new"]
    again = api.post("/schedules/now/run-now", idempotency_key="monday")
    assert again == told | {"new": False}
    skipped = api.refused(409, "POST", "/schedules/now/run-now", "skipped")
    assert "overlap=skip" in skipped["detail"]
    api.refused(404, "POST", "/schedules/none/run-now")
    [first, second] = api.get("/schedules/now/occurrences")["items"]
    assert (first["state"], second["state"]) == ("skipped", "fired")
    assert first["reason"].startswith("overlap=skip")


def test_task_is_run_once_and_found_again_by_its_key(api: Api) -> None:
    body = {"task": "mail", "kwargs": {"to": 7}, "tenant": "runs", "delay": 3_600}
    answer = api.ask("POST", "/runs", json=body, headers={"idempotency-key": '"order-1"'})
    assert answer.status_code == 201
    made = answer.json()
    found = api.client.get(answer.headers["location"]).json()
    assert {name: found[name] for name in made["run"]} == made["run"]
    assert found["waits"]["because"] == "due later"
    again = api.post("/runs", body, idempotency_key="order-1")
    assert again == made | {"new": False}
    other = body | {"kwargs": {"to": 8}}
    api.refused(422, "POST", "/runs", json=other, headers={"idempotency-key": "order-1"})
    ids = [api.post("/runs", body, 201)["run"]["id"] for _ in range(3)]
    page = api.get("/runs", tenant="runs", limit=2)
    assert [run["id"] for run in page["items"]] == ids[:0:-1]
    page = api.get("/runs", tenant="runs", limit=2, cursor=page["next"])
    assert [run["id"] for run in page["items"]] == [ids[0], made["run"]["id"]]
    assert page["next"] is None
    assert api.get("/runs", task="mail", state="claimed")["items"] == []
    at = {"task": "mail", "at": "2030-06-01T07:00", "tz": "Europe/Berlin", "tenant": "later"}
    assert api.post("/runs", at, 201)["run"]["due"] == "2030-06-01T05:00:00.000000Z"


def test_run_is_cancelled_and_retried(api: Api) -> None:
    path = named("runs", api.post("/runs", {"task": "once", "tenant": "c"}, 201)["run"]["id"])
    api.refused(409, "POST", f"{path}/retry", "conflict")
    assert api.post(f"{path}/cancel")["state"] == "cancelled"
    assert api.post(f"{path}/cancel")["state"] == "cancelled"
    assert api.post(f"{path}/retry", {"even_succeeded": False})["state"] == "waiting"
    assert api.get(f"{path}/attempts") == {"items": []}
    assert api.get(f"{path}/log")["log"] is None
    api.refused(404, "GET", f"{path}/log", params={"attempt": 3})
    for path, status in (("/runs/999999999999", 404), ("/runs/0", 422), ("/runs/one", 422)):
        api.refused(status, "GET", path)


# -- the cluster ----------------------------------------------------------------------------------


def test_status_of_a_store_without_nodes(api: Api) -> None:
    told = api.get("/status")
    assert (told["leader"], told["nodes"], told["namespace"]) == (None, [], "default")
    assert api.get("/nodes") == {"items": []}
    assert api.get("/relays") == {"items": []}
    assert api.get("/parked") == {"items": [], "more": False}
    assert api.get("/locks") == {"items": [], "more": False}
    api.refused(404, "POST", "/relays/kafka/replay")
    api.refused(404, "POST", "/groups/ledger/billing/replay", json={"after": 0})
    api.refused(422, "POST", "/groups/ledger/billing/replay", json={})


def test_triggers_are_read_on_a_thread_of_their_own(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take half a second, and on Tenure's loop leases are renewed."""
    read: list[str] = []

    def parse(text: str) -> Trigger:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        read.append(text)
        return parse_text(text)

    parse_text = triggers.parse
    monkeypatch.setattr(triggers, "parse", parse)
    api.get("/preview", trigger="every 1h")
    _added(api, "apart")
    body = HOURLY | {"trigger": "every 2h"}
    path, any_version = "/schedules/apart", {"if-match": "*"}
    assert api.ask("PUT", path, json=body, headers=any_version).status_code == 200
    changed = {"trigger": "every 3h"}
    assert api.ask("PATCH", path, json=changed, headers=any_version).status_code == 200
    assert read == ["every 1h", "every 1h", "every 2h", "every 3h"]


def test_counts_end_somewhere(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("1", "2", "3"):
        api.ask("POST", "/runs", json={"task": "x"}, headers={"idempotency-key": f"count-{key}"})
    assert api.get("/status")["backlog"] >= 3
    for module in (sqlite, postgres, status_of_all):
        monkeypatch.setattr(module, "BACKLOG_COUNTED", 2)
    told = api.get("/status")
    assert (told["backlog"], told["backlog_is_more"]) == (2, True)
    assert (told["claimed"], told["claimed_is_more"]) == (0, False)
    assert (told["due"], told["due_is_more"]) == (0, False)


def test_nothing_is_told_of_where_the_store_is(api: Api, tmp_path: Path) -> None:
    whole = api.ask("GET", "/status").text + api.ask("GET", "/schedules/none").text
    assert "tenure.db" not in whole
    assert "127.0.0.1" not in whole
    assert "postgres" not in whole
