"""`tenure runs cancel` and `tenure runs retry`: by number, and by what matches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tenure import Scheduler, every
from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Result, RunRecord, RunState
from tests.e2e.command import Answer, at_hand
from tests.support.servers import PostgresServer


class World:
    """A store with runs that wait: no node takes them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.scheduler = Scheduler(url)

        @self.scheduler.task
        def pack() -> None: ...

        @self.scheduler.task
        def send() -> None: ...

        for name in ("pack", "send"):
            for tenant in ("acme", "bolt"):
                self.scheduler.add(
                    f"{name}-{tenant}",
                    every(hours=1),
                    task=name,
                    tenant=tenant,
                    overlap="queue",
                )

    def run(self, schedule: str) -> int:
        run = self.scheduler.run_now(schedule)
        assert run is not None
        return run.id

    def states(self) -> dict[int, str]:
        return {run.id: str(run.state) for run in self.scheduler.runs(limit=1_000)}

    def command(self, *args: object) -> Answer:
        return at_hand(self.folder, "runs", *args, "--url", self.url)

    def claim(self, task: str, state: RunState | None = None) -> int:
        """As a node that has this task would; and end it so."""

        async def work() -> int:
            backend: Backend = (
                PostgresBackend(self.url)
                if self.url.startswith("postgres")
                else SQLiteBackend(Path(self.url.removeprefix("sqlite:///")))
            )
            await backend.open()
            [run] = (await backend.runs.claim("node", [task], 1)).runs
            if state is not None:
                ended = Result(run.id, run.claim, "node", state, "so it is")
                await backend.runs.claim("node", [], 0, [ended])
            await backend.close()
            return run.id

        return asyncio.run(work())


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database(f"control_{tmp_path.name[:40].replace('-', '_').lower()}")
    made = World(url, tmp_path)
    yield made
    made.scheduler.stop()


def test_runs_are_cancelled_by_number(world: World) -> None:
    waiting, other, claimed = world.run("pack-acme"), world.run("pack-bolt"), world.run("send-acme")
    assert world.claim("send") == claimed
    answer = world.command("cancel", waiting, claimed)
    assert answer.code == 0, answer
    assert f"Run {waiting}: cancelled." in answer.out
    assert f"Run {claimed}: asked to end" in answer.out
    assert world.states() == {waiting: "cancelled", other: "waiting", claimed: "claimed"}
    assert "Cancel asked" in world.command("show", claimed).out

    answer = world.command("cancel", waiting, 4711)
    assert answer.code == 1
    assert f"Run {waiting}: left alone: it was cancelled at 20" in answer.out
    assert "nothing was changed about 4711." in answer.err
    answer = world.command("cancel", other, 4711, "--json")
    assert answer.json == {
        "done": True,
        "cancelled": [other],
        "requested": [],
        "ended": [],
        "unknown": [4711],
    }
    answer = world.command("cancel", other, other)
    assert (answer.code, answer.out.count("left alone")) == (0, 1), "to repeat it is no error"
    assert world.command("cancel", other, "--json").json["done"] is False
    assert world.command("cancel", 4711, "--json").json["done"] is False


def test_refusals_say_which_it_was(world: World) -> None:
    waiting, claimed, done = world.run("pack-acme"), world.run("send-acme"), world.run("send-bolt")
    assert world.claim("send") == claimed
    assert world.claim("send", RunState.SUCCEEDED) == done
    answer = world.command("retry", waiting, claimed, done)
    assert answer.code == 1
    assert f"Run {waiting}: left alone: it waits already." in answer.out
    assert f"Run {claimed}: left alone: it is being executed by node" in answer.out
    assert f"Run {done}: left alone: it succeeded at 20" in answer.out
    assert "insist with --even-succeeded." in answer.out
    answer = world.command("retry", waiting, "--json")
    assert answer.json == {"done": False, "retried": [], "refused": [waiting], "unknown": []}
    answer = world.command("cancel", done)
    assert answer.code == 1
    assert f"Run {done}: left alone: it succeeded at 20" in answer.out


def test_filter_by_state_is_written_as_it_is_shown(world: World) -> None:
    waiting, done = world.run("pack-acme"), world.run("send-acme")
    assert world.claim("send", RunState.SUCCEEDED) == done
    shown = world.command("cancel", "--state", "waiting", "--json")
    assert [run["id"] for run in shown.json["first"]] == [waiting], shown
    shown = world.command("retry", "--state", "succeeded", "--even-succeeded", "--json")
    assert [run["id"] for run in shown.json["first"]] == [done], shown
    answer = world.command("retry", "--state", "succeeded")
    assert (answer.code, "insist with --even-succeeded" in answer.err) == (2, True), answer


