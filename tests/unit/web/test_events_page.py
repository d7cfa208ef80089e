"""How many events wait behind a parked one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tenure.model import LoggedEvent, ParkedEvent
from tenure.web.pages import events
from tenure.web.pages.events import Behind, behind

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def logged(position: int, key: str | None) -> LoggedEvent:
    about = ("ledger", "Paid", "/tenure/default", None, NOON, "{}", key)
    return LoggedEvent(f"e{position}", *about, {}, position, 0, None, NOON)


def parked(key: str | None) -> ParkedEvent:
    return ParkedEvent("hook", 3, "ledger", key, 9, "no answer", NOON, True, False, None)


def test_later_ones_of_the_same_key_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = [logged(0, "a"), logged(5, "b"), logged(4, "a"), logged(3, "a"), logged(2, "a")]
    assert behind(parked("a"), newest) == Behind(2, whole=True)
    assert behind(parked(None), newest) == Behind(3, whole=True)
    monkeypatch.setattr(events, "COUNTED", 2)
    assert behind(parked("a"), newest[:2]) == Behind(1, whole=False)
