"""From rows of runs to the model: thousands a second, so the usual ones take a shorter way.

Columns of PostgreSQL have types, so nearly every row is as it should be. `shared/rows.py`, which
takes nothing for granted, reads those that are not: times that Python cannot represent, words that
only newer code knows, a timeout that is no number.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from operator import itemgetter
from types import NoneType

from tenure.backends.postgres.statements import Rows, as_it_is
from tenure.backends.shared import rows as from_rows
from tenure.model import Kind, OnCrash, RunRecord, RunState

_Types = tuple[type, ...]
_TEXT: _Types = (str,)
_NUMBER: _Types = (int,)
_MOMENT: _Types = (datetime,)
_EMPTY: _Types = (NoneType,)
_COLUMNS: dict[str, _Types] = {
    "id": _NUMBER,
    "schedule": _TEXT + _EMPTY,
    "schedule_uid": _NUMBER + _EMPTY,
    "kind": _TEXT,
    "nominal": _MOMENT,
    "task": _TEXT,
    "kwargs": _TEXT,
    "state": _TEXT,
    "due": _MOMENT,
    "attempt": _NUMBER,
    "unbegun": _NUMBER,
    "crashes": _NUMBER,
    "failures": _NUMBER,
    "lock": _TEXT + _EMPTY,
    "priority": _NUMBER,
    "timeout": (float, NoneType),
    "retries": _NUMBER,
    "on_crash": _TEXT,
    "term": _NUMBER,
    "node": _TEXT + _EMPTY,
    "created_at": _MOMENT,
    "claimed_at": _MOMENT + _EMPTY,
    "finished_at": _MOMENT + _EMPTY,
    "error": _TEXT + _EMPTY,
    "tenant": _TEXT + _EMPTY,
    "cancel_requested_at": _MOMENT + _EMPTY,
    "result": _TEXT + _EMPTY,
    "traceparent": _TEXT + _EMPTY,
}
"""In the order of the fields of `RunRecord`, and which types of values are as they should be."""
_values = itemgetter(*_COLUMNS)
_KINDS = {str(kind): kind for kind in Kind}
_STATES = {str(state): state for state in RunState}
_ON_CRASH = {str(what): what for what in OnCrash}
_usual: dict[_Types, bool] = {}
"""Is a row whose values have these types as it should be? There are few such combinations."""
_by_hand = partial(from_rows.run, when=as_it_is)


def run(row: dict[str, object]) -> RunRecord:
    """The same as the general way, at less than half the cost."""
    values = _values(row)
    types = tuple(map(type, values))
    usual = _usual.get(types)
    if usual is None:
        usual = all(one in known for one, known in zip(types, _COLUMNS.values(), strict=True))
        _usual[types] = usual
    if not usual:
        return _by_hand(row)
    # fmt: off
    (id_, schedule, uid, kind, nominal, task, kwargs, state, due, claim, unbegun, crashes, failures,
     lock, priority, timeout, retries, on_crash, term, node, created, claimed, finished, error,
     tenant, cancel, result, trace) = values
    # fmt: on
    try:
        kind, state, on_crash = _KINDS[kind], _STATES[state], _ON_CRASH[on_crash]
    except KeyError:
        return _by_hand(row)
    if timeout != timeout:  # it is no number
        return _by_hand(row)
    # fmt: off
    return RunRecord(
        id_, schedule, uid, kind, nominal, task, kwargs, state, due, claim - unbegun, crashes,
        failures, lock, priority, timeout, retries, on_crash, term, node, created, claimed,
        finished, error, claim, None, tenant or None, cancel, result, trace,
    )
    # fmt: on


def begun(rows: Rows) -> list[RunRecord]:
    """The claimed runs, in the order in which to start them. There may be a row without one."""
    claimed = [row for row in rows if row["id"] is not None]
    claimed.sort(key=lambda r: (r.get("place", 0), -r["priority"], r["due"], r["id"]))
    return [run(row) for row in claimed]


def end_first(rows: Rows) -> Rows:
    """The rows of the statement `claim`: first the one without a run, which has the rest."""
    rows.sort(key=lambda row: row["now"] is None)
    return rows
