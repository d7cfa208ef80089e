"""What `tenure doctor` says about those who read events."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.backends.address import Address
from tenure.cli.events.checks import check_groups, check_log, check_relays
from tenure.model import EventGroup, Finding, LeaseRecord, RelayStatus, Severity
from tenure.testing.sinks import event

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HERE = Address("sqlite:///ledger.db")
GROUP = EventGroup("ledger", "billing", 5, 0, None, NOW)
RELAY = RelayStatus("kafka", "kafka://broker", (), 5, 0, None, 0, 0, "", "", None, NOW)
RUNNING = ["tenure/relay/kafka"]
OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


def commands(finding: Finding) -> list[list[str]]:
    return [shlex.split(each) for each in re.findall("`([^`]*)`", finding.remedy or "")]


@pytest.mark.parametrize(
    ("oldest", "severity"),
    [
        (None, OK),
        (ago(hours=23), OK),
        (ago(days=2), WARNING),
        (ago(days=26, hours=23), WARNING),
        (ago(days=27, hours=1), PROBLEM),
        (ago(days=30), PROBLEM),
    ],
)
def test_alarm_before_a_group_loses_what_it_has_not_read(
    oldest: datetime | None, severity: Severity
) -> None:
    [found] = check_groups([replace(GROUP, oldest=oldest, unread=7)], NOW, HERE)
    assert found.severity is severity


def test_alarm_before_a_relay_loses_what_it_has_not_delivered() -> None:
    for oldest, severity in (
        (ago(minutes=4), OK),
        (ago(minutes=6), WARNING),
        (ago(days=27, hours=1), PROBLEM),
    ):
        for running in ([], RUNNING):
            late = replace(RELAY, oldest=oldest, unread=7)
            assert [f.severity for f in check_relays([late], running, NOW, HERE)] == [severity]


@pytest.mark.parametrize(
    ("retentions", "until"),
    [
        ([], "2026-02-26"),
        ([86_400.0], "2026-02-26"),
        ([60 * 86_400.0], "2026-09-26"),
        ([60 * 86_400.0, 30 * 86_400.0], "2026-05-29"),
        ([60 * 86_400.0, "7d"], "2026-09-26"),
        ([math.nan, -1, 1e300], "2026-02-26"),
    ],
)
def test_events_are_said_to_be_kept_as_long_as_the_nodes_keep_them(
    retentions: list[Any], until: str
) -> None:
    nodes = [_node(retention=each) for each in retentions]
    nodes.append(_node(retention=0.0, leads=False))  # it deletes nothing
    oldest = ago(days=31)
    of_group = check_groups([replace(GROUP, oldest=oldest, unread=7)], NOW, HERE, nodes)
    of_relay = check_relays([replace(RELAY, oldest=oldest, unread=7)], [], NOW, HERE, nodes)
    for found in (*of_group, *of_relay):
        assert f"from {until} on" in found.text
        assert found.severity is (PROBLEM if until == "2026-02-26" else WARNING)


def _node(**info: Any) -> LeaseRecord:
    return LeaseRecord(
        "tenure/node/x", 1, "x", "host", 1, 15.0, False, 0, None, None, None, True, info=info
    )


def test_relay_with_a_key_that_is_held_for_long_does_not_keep_up() -> None:
    held = replace(RELAY, oldest=ago(hours=2), held=1, reason="it answered 500")
    [found] = check_relays([held], RUNNING, NOW, HERE)
    assert found.severity is WARNING
    assert "it answered 500" in found.text


@pytest.mark.parametrize("led", [True, False])
def test_events_that_nobody_can_read_are_a_problem(led: bool) -> None:
    for recorded_at, wanted in ((ago(seconds=20), []), (ago(seconds=40), [PROBLEM])):
        oldest = replace(event(1), position=0, recorded_at=recorded_at)
        found = check_log(oldest, NOW, led=led)
        assert [each.severity for each in found] == wanted
        assert all(("start a node" in (each.remedy or "")) is not led for each in found)
    assert check_log(None, NOW, led=led) == []


@pytest.mark.parametrize("name", ["two words", "-x", "it's; true", "`id`"])
def test_suggested_commands_can_be_pasted_whatever_the_names_are(name: str) -> None:
    [of_group] = check_groups([replace(GROUP, name=name, oldest=ago(days=2))], NOW, HERE)
    idle = replace(RELAY, name=name, oldest=ago(days=2), unread=1, parked=1, ended="410")
    if "`" not in name:
        assert f"--drop={name}" in commands(of_group)[0]
        options = [c for f in check_relays([idle], [], NOW, HERE) for c in commands(f)]
        for wanted in (f"--resume={name}", f"--drop={name}", f"--relay={name}"):
            assert any(wanted in command for command in options)
    else:
        assert f"--drop={shlex.quote(name)}" in (of_group.remedy or "")
