"""The check on worker-count variables: early, plain, and no more than that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure import AsyncScheduler, Fact, Scheduler, check_workers, single_instance
from tenure.errors import ConfigError, LeaseHeld
from tests.e2e.command import until


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)


@pytest.mark.parametrize("value", [None, "", "  ", "1", " 1 ", "0", "01"])
def test_what_does_not_ask_for_more_than_one_passes(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("WEB_CONCURRENCY", value)
    check_workers()


def test_more_than_one_names_the_variable_its_value_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    with pytest.raises(ConfigError, match=r"variable WEB_CONCURRENCY is 4.*Set WEB_CONCURRENCY=1"):
        check_workers()


@pytest.mark.parametrize("value", ["auto", "-3", "1.5", "1 2", "٣", "four", "9" * 5000])
def test_value_that_is_no_number_of_workers_stops_with_an_error(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", value)
    with pytest.raises(ConfigError, match=r"WEB_CONCURRENCY is .*Set WEB_CONCURRENCY=1") as told:
        check_workers()
    assert told.value.stage == "workers"
    [note] = told.value.__notes__
    assert note.startswith("Startup stopped at stage 'workers' of workers, connect,")
    assert len(str(told.value)) < 500


def test_scheduler_stops_at_the_stage_of_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it connects to anything."""
    url = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("SHOP_WORKERS", "4")
    told: list[Fact] = []
    scheduler = Scheduler(url, workers_env="SHOP_WORKERS")
    scheduler.on("start.*", told.append)
    with pytest.raises(ConfigError, match="SHOP_WORKERS is 4, but this program") as stopped:
        scheduler.start()
    assert stopped.value.stage == "workers"
    assert len(stopped.value.__notes__) == 1
    assert [fact.name for fact in told] == ["start.stage", "start.failed"]
    with pytest.raises(ConfigError, match="SHOP_WORKERS"):
        asyncio.run(AsyncScheduler(url, workers_env="SHOP_WORKERS").start())
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("SHOP_WORKERS", "1")
    with scheduler:
        assert scheduler.running


def test_application_has_stages_of_its_own(tmp_path: Path) -> None:
    told: list[Fact] = []
    scheduler = Scheduler(f"sqlite:///{tmp_path}/app.db")
    scheduler.on("start.*", told.append)
    with scheduler.stage("models"):
        pass
    with pytest.raises(ConfigError) as stopped, scheduler.stage("prices"):
        raise ConfigError("there are none")
    assert stopped.value.stage == "prices"
    assert stopped.value.__notes__ == ["Startup stopped at stage 'prices'."]
    with pytest.raises(ZeroDivisionError) as other, scheduler.stage("rates"):
        raise ZeroDivisionError("division by zero")
    assert other.value.__notes__ == ["Startup stopped at stage 'rates'."]
    assert [str(fact) for fact in told] == [
        "start.stage stage=models",
        "start.stage stage=prices",
        'start.failed stage=prices error="there are none"',
        "start.stage stage=rates",
        'start.failed stage=rates error="division by zero"',
    ]
    for wrong in ("", "connect", "a\nb", None):
        with pytest.raises(ConfigError, match="stage"):
            scheduler.stage(wrong)  # type: ignore[arg-type]


def test_program_with_a_guard_alone_has_stages_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with single_instance(f"sqlite:///{tmp_path}/app.db") as guard:
        with guard.stage("models"):
            pass
        with pytest.raises(ConfigError) as stopped, guard.stage("prices"):
            raise ConfigError("there are none")
        with pytest.raises(ConfigError, match="a stage of Tenure's own"):
            guard.stage("connect")
    assert stopped.value.stage == "prices"
    until(lambda: 'start.failed stage=prices error="there are none"' in caplog.messages, "it")


def test_names_that_are_given_are_looked_at_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    check_workers("SHOP_WORKERS", "SHOP_PROCESSES")
    monkeypatch.setenv("SHOP_PROCESSES", "2")
    with pytest.raises(ConfigError, match="SHOP_PROCESSES is 2"):
        check_workers("SHOP_WORKERS", "SHOP_PROCESSES")


def test_as_many_as_are_supported_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    check_workers(supported=3)
    with pytest.raises(ConfigError, match="supports 2 workers"):
        check_workers(supported=2)


def test_single_instance_checks_when_asked_and_guards_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("WEB_CONCURRENCY", "2")
    with pytest.raises(ConfigError, match="WEB_CONCURRENCY is 2") as told:
        single_instance(url, workers_env="WEB_CONCURRENCY")
    assert told.value.stage == "workers"
    assert len(told.value.__notes__) == 1
    until(lambda: any(m.startswith("start.failed stage=workers") for m in caplog.messages), "it")
    assert not (tmp_path / "app.db").exists()
    with single_instance(url) as guard:
        assert guard.held
        with pytest.raises(LeaseHeld) as held, single_instance(url):
            pass
    assert held.value.stage == "campaign"
    assert not any("campaign" in message for message in caplog.messages)  # the caller may expect it


@pytest.mark.parametrize("wrong", [True, 5, ["WEB_CONCURRENCY"], ""])
def test_what_is_not_the_name_of_a_variable_is_refused(wrong: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with pytest.raises(ConfigError, match="is not the name of an environment variable, such as"):
        check_workers(wrong)
    with pytest.raises(ConfigError, match="is not the name of an environment variable") as told:
        Scheduler(url, workers_env=wrong).start()
    assert told.value.stage == "workers"
    with pytest.raises(ConfigError, match="is not the name of an environment variable"):
        single_instance(url, workers_env=wrong).__enter__()
