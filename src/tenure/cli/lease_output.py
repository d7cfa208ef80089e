"""Leases, locks and their history, in words and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tenure.cli.output import exactly, iso
from tenure.model import LeaseRecord, RunRecord, Tenure


def state(record: LeaseRecord, now: datetime) -> str:
    """free, live, expired, or overdue: its time is up, but the store cannot judge that at one look
    (the machine was restarted), so a candidate watches it for a ttl first."""
    if record.holder is None:
        return "free"
    if not record.live:
        return "expired"
    return "live" if record.expires_at is None or record.expires_at > now else "overdue"


def lease_json(record: LeaseRecord, now: datetime) -> dict[str, Any]:
    return {
        "kind": "lease",
        "name": record.name,
        "state": state(record, now),
        "live": record.live,
        "term": record.term,
        "holder": record.holder,
        "host": record.host,
        "pid": record.pid,
        "since": iso(record.acquired_at),
        "renewed_at": iso(record.renewed_at),
        "expires_at": iso(record.expires_at),
        "ttl": record.ttl,
        "fenced": record.fenced,
        "info": dict(record.info),
        "unreadable": record.unreadable,
    }


def lock_expires(run: RunRecord, presences: Mapping[str | None, LeaseRecord]) -> datetime | None:
    """When the lock key of a claimed run would be free if its node fell silent."""
    presence = presences.get(run.node)
    return None if presence is None else presence.expires_at


def lock_json(run: RunRecord, presence: LeaseRecord | None) -> dict[str, Any]:
    """It lives as long as the presence of the node that has claimed the run."""
    live = presence is not None and presence.live
    return {
        "kind": "lock",
        "name": run.lock,
        "state": "live" if live else "expired",
        "live": live,
        "term": run.term,
        "holder": run.node,
        "host": presence and presence.host,
        "pid": presence and presence.pid,
        "renewed_at": iso(presence.renewed_at) if presence else None,
        "expires_at": iso(presence.expires_at) if presence else None,
        "run": run.id,
        "schedule": run.schedule,
        "attempt": run.attempt,
        "since": iso(run.claimed_at),
    }


def tenure_json(line: Tenure) -> dict[str, Any]:
    return {
        "name": line.name,
        "term": line.term,
        "holder": line.holder,
        "host": line.host,
        "pid": line.pid,
        "since": iso(line.acquired_at),
        "ended_at": iso(line.ended_at),
        "end": line.end,
    }


def lease_facts(record: LeaseRecord, now: datetime) -> list[tuple[str, object]]:
    held = record.holder is not None
    return [
        ("Lease", record.name),
        ("State", state(record, now)),
        ("Term", record.term),
        ("Holder", record.holder),
        ("Host", record.host),
        ("Pid", record.pid),
        ("Since", exactly(record.acquired_at, now) if held else None),
        ("Renewed", exactly(record.renewed_at, now) if held else None),
        ("Expires", exactly(record.expires_at, now) if held else None),
        ("Ttl", f"{record.ttl:g} s"),
        ("Fenced", "yes: writes of an older term are refused" if record.fenced else None),
        ("Info", json.dumps(dict(record.info)) if record.info else None),
        ("Unreadable", record.unreadable),
    ]
