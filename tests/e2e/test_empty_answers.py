"""What was mistyped is refused or told: an empty answer would look like the truth."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure import AsyncScheduler, ConfigError, Leases, NotFound, Scheduler, single_instance
from tests.e2e.command import at_hand
from tests.support.servers import PostgresServer, ValkeyServer


def pack() -> None: ...


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tenure.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database("empty")


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url, namespace="prod")
    scheduler.task(pack)
    scheduler.add("mine", "every 5m", task=pack)
    yield scheduler
    scheduler.stop()


def test_name_that_nobody_has_is_not_found(scheduler: Scheduler) -> None:
    assert scheduler.runs("mine") == []
    assert scheduler.occurrences("mine") == []
    for ask in (scheduler.runs, scheduler.occurrences):
        with pytest.raises(NotFound, match="no schedule named 'mien'"):
            ask("mien")
    scheduler.run_now("mine")
    scheduler.remove("mine")
    assert len(scheduler.runs("mine")) == len(scheduler.occurrences("mine")) == 1
    assert scheduler.runs("mine", state="failed") == []
    with pytest.raises(ConfigError, match="state='done' is not known; choose from 'waiting'"):
        scheduler.runs(state="done")


def test_namespace_that_nobody_has_is_told_once(
    scheduler: Scheduler, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = Scheduler(url, namespace="prdo")
    with caplog.at_level(logging.WARNING, logger="tenure"):
        assert other.schedules() == []
        assert other.runs() == []
        assert scheduler.runs() == []
    other.stop()
    [told] = caplog.messages
    assert told.startswith("namespace 'prdo' of ")
    assert told.endswith("has no schedules, and no node has run in it. There are: prod")


COMMANDS = [
    "schedules list",
    "runs list",
    "status",
    "leases list",
    "leases history",
    "events list",
    "events groups",
    "events relays",
    "events parked",
    "prune --dry-run",
    "audit",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_tells_which_namespaces_there_are(
    scheduler: Scheduler, url: str, tmp_path: Path, command: str
) -> None:
    del scheduler
    words, told = command.split(), "has no schedules, and no node has run in it. There are: prod."
    assert told in at_hand(tmp_path, *words, "--url", url).err
    assert told in at_hand(tmp_path, *words, "--json", "--url", url, "--namespace", "prdo").err
    assert told not in at_hand(tmp_path, *words, "--url", url, "--namespace", "prod").err


def test_command_tells_which_namespaces_a_redis_has(tmp_path: Path) -> None:
    server = ValkeyServer(clock=True)
    with closing(server.start()):
        server.age(5_000)
        with Leases(server.url, namespace="prod") as leases, leases.hold("job"):
            for words in (("leases", "list"), ("leases", "history"), ("prune", "--dry-run")):
                at = ("--url", server.url)
                said = at_hand(tmp_path, *words, *at, "--namespace", "prdo").err
                assert "never had a lease. There are: prod. Choose one with --namespace" in said
                assert not at_hand(tmp_path, *words, *at, "--namespace", "prod").err


def test_task_and_tenant_that_nobody_has_are_told(
    scheduler: Scheduler, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="tenure"):
        assert scheduler.runs(task="pack") == []
        assert not caplog.messages
        assert scheduler.runs(task="pakc") == scheduler.runs(task="pakc") == []
        assert scheduler.schedules(tenant="acme") == []
    assert caplog.messages == [
        "no run and no schedule has the task 'pakc'",
        "no run and no schedule has the tenant 'acme'",
    ]
    at = ("--url", url, "--namespace", "prod")
    assert not at_hand(tmp_path, "runs", "list", "--task", "pack", *at).err
    told = at_hand(tmp_path, "runs", "list", "--task", "pakc", "--tenant", "acme", *at)
    assert (told.code, told.out) == (0, "No runs.\n")
    assert "no run and no schedule has the task 'pakc'." in told.err
    assert "no run and no schedule has the tenant 'acme'." in told.err
    assert "tenant 'acme'" in at_hand(tmp_path, "schedules", "list", "--tenant", "acme", *at).err


def test_store_without_anything_has_no_namespace_to_choose(url: str, tmp_path: Path) -> None:
    assert at_hand(tmp_path, "migrate", "--url", url).code == 0
    listed = at_hand(tmp_path, "schedules", "list", "--url", url)
    assert (listed.code, listed.out, listed.err) == (0, "No schedules.\n", "")


@pytest.mark.parametrize("empty", ["", "  "])
def test_empty_url_is_refused(empty: str) -> None:
    for make in (Scheduler, AsyncScheduler, Leases):
        with pytest.raises(ConfigError, match="the URL is empty: perhaps a variable is not set"):
            make(empty)
    with pytest.raises(ConfigError, match="the URL is empty"):
        Scheduler("memory://", leases=empty)
    with pytest.raises(ConfigError, match="the URL is empty"):
        single_instance(empty, name="x").__enter__()


@pytest.mark.parametrize("variable", ["TENURE_URL", "TENURE_URL_FILE"])
def test_empty_variable_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "")
    with pytest.raises(ConfigError, match=f"{variable} is set, and empty"):
        Scheduler()
