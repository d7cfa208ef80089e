"""Telling facts."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tenure.facts import Fact, Facts, LeaseAcquired, LeaseLoss, log


def test_who_listens_hears_what_matches_also_when_it_comes_later() -> None:
    heard: list[tuple[str, str]] = []
    facts = Facts()
    facts.on("lease.*", lambda fact: heard.append(("early", fact.name)))
    facts.tell(LeaseLoss("import", 3, "me"))
    facts.on("lease.lost", lambda fact: heard.append(("late", fact.name)))
    facts.tell(LeaseLoss("import", 3, "me"))
    facts.tell(LeaseAcquired("import", 4, "me"))
    assert heard == [
        ("early", "lease.lost"),
        ("early", "lease.lost"),
        ("late", "lease.lost"),
        ("early", "lease.acquired"),
    ]


def test_a_listener_that_raises_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Fact] = []

    def broken(fact: Fact) -> None:
        raise ValueError("broken")

    facts = Facts()
    facts.on("*", broken)
    facts.on("*", heard.append)
    facts.tell(LeaseLoss("import", 3, "me"))
    assert len(heard) == 1
    assert "a listener failed on lease.lost" in caplog.text


def test_without_a_thread_to_tell_it_who_tells_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def refused(job: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    facts = Facts(defer=refused)
    facts.on("*", lambda fact: None)
    facts.tell(LeaseLoss("import", 3, "me"))
    assert "nobody could be told lease.lost lease=import" in caplog.text


def test_what_no_logger_wants_wakes_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    deferred: list[Callable[[], None]] = []
    facts = Facts(defer=deferred.append)
    facts.on("*", log)
    with caplog.at_level(logging.WARNING, logger="tenure"):
        facts.tell(LeaseAcquired("import", 3, "me"))
        assert not deferred
        facts.tell(LeaseLoss("import", 3, "me"))
    assert len(deferred) == 1
    deferred.pop()()
    assert "lease.lost lease=import term=3" in caplog.text


def test_a_fact_is_heard_while_somebody_listens_or_its_logger_wants_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = Facts()
    assert not facts.heard(LeaseLoss)
    facts.on("*", log)
    with caplog.at_level(logging.ERROR, logger="tenure.lease"):
        assert not facts.heard(LeaseLoss)
    with caplog.at_level(logging.DEBUG, logger="tenure.lease"):
        assert facts.heard(LeaseLoss)
    with caplog.at_level(logging.ERROR, logger="tenure.lease"):
        facts.on("lease.lost", lambda _: None)
        assert facts.heard(LeaseLoss)
        assert not facts.heard(LeaseAcquired)
