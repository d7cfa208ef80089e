"""The check on worker-count variables: early, plain, and no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure import check_workers, single_instance
from tenure.errors import ConfigError


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)


@pytest.mark.parametrize("value", [None, "", "1", " 1 ", "0", "auto", "-3", "1.5"])
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    monkeypatch.setenv("WEB_CONCURRENCY", "2")
    with pytest.raises(ConfigError, match="WEB_CONCURRENCY is 2"):
        single_instance(url, workers_env="WEB_CONCURRENCY")
    assert not (tmp_path / "app.db").exists()
    with single_instance(url) as guard:
        assert guard.held