def test_filter_shows_what_it_would_cancel(world: World) -> None:
    acme = [world.run("pack-acme") for _ in range(12)]
    bolt = world.run("pack-bolt")
    answer = world.command("cancel", "--task", "pack", "--tenant", "acme")
    assert answer.code == 0
    assert "… and 2 more" in answer.out
    assert "12 runs to cancel. Nothing was changed: --yes does it." in answer.out
    assert set(world.states().values()) == {"waiting"}
    preview = world.command("cancel", "--schedule", "pack-acme", "--json").json
    assert (preview["done"], preview["matches"], len(preview["first"])) == (False, 12, 10)

    answer = world.command("cancel", "--task", "pack", "--tenant", "acme", "--yes")
    assert "12 cancelled" in answer.out
    assert world.states() == dict.fromkeys(acme, "cancelled") | {bolt: "waiting"}
    nothing = "Nothing to cancel: no run that is waiting or claimed matches."
    assert nothing in world.command("cancel", "--older-than", "1h").out


def test_runs_are_retried_by_number_and_by_filter(world: World) -> None:
    failed, cancelled, done = world.run("pack-acme"), world.run("pack-bolt"), world.run("send-acme")
    assert world.claim("pack", RunState.FAILED) == failed
    assert world.claim("send", RunState.SUCCEEDED) == done
    world.command("cancel", cancelled)

    answer = world.command("retry", "--task", "pack")
    assert "1 run to retry. Nothing was changed" in answer.out, "what was cancelled is left alone"
    answer = world.command("retry", "--task", "pack", "--yes")
    assert "1 to be run again" in answer.out
    assert world.states()[failed] == "waiting"
    answer = world.command("retry", "--task", "pack")
    assert "no run that is failed or lost matches" in answer.out, "what was cancelled is not meant"

    answer = world.command("retry", cancelled, done, failed)
    assert answer.code == 1
    assert f"Run {cancelled}: to be run again." in answer.out
    assert f"nothing was changed about {done}, {failed}" in answer.err
    assert world.command("retry", done, "--even-succeeded").code == 0
    assert set(world.states().values()) == {"waiting"}


def test_what_is_meant_must_be_clear(world: World) -> None:
    run = world.run("pack-acme")
    for command in (
        ("cancel",),
        ("cancel", run, "--task", "pack"),
        ("cancel", "--older-than", "soon"),
        ("retry", "--state", "succeeded", "--yes"),
        ("retry", "--state", "waiting"),
    ):
        assert world.command(*command).code == 2, command
    answer = world.command("cancel", "--schedule", "pakc-acme", "--yes")
    assert answer.code == 1
    assert "there is no schedule 'pakc-acme'" in answer.err
    assert world.states() == {run: "waiting"}


def test_json_has_every_field_of_a_run(world: World) -> None:
    run = world.run("pack-acme")
    shown = world.command("show", run, "--json").json
    more = {"result_kept", "attempts", "hung", "waits_because", "kwargs"}
    stored = {field.name for field in fields(RunRecord)} - {"arguments"}  # that is `kwargs`
    assert stored | more == set(shown)
    assert (shown["tenant"], shown["failures"], shown["claim"]) == ("acme", 0, 0)
    assert shown["result_kept"] is False, "it waits"
    assert world.claim("pack", RunState.SUCCEEDED) == run
    [shown] = world.command("list", "--json").json
    assert (shown["result_kept"], shown["result"], shown["claim"]) == (True, None, 1)
    assert "acme" in world.command("show", run).out.split("Tenant")[1]


def test_list_has_the_same_filters(world: World) -> None:
    runs = [world.run("pack-acme"), world.run("send-acme"), world.run("send-bolt")]
    found = world.command("list", "--task", "send", "--tenant", "acme", "--json").json
    assert [run["id"] for run in found] == [runs[1]]
    assert world.command("list", "--older-than", "1h", "--json").json == []


def test_help_shows_what_can_be_done(tmp_path: Path) -> None:
    assert "List, show, cancel and retry runs." in at_hand(tmp_path, "--help").out
    told = at_hand(tmp_path, "runs", "--help").out
    assert "Examples:" in told
    assert "tenure runs retry 1042 " in told
