"""From rows of a SQL store to the model. The stores differ only in how they store a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, cast

from tenure.backends.shared.event_rows import content, emitted
from tenure.backends.shared.lease_rows import known_term
from tenure.model import (
    OWN_LOCK,
    CatchUp,
    Change,
    Edition,
    Kind,
    Occurrence,
    OccurrenceState,
    OnCrash,
    OnFailure,
    Overlap,
    RunRecord,
    RunState,
    Schedule,
    ScheduleSpec,
    TaskRule,
    Tenure,
)
from tenure.printable import brief
from tenure.process.clock import EPOCH


class Row(Protocol):
    """A row whose columns are found by name."""

    def __getitem__(self, name: str, /) -> Any: ...


When = Callable[[Any], datetime]
"""Converts a stored time."""


Word = TypeVar("Word", bound=StrEnum)


@lru_cache(maxsize=256, typed=True)
def word(kind: type[Word], value: Any) -> Word:
    """The stored word. One that this code does not know, because newer code wrote it or the row
    was edited by hand, is kept as it is, so that the other rows can be shown."""
    try:
        return kind(value)
    except ValueError:
        return cast(Word, str(value))


def schedule(row: Row, when: When) -> Schedule:
    """A schedule. An unreadable row becomes one that says so, so that the others can be shown."""
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
            task=_shown(row["task"]),
            kwargs=row["kwargs"],
            tenant=_maybe(row["tenant"], _shown),
            app=_maybe(row["app"], _shown),
            catch_up=word(CatchUp, row["catch_up"]),
            catch_up_limit=row["catch_up_limit"],
            catch_up_grace=row["catch_up_grace"],
            overlap=word(Overlap, row["overlap"]),
            lock=row["lock"],
            lock_rule=_maybe(row["lock_rule"], _shown),
            priority=row["priority"],
            timeout=row["timeout"],
            retries=row["retries"],
            on_crash=word(OnCrash, row["on_crash"]),
            definition=_shown(row["definition"]),
            event=content(row),
        ),
        active=bool(row["active"]),
        next_nominal=_maybe(row["next_nominal"], when),
        next_due=_maybe(row["next_due"], when),
        version=row["version"],
        created_at=when(row["created_at"]),
        updated_at=when(row["updated_at"]),
        reason=_maybe(row["reason"], _shown),
    )


def stored(change: Change, uid: int, now: datetime) -> Schedule:
    """The schedule that a change results in. Without a lock key it gets one of its own."""
    old, spec = change.replaces, change.spec
    return Schedule(
        uid=uid,
        spec=spec if spec.lock is not None else _with_lock(spec, f"{OWN_LOCK}{uid}"),
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
    """Like `dataclasses.replace`, at a third of the cost: there may be ten thousand."""
    fields: list[Any] = [*_before(spec), lock, *_after(spec)]
    return ScheduleSpec(*fields)


def occurrence(row: Row, when: When) -> Occurrence:
    """An occurrence. What cannot be read is blank, and its reason says what that is."""
    moments = {name: _moment(row[name], when) for name in ("nominal", "last", "recorded_at")}
    wrong = [f"{name}={brief(row[name])}" for name, found in moments.items() if found is None]
    reason = None if row["reason"] is None else _shown(row["reason"])
    if wrong:
        reason = f"its row cannot be read: {', '.join(wrong)}"
    return Occurrence(
        schedule=row["schedule"],
        uid=row["schedule_uid"],
        kind=word(Kind, row["kind"]),
        nominal=moments["nominal"] or EPOCH,
        last=moments["last"] or EPOCH,
        state=word(OccurrenceState, row["state"]),
        reason=reason,
        recorded_at=moments["recorded_at"] or EPOCH,
        term=known_term(row["term"]),
        run_id=row["run_id"],
    )


def recent(rows: Iterable[Row]) -> dict[int, list[str]]:
    """The states of occurrences, by schedule."""
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["uid"], []).append(_shown(row["state"]))
    return found


def edition(row: Row, when: When) -> Edition:
    """An edition. One with unreadable definitions says so: it may declare anything."""
    definitions, tasks = _definitions(row["definitions"]), _rules(row["tasks"])
    return Edition(
        digest=row["digest"],
        definitions=definitions or {},
        number=row["number"],
        announced_at=_moment(row["announced_at"], when),
        unreadable=definitions is None or tasks is None,
        tasks=tasks or {},
    )


def _definitions(text: Any) -> dict[str, str] | None:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        return None
    return found


def rule(row: Mapping[str, Any] | Row) -> TaskRule:
    """What holds for a task; nothing, where it cannot be read."""

    def read(name: str, kind: type[Any] | UnionType, otherwise: Any = None) -> Any:
        value = row[name]
        return value if isinstance(value, kind) and not isinstance(value, bool) else otherwise

    most, task = read("max_running", int, 0), read("on_failure", str)
    failure = (
        None
        if task is None
        else OnFailure(
            task,
            read("lock", str),
            read("priority", int, 0),
            read("timeout", int | float),
            read("retries", int, 0),
            OnCrash.ABANDON if row["on_crash"] == OnCrash.ABANDON else OnCrash.RERUN,
        )
    )
    return TaskRule(most if most > 0 else None, failure)


def rule_columns(rule: TaskRule) -> dict[str, Any]:
    """A rule as a row has it."""
    failure = rule.on_failure
    names = ("lock", "priority", "timeout", "retries", "on_crash")
    return {
        "max_running": rule.max_running,
        "on_failure": None if failure is None else failure.task,
        **{name: None if failure is None else getattr(failure, name) for name in names},
    }


def written_rules(rules: Mapping[str, TaskRule]) -> str:
    """As an edition has them, without what they leave open."""
    told = ((task, rule_columns(rule).items()) for task, rule in rules.items())
    return json.dumps({task: {k: v for k, v in items if v is not None} for task, items in told})


def _rules(text: Any) -> dict[str, TaskRule] | None:
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    blank = rule_columns(TaskRule())
    return {task: rule({**blank, **told}) for task, told in found.items()}


def tenure(row: Row, when: When) -> Tenure:
    """A line of history, with blanks for what cannot be read."""
    return Tenure(
        name=_shown(row["name"]),
        term=known_term(row["term"]),
        holder=_shown(row["holder"]),
        host=_shown(row["host"]),
        pid=row["pid"] if isinstance(row["pid"], int) else 0,
        acquired_at=_moment(row["acquired_at"], when) or EPOCH,
        ended_at=_moment(row["ended_at"], when),
        end=None if row["reason"] is None else _shown(row["reason"]),
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else brief(value)


def _moment(value: Any, when: When) -> datetime | None:
    return None if value is None or not _is_moment(value, when) else when(value)


_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    "schedule": (str, NoneType),
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
"""The types of a run's columns. They are checked, because SQLite stores anything."""
_typed = attrgetter(*("arguments" if name == "kwargs" else name for name in _TYPES))
_MOMENTS = ("nominal", "due", "created_at", "claimed_at", "finished_at")


def run(row: Row, when: When) -> RunRecord:
    """A run. An unreadable row becomes one that says so, so that the others can be shown."""
    try:
        found = _run(row, when)
    except (TypeError, ValueError, OverflowError):
        return _unreadable(row, when)
    typed = all(map(isinstance, _typed(found), _TYPES.values()))
    return found if typed and not _is_nan(found.timeout) else _unreadable(row, when)


def with_name(run: RunRecord, row: Row) -> RunRecord:
    """The run, with the name `named` that its schedule has now: it may have been renamed."""
    name = row["named"]
    same = name == run.schedule or not isinstance(name, str)
    return run if same else replace(run, schedule=name)


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
        arguments=row["kwargs"],
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
        tenant=_shown(row["tenant"]) if row["tenant"] else None,
        cancel_requested_at=_moment(row["cancel_requested_at"], when),
        result=_maybe(row["result"], _shown),
        traceparent=_maybe(row["traceparent"], _shown),
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
        **emitted(spec),
        "active": change.active,
        "reason": change.reason,
        "next_nominal": _maybe(change.next_nominal, moment),
        "next_due": _maybe(change.next_due, moment),
    }


def _maybe(value: Any, turn: Callable[[Any], Any]) -> Any:
    return None if value is None else turn(value)
