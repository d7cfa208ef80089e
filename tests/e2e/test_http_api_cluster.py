"""The HTTP API beside a node at work: it tells what the command line tells, in the same words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Event, Run, Scheduler
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Acknowledgement, Fence, HeldLane, Holder, Lane, Parked
from tests.e2e.command import PATIENCE, at_hand, until
from tests.e2e.http_api import Api, named, serving

MORE = {"unread_is_more"}
"""What only the API tells of a list: nobody reads a number and thinks of its limit."""


class World:
    """A node with a run that goes on, one that failed, and an event."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder / 'jobs.db'}"
        self.let_go = threading.Event()
        self.scheduler = scheduler = Scheduler(self.url)

        @scheduler.task
        def talks(run: Run) -> str:
            run.log("hello <b>")
            assert self.let_go.wait(PATIENCE)
            return "done"

        @scheduler.task
        def fails() -> None:
            raise ValueError("no such customer")

        scheduler.start()
        scheduler.add("nightly", "cron 0 3 * * *", task="fails", kwargs={})
        self.talks = scheduler.enqueue(talks, lock="report:7").id
        self.failed = scheduler.enqueue(fails).id
        scheduler.emit(Event("ledger", "Said", {"n": 1}, key="k"), id="said-1")

    def asked(self, *words: object) -> Any:
        answer = at_hand(self.folder, *words, "--url", self.url, "--json")
        assert answer.code == 0, answer
        return answer.json


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    try:
        yield world
    finally:
        world.let_go.set()
        world.scheduler.stop()


@pytest.fixture(scope="module")
def api(world: World) -> Iterator[Api]:
    with serving(world.url, actor="ann", may_write=True) as served:
        yield served


def _state(api: Api, run: int) -> str:
    return str(api.get(named("runs", run))["state"])


def test_status_and_nodes(world: World, api: Api) -> None:
    until(lambda: _state(api, world.talks) == "claimed", "the run to begin")
    until(lambda: _state(api, world.failed) == "failed", "the other to end")
    told = until(lambda: (s := api.get("/status"))["leader"] and s, "a leader")
    [node] = told["nodes"]
    assert node["leader"]
    assert node["node"] == told["leader"]["holder"] == world.scheduler.node
    assert (node["claimed"], node["hung"], node["ready"]) == (1, 0, True)
    assert api.get("/nodes")["items"][0]["node"] == node["node"]
    said = world.asked("status")
    more = {"due_is_more", "backlog_is_more", "claimed_is_more"}
    assert told.keys() - more == said.keys() - {"store", "leases", "clock_skew", "moved"}
    assert node.keys() == said["nodes"][0].keys()
    assert told["leader"].keys() == said["leader"].keys()


def test_runs_and_attempts_and_logs(world: World, api: Api) -> None:
    until(lambda: _state(api, world.failed) == "failed", "the run to fail")
    path = named("runs", world.failed)
    [attempt] = api.get(f"{path}/attempts")["items"]
    assert (attempt["outcome"], "no such customer" in attempt["error"]) == ("failed", True)
    [said] = world.asked("runs", "show", world.failed)["attempts"]
    assert said.keys() - {"log"} == attempt.keys()
    [shown] = [run for run in api.get("/runs")["items"] if run["id"] == world.failed]
    assert api.get(path) == shown | dict.fromkeys(("progress", "message", "waits", "hung"))
    [listed] = [run for run in world.asked("runs", "list") if run["id"] == world.failed]
    assert shown == {name: listed[name] for name in shown}
    log = until(lambda: (got := api.get(f"/runs/{world.talks}/log"))["log"] and got, "a log")
    assert (log["attempt"], log["log"], log["log_dropped"]) == (1, "hello <b>\n", 0)
    [lock] = api.get("/locks")["items"]
    assert (lock["name"], lock["run"]) == ("report:7", world.talks)


def test_run_says_why_it_waits(world: World, api: Api) -> None:
    until(lambda: _state(api, world.talks) == "claimed", "the run to begin")
    bodies: dict[str, dict[str, Any]] = {
        "due later": {"task": "talks", "delay": 3_600},
        "lock held": {"task": "talks", "lock": "report:7"},
        "no task": {"task": "nobody's"},
    }
    for because, body in bodies.items():
        run = api.post("/runs", body | {"tenant": "waits"}, 201)["run"]["id"]
        waits = api.get(named("runs", run))["waits"]
        assert waits["because"] == because
        assert waits["run"] == (world.talks if because == "lock held" else None)
        api.post(named("runs", run, "cancel"))


def test_schedules_and_leases_and_events_have_the_words_of_the_command_line(
    world: World, api: Api
) -> None:
    [schedule] = api.get("/schedules")["items"]
    assert [schedule] == world.asked("schedules", "list")
    leases = {each["name"]: each for each in api.get("/leases")["items"]}
    said = {each["name"]: each for each in world.asked("leases", "list")}
    assert leases.keys() == said.keys() - {"report:7"}
    leader = leases["tenure/leader"]
    assert leader.keys() == said["tenure/leader"].keys() - {"kind"}
    assert api.get(named("leases", "tenure/leader"))["term"] == leader["term"]
    [line] = api.get(named("leases", "tenure/leader", "history"))["items"]
    assert [line] == world.asked("leases", "history", "tenure/leader")
    assert [api.get("/events/said-1")] == world.asked("events", "list")
    told = api.get("/schedules/nightly/preview", count=2)["times"]
    assert told == world.asked("schedules", "preview", "nightly", "-n", "2")


