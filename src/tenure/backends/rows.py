"""From rows of a SQL store to the model. The stores differ only in how they keep a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from types import NoneType
from typing import Any, Protocol, TypeVar, cast

from tenure.clock import EPOCH
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


Word = TypeVar("Word", bound=StrEnum)


def word(kind: type[Word], value: Any) -> Word:
    """What the store has, also if it is none of the words: newer code may know it, or somebody
    edited the row. It is then shown as it is, and is no reason for not seeing the others."""
    try:
        return kind(value)
    except ValueError:
        return cast(Word, str(value))


def schedule(row: Row, when: When) -> Schedule:
    """A row that cannot be read is shown as such, so that the others can be seen."""
    try:
        return _schedule(row, when)
    except (TypeError, ValueError, OverflowError) as error:
        unreadable: dict[str, Any] = dict.fromkeys(("next_nominal", "next_due"))
        unreadable |= {"created_at": None, "updated_at": None, "active": False}
        unreadable["reason"] = f"its row cannot be read: {error}"
        return _schedule(_Instead(row, unreadable), lambda _: EPOCH)


class _Instead:
    """A row, with other values for some columns."""

    def __init__(self, row: Row, values: dict[str, Any]) -> None:
        self._row = row
        self._values = values

    def __getitem__(self, name: str, /) -> Any:
        return self._values[name] if name in self._values else self._row[name]


def _schedule(row: Row, when: When) -> Schedule:
    return Schedule(
        uid=row["uid"],
        spec=ScheduleSpec(
            name=row["name"],
            trigger=row["trigger"],
            task=row["task"],
            kwargs=row["kwargs"],
            tenant=row["tenant"],
            app=row["app"],
            catch_up=word(CatchUp, row["catch_up"]),
            catch_up_limit=row["catch_up_limit"],
            catch_up_grace=row["catch_up_grace"],
            overlap=word(Overlap, row["overlap"]),
            lock=row["lock"],
            lock_rule=row["lock_rule"],
            priority=row["priority"],
            timeout=row["timeout"],
            retries=row["retries"],
            on_crash=word(OnCrash, row["on_crash"]),
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
        kind=word(Kind, row["kind"]),
        nominal=when(row["nominal"]),
        last=when(row["last"]),
        state=word(OccurrenceState, row["state"]),
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


_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "schedule": (str,),
    "task": (str,),
    "kwargs": (str,),
    "attempt": _NUMBER,
    "crashes": _NUMBER,
    "failures": _NUMBER,
    "lock": (str, NoneType),
    "priority": _NUMBER,
    "timeout": (*_NUMBER, NoneType),
    "retries": _NUMBER,
    "term": _NUMBER,
    "node": (str, NoneType),
    "error": (str, NoneType),
}
"""What may be in the columns of a run: SQLite takes anything."""
_typed = attrgetter(*_TYPES)
_MOMENTS = ("nominal", "due", "created_at", "claimed_at", "finished_at")


def run(row: Row, when: When) -> RunRecord:
    """A row that cannot be read says so, and is no reason for not seeing the others."""
    try:
        found = _run(row, when)
    except (TypeError, ValueError, OverflowError):
        return _unreadable(row, when)
    typed = all(map(isinstance, _typed(found), _TYPES.values()))
    return found if typed and not _is_nan(found.timeout) else _unreadable(row, when)


def _unreadable(row: Row, when: When) -> RunRecord:
    instead = {
        name: _blank(row[name], types)
        for name, types in (*_TYPES.items(), ("unbegun", _NUMBER))
        if not isinstance(row[name], types) or _is_nan(row[name])
    }
    instead |= {name: 0 for name in _MOMENTS if not _is_moment(row[name], when)}
    wrong = ", ".join(f"{name}={repr(row[name])[:100]}" for name in instead)
    reason = f"its row cannot be read: {wrong}"
    found = _run(_Instead(row, instead), lambda value: when(value) if value else EPOCH)
    return replace(found, unreadable=reason, error=found.error or reason)


def _blank(value: object, types: tuple[type, ...]) -> Any:
    if NoneType in types:
        return None
    return str(value) if str in types else 0


def _is_moment(value: Any, when: When) -> bool:
    try:
        _maybe(value, when)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _run(row: Row, when: When) -> RunRecord:
    return RunRecord(
        id=row["id"],
        schedule=row["schedule"],
        uid=row["schedule_uid"],
        kind=word(Kind, row["kind"]),
        nominal=when(row["nominal"]),
        task=row["task"],
        kwargs=row["kwargs"],
        state=word(RunState, row["state"]),
        due=when(row["due"]),
        attempt=row["attempt"] - row["unbegun"],
        crashes=row["crashes"],
        failures=row["failures"],
        lock=row["lock"],
        priority=row["priority"],
        timeout=row["timeout"],
        retries=row["retries"],
        on_crash=word(OnCrash, row["on_crash"]),
        term=row["term"],
        node=row["node"],
        created_at=when(row["created_at"]),
        claimed_at=_maybe(row["claimed_at"], when),
        finished_at=_maybe(row["finished_at"], when),
        error=row["error"],
        claim=row["attempt"],
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
