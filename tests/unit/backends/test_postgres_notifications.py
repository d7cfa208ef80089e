"""When a process notifies, and when it does without."""

from __future__ import annotations

import logging
from importlib.resources import files

import pytest

from tenure.backends.postgres.notifications import (
    NEARLY_FULL,
    SILENCE,
    Notifications,
    finding,
    notifies,
    quiet,
)
from tenure.backends.postgres.statements import PACKAGE, statements
from tenure.errors import StoreUnavailable
from tenure.model import Severity
from tenure.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def notifications(clock: FakeClock) -> Notifications:
    return Notifications(clock)


def notifying(file: str) -> list[str]:
    return [t for t in statements(f"sql/{file}", "tenure").values() if "pg_notify(" in t]


def test_every_notification_can_be_left_out() -> None:
    # Not statements of stores; those whose only purpose is to notify; and those of the next test.
    others = {"copying.sql", "rights.sql", "session.sql", "wakeups.sql", "lending.sql"}
    files_of_stores = {file.name for file in files(PACKAGE).joinpath("sql").iterdir()} - others
    found = [text for file in sorted(files_of_stores) for text in notifying(file)]
    assert len(found) == 11
    for text in found:
        assert notifies(text)
        assert "pg_notify" not in quiet((text, {}))[0]


def test_lent_transactions_look_whether_the_queue_is_full() -> None:
    found = notifying("lending.sql")
    assert found
    for text in found:
        assert f"pg_notification_queue_usage() < {NEARLY_FULL}" in text


def test_silence_ends_with_one_try(notifications: Notifications, clock: FakeClock) -> None:
    assert notifications.may_notify()
    notifications.looked(1.0)
    assert notifications.silent
    assert not notifications.may_notify()
    clock.advance(SILENCE + 0.1)
    assert notifications.may_notify()
    assert not notifications.may_notify()
    notifications.worked()
    assert notifications.may_notify()
    assert notifications.may_notify()


def test_room_in_the_queue_ends_the_silence(notifications: Notifications) -> None:
    notifications.looked(NEARLY_FULL)
    notifications.looked(0.7)
    assert notifications.silent
    notifications.looked(0.1)
    assert notifications.may_notify()


def test_told_once(
    notifications: Notifications, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tenure")
    for _ in range(3):
        notifications.looked(1.0)
        clock.advance(2 * SILENCE)
    notifications.worked()
    notifications.worked()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_other_errors_are_not_meant(notifications: Notifications) -> None:
    assert not notifications.refused(StoreUnavailable("the line is cut"))
    assert not notifications.silent


@pytest.mark.parametrize(
    ("used", "severity"),
    [(0.0, Severity.OK), (0.5, Severity.OK), (0.6, Severity.WARNING), (0.95, Severity.PROBLEM)],
)
def test_finding(used: float, severity: Severity) -> None:
    assert finding(used, []).severity is severity