def test_group_reads_again(world: World, api: Api) -> None:
    with world.scheduler.consumer("ledger", group="billing") as consumer:
        for batch in consumer:
            with batch.transaction():
                assert [event.id for event in batch] == ["said-1"]
            break
    [group] = api.get("/groups", topic="ledger")["items"]
    assert group["unread"] == 0
    assert group.keys() == world.asked("events", "groups")[0].keys() | MORE
    path = named("groups", "ledger", "billing", "replay")
    assert api.post(path, {"after": 0})["unread"] == 1
    assert api.post(path, {"since": "2100-01-01"})["unread"] == 0
    api.refused(422, "POST", path, json={"after": 0, "since": "2100-01-01"})
    beyond = api.refused(409, "POST", path, json={"after": group["position"] + 1})
    assert f"the last position in the log is {group['position']}" in beyond["detail"]
    assert api.get("/groups", topic="ledger")["items"][0]["position"] == group["position"]
    assert [each["group"] for each in api.get("/groups")["items"]] == ["billing"]
    assert api.ask("DELETE", "/groups/ledger/billing").status_code == 204
    api.refused(404, "DELETE", "/groups/ledger/billing")


def test_parked_events_are_sent_again(tmp_path: Path) -> None:
    url, fence = f"sqlite:///{tmp_path / 'jobs.db'}", Fence("tenure/relay/hook", 1, "tests")

    async def parked() -> None:
        scheduler = Scheduler(url)
        for n in range(4):
            scheduler.emit(Event("ledger", "Said", n, key=f"k{n % 2}"), id=str(n))
        scheduler.stop()
        backend = SQLiteBackend(tmp_path / "jobs.db")
        await backend.open()
        await backend.office.take(fence)
        relay = await backend.relays.resume(fence, "hook", "webhook+https://host", ["ledger"])
        held = HeldLane(Lane("ledger", "k0"), 1, 10, 0.0, "500: no", parked=True)
        told = Acknowledgement(4, (held,), (), (Parked(2, 3, "400: never"),), trouble="no answer")
        assert await backend.relays.acknowledge(fence, "hook", relay.revision, told)
        await backend.close()

    asyncio.run(parked())
    with serving(url, actor="ann", may_write=True) as api:
        [relay] = api.get("/relays")["items"]
        assert (relay["relay"], relay["parked"], relay["trouble"]) == ("hook", 2, "no answer")
        said = at_hand(tmp_path, "events", "relays", "--url", url, "--json").json
        assert [relay] == [each | {"unread_is_more": False} for each in said]
        first, second = api.get("/parked")["items"]
        assert (first["event"]["id"], first["holds"], first["reason"]) == ("0", True, "500: no")
        assert (first["waiting"], first["waiting_is_more"]) == (1, False)
        assert (second["holds"], second["waiting"]) == (False, 0)
        assert api.get("/parked", limit=1) == {"items": [first], "more": True}
        assert api.get("/parked", relay="other")["items"] == []
        wrong = api.refused(409, "POST", "/relays/hook/replay", json={"positions": [1, 77]})
        assert "77" in wrong["detail"]
        told = api.post("/relays/hook/replay", {"positions": [1]})
        assert told == {"relay": "hook", "replayed": 1}
        [left] = [each for each in api.get("/parked")["items"] if not each["replayed"]]
        assert left["event"]["id"] == "1"
        assert api.post("/relays/hook/replay")["replayed"] == 1
        api.refused(409, "POST", "/relays/hook/drop", json={"positions": [77]})
        api.refused(422, "POST", "/relays/hook/drop", json={})
        assert api.post("/relays/hook/drop", {"positions": [2]})["dropped"] == 1
        api.refused(409, "POST", "/relays/hook/resume")
        assert api.ask("DELETE", "/relays/hook").status_code == 204
        for method, path in (("POST", "/replay"), ("POST", "/resume"), ("DELETE", "")):
            api.refused(404, method, f"/relays/hook{path}")


def test_hung_run_is_shown_and_its_lock_cleared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with serving(url, actor="ann", may_write=True) as api:
        run = api.post("/runs", {"task": "hangs", "lock": "mailbox:7"}, 201)["run"]["id"]
        assert api.get(named("runs", run))["waits"]["because"] == "no node"
        api.refused(409, "POST", named("runs", run, "clear"))

        found: list[Any] = []

        async def claim() -> None:
            backend = SQLiteBackend(tmp_path / "jobs.db")
            await backend.open()
            told = {"run": run, "claim": 1, "since": "2026-01-01T00:00:00Z", "stack": "in recv"}
            info = {"hung": 1, "hung_runs": [told, "edited", {"run": "x"}]}
            await backend.leases.acquire("tenure/node/n", Holder("n", "host", 7), 60, info=info)
            assert len((await backend.runs.claim("n", ["hangs"], 1)).runs) == 1
            found.append(api.get(named("runs", run))["hung"])
            await backend.close()  # by which the node is dead

        asyncio.run(claim())
        [hung] = found
        assert (hung["host"], hung["pid"], hung["stack"]) == ("host", 7, "in recv")
        assert hung["since"] == "2026-01-01T00:00:00.000000Z"
        told = api.post(named("runs", run, "clear"), {"wait": 0, "reason": "stuck"})
        assert told["state"] == "cancelled"
        assert told["error"] == "its lock was cleared by ann: stuck"
        assert api.get("/locks")["items"] == []
