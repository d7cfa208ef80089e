"""What was mistyped is refused or told: an empty answer would look like the truth."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import AsyncScheduler, ConfigError, Leases, NotFound, Scheduler, single_instance
from tests.e2e.command import at_hand
from tests.support.servers import PostgresServer


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


@pytest.mark.parametrize("command", ["schedules list", "runs list", "status"])
def test_command_tells_which_namespaces_there_are(
    scheduler: Scheduler, url: str, tmp_path: Path, command: str
) -> None:
    del scheduler
    words, told = command.split(), "has no schedules, and no node has run in it. There are: prod."
    assert told in at_hand(tmp_path, *words, "--url", url).err
    assert told in at_hand(tmp_path, *words, "--json", "--url", url, "--namespace", "prdo").err
    assert told not in at_hand(tmp_path, *words, "--url", url, "--namespace", "prod").err


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
