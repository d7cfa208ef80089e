"""From rows of a SQL store to the model. The stores differ only in how they keep a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any, Protocol

from tenure.model import (
    CatchUp,
    Change,
    Kind,
    Occurrence,
    OccurrenceState,
    OnCrash,
    Overlap,
    Release,
    RunRecord,
    RunState,
    Schedule,
    ScheduleSpec,
)


class Row(Protocol):
    """A row whose columns are found by name."""

    def __getitem__(self, name: str, /) -> Any: ...


When = Callable[[Any], datetime]
"""Turns what the store keeps into a moment."""


def schedule(row: Row, when: When) -> Schedule:
    return Schedule(
        uid=row["uid"],
        spec=ScheduleSpec(
            name=row["name"],
            trigger=row["trigger"],
            task=row["task"],
            kwargs=row["kwargs"],
            tenant=row["tenant"],
            app=row["app"],
            catch_up=CatchUp(row["catch_up"]),
            catch_up_limit=row["catch_up_limit"],
            catch_up_grace=row["catch_up_grace"],
            overlap=Overlap(row["overlap"]),
            lock=row["lock"],
            lock_rule=row["lock_rule"],
            priority=row["priority"],
            timeout=row["timeout"],
            retries=row["retries"],
            on_crash=OnCrash(row["on_crash"]),
            definition=row["definition"],
        ),
        active=bool(row["active"]),
        next_nominal=_maybe(row["next_nominal"], when),
        next_due=_maybe(row["next_due"], when),
        version=row["version"],
        created_at=when(row["created_at"]),
        updated_at=when(row["updated_at"]),
        reason=row["reason"],
    )


def stored(change: Change, uid: int, now: datetime) -> Schedule:
    """What a change comes to. The lock key is the schedule's own unless one was given."""
    old, spec = change.replaces, change.spec
    return Schedule(
        uid=uid,
        spec=spec if spec.lock is not None else _with_lock(spec, f"schedule:{uid}"),
        active=change.active,
        next_nominal=change.next_nominal,
        next_due=change.next_due,
        version=1 if old is None else old.version + 1,
        created_at=now if old is None else old.created_at,
        updated_at=now,
        reason=change.reason,
    )


_BEFORE, _, _AFTER = ",".join(ScheduleSpec.__dataclass_fields__).partition(",lock,")
_before, _after = attrgetter(*_BEFORE.split(",")), attrgetter(*_AFTER.split(","))


def _with_lock(spec: ScheduleSpec, lock: str) -> ScheduleSpec:
    """What `replace` does, at a third of its cost: there may be ten thousand."""
    fields: list[Any] = [*_before(spec), lock, *_after(spec)]
    return ScheduleSpec(*fields)


def occurrence(row: Row, when: When) -> Occurrence:
    return Occurrence(
        schedule=row["schedule"],
        uid=row["schedule_uid"],
        kind=Kind(row["kind"]),
        nominal=when(row["nominal"]),
        last=when(row["last"]),
        state=OccurrenceState(row["state"]),
        reason=row["reason"],
        recorded_at=when(row["recorded_at"]),
        term=row["term"],
        run_id=row["run_id"],
    )


def release(row: Row, when: When) -> Release:
    return Release(
        digest=row["digest"],
        definitions=json.loads(row["definitions"]),
        number=row["number"],
        announced_at=when(row["announced_at"]),
    )


def run(row: Row, when: When) -> RunRecord:
    return RunRecord(
        id=row["id"],
        schedule=row["schedule"],
        uid=row["schedule_uid"],
        kind=Kind(row["kind"]),
        nominal=when(row["nominal"]),
        task=row["task"],
        kwargs=row["kwargs"],
        state=RunState(row["state"]),
        due=when(row["due"]),
        attempt=row["attempt"],
        crashes=row["crashes"],
        failures=row["failures"],
        lock=row["lock"],
        priority=row["priority"],
        timeout=row["timeout"],
        retries=row["retries"],
        on_crash=OnCrash(row["on_crash"]),
        term=row["term"],
        node=row["node"],
        created_at=when(row["created_at"]),
        claimed_at=_maybe(row["claimed_at"], when),
        finished_at=_maybe(row["finished_at"], when),
        error=row["error"],
    )


def values(change: Change, moment: Callable[[datetime], Any]) -> dict[str, Any]:
    """The columns of a schedule, for writing."""
    spec = change.spec
    return {
        "name": spec.name,
        "tenant": spec.tenant,
        "app": spec.app,
        "trigger": spec.trigger,
        "task": spec.task,
        "kwargs": spec.kwargs,
        "catch_up": str(spec.catch_up),
        "catch_up_limit": spec.catch_up_limit,
        "catch_up_grace": spec.catch_up_grace,
        "overlap": str(spec.overlap),
        "lock": spec.lock,
        "lock_rule": spec.lock_rule,
        "priority": spec.priority,
        "timeout": spec.timeout,
        "retries": spec.retries,
        "on_crash": str(spec.on_crash),
        "definition": spec.definition,
        "active": change.active,
        "reason": change.reason,
        "next_nominal": _maybe(change.next_nominal, moment),
        "next_due": _maybe(change.next_due, moment),
    }


def _maybe(value: Any, turn: Callable[[Any], Any]) -> Any:
    return None if value is None else turn(value)
