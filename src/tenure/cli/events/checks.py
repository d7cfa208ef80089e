"""The part of `tenure doctor` about those who read events: consumers, and relays."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from tenure.backends.address import Address, program, quoted
from tenure.backends.base import UNREAD_KEPT, unread_kept
from tenure.model import EventGroup, Finding, LeaseRecord, LoggedEvent, RelayStatus, Severity
from tenure.node.names import RELAY
from tenure.words import count, relative

UNREAD_LONG = timedelta(days=1)
UNPLACED_LONG = timedelta(seconds=30)
"""Otherwise it takes milliseconds, and a takeover a few seconds."""
STALE = timedelta(minutes=5)
"""A relay whose oldest event is older does not keep up."""
RETENTION_MOST = 1e9
"""In seconds, some 30 years: beyond, dates end."""
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


def kept_by(nodes: Iterable[LeaseRecord]) -> timedelta:
    """How long these keep what nobody has read; the shortest time, since each of them may lead.
    Anybody may have written the rows, and older code says nothing."""
    told = [node.info.get("retention") for node in nodes if node.info.get("leads") is not False]
    known = [each for each in told if isinstance(each, int | float) and 0 <= each < RETENTION_MOST]
    return timedelta(seconds=min(map(unread_kept, known), default=UNREAD_KEPT))


def check_groups(
    groups: list[EventGroup], now: datetime, at: Address, nodes: Iterable[LeaseRecord] = ()
) -> list[Finding]:
    """Which readers have not read for a long time. Events are kept for weeks, and then lost."""
    found, kept_for = [], kept_by(nodes)
    for group in groups:
        if group.oldest is None or now - group.oldest < UNREAD_LONG:
            continue
        kept = group.oldest + kept_for
        text = (
            f"group {group.name!r} of topic {group.topic!r} has not read {group.unread:,} events;"
            f" the oldest is from {group.oldest:%Y-%m-%d %H:%M} UTC, and may be deleted unread from"
            f" {kept:%Y-%m-%d} on"
        )
        remedy = (
            "Start its consumers. If it is not used any more:"
            f" `{at.command('events', 'groups', *_named(topic=group.topic, drop=group.name))}`."
        )
        severity = _PROBLEM if kept - now < UNREAD_LONG else _WARNING
        found.append(Finding("events", severity, text, remedy))
    if groups and not found:
        found.append(Finding("events", _OK, f"{len(groups)} groups of consumers keep up"))
    return found


def check_log(unplaced: LoggedEvent | None, now: datetime, *, led: bool) -> list[Finding]:
    """Events that no reader can see, because they have no position; this is the oldest of them."""
    if unplaced is None or now - unplaced.recorded_at < UNPLACED_LONG:
        return []
    text = (
        f"event {unplaced.id!r}, stored {relative(unplaced.recorded_at, now)}, has no position: no"
        " consumer or relay sees it"
    )
    remedy = (
        "The leader's log says what keeps it from giving positions; a trigger of yours on updates"
        " of the table can."
        if led
        else f"A leader gives positions: start a node, {program().run}."
    )
    return [Finding("events", _PROBLEM, text, remedy)]


def check_relays(
    relays: list[RelayStatus],
    running: Collection[str],
    now: datetime,
    at: Address,
    nodes: Iterable[LeaseRecord] = (),
) -> list[Finding]:
    """What is not delivered, and why. `running` has the leases of those that run."""
    found, kept_for = [], kept_by(nodes)
    for relay in relays:
        found += _of_relay(relay, RELAY + relay.name in running, now, at, kept_for)
    if relays and not found:
        found.append(Finding("relays", _OK, f"{count(len(relays), 'relay')}, all keep up"))
    return found


def _of_relay(
    relay: RelayStatus, runs: bool, now: datetime, at: Address, kept_for: timedelta
) -> list[Finding]:
    found = []
    name = f"relay {relay.name!r} to {relay.location}"
    if relay.ended is not None:
        text = f"{name} has ended, because the sink wants no more events: {relay.ended}"
        remedy = (
            "Ask its operators. To go on:"
            f" `{at.command('events', 'relays', *_named(resume=relay.name))}`; if it is not used"
            f" any more: `{at.command('events', 'relays', *_named(drop=relay.name))}`."
        )
        found.append(Finding("relays", _PROBLEM, text, remedy))
    if relay.parked:
        text = f"{name} has parked {count(relay.parked, 'event')}; the last reason: {relay.reason}"
        remedy = (
            "Mend what the sink complains of, then send them again, or give them up:"
            f" `{at.command('events', 'parked', '--replay', *_named(relay=relay.name))}`, or the"
            " same with --drop."
        )
        found.append(Finding("relays", _PROBLEM, text, remedy))
    if relay.oldest is None or now - relay.oldest < STALE:
        return found
    kept = relay.oldest + kept_for
    severity = _PROBLEM if kept - now < UNREAD_LONG else _WARNING
    text = (
        f"{name} has {count(relay.unread, 'event')} to deliver and {count(relay.held, 'key')} held;"
        f" the oldest event is from {relative(relay.oldest, now)}, and may be deleted undelivered"
        f" from {kept:%Y-%m-%d} on"
    )
    if not runs:
        remedy = (
            f"Nobody runs it: start it (`{at.command('relay', '--to', 'URL')}`). If it is not used"
            f" any more: `{at.command('events', 'relays', *_named(drop=relay.name))}`."
        )
        found.append(Finding("relays", severity, text, remedy))
    elif relay.trouble and relay.ended is None:
        remedy = "It tries again by itself, at least every 30 s: mend the sink."
        found.append(Finding("relays", severity, f"{text}; {relay.trouble}", remedy))
    elif relay.held:
        remedy = "It tries again, up to an hour apart: mend what the sink complains of."
        found.append(Finding("relays", severity, f"{text}; {relay.reason}", remedy))
    elif relay.unread or severity is _PROBLEM:
        remedy = f"Its log says what it does; `{at.command('events', 'relays')}` shows it."
        found.append(Finding("relays", severity, text, remedy))
    return found


def _named(**options: str) -> list[str]:
    """Options of a command, whatever their values begin with and contain."""
    return [f"--{name}={quoted(value)}" for name, value in options.items()]
