"""Cancelling and retrying runs on SQLite: in one transaction, with the marks of their lock keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from tenure.backends.shared.sql import load
from tenure.backends.sqlite import claims
from tenure.model import CANCELLED_WAITING, PENDING, RETRIED, Cancelling, Result, RunState

_sql = load("tenure.backends.sqlite", "sql/control.sql")


def cancel(
    c: sqlite3.Connection, namespace: str, ids: Sequence[int], now: int
) -> dict[int, Cancelling]:
    """The outcome for each run that exists."""
    states = _states(c, namespace, ids)
    waiting = [id_ for id_, state in states.items() if state == RunState.WAITING]
    claimed = [id_ for id_, state in states.items() if state == RunState.CLAIMED]
    values = {"now": now, "error": CANCELLED_WAITING}
    if waiting:
        c.execute(_sql["cancel"], values | {"ids": json.dumps(waiting)})
        claims.mark(c, namespace, waiting)
    if claimed:
        c.execute(_sql["request"], values | {"ids": json.dumps(claimed)})
    done = dict.fromkeys(states, Cancelling.ENDED)
    done |= dict.fromkeys(waiting, Cancelling.CANCELLED)
    return done | dict.fromkeys(claimed, Cancelling.REQUESTED)


def retry(
    c: sqlite3.Connection, namespace: str, ids: Sequence[int], now: int, *, even_succeeded: bool
) -> dict[int, bool]:
    """For each run that exists: does it wait again?"""
    allowed = (*RETRIED, *([RunState.SUCCEEDED] * even_succeeded))
    done = {id_: state in allowed for id_, state in _states(c, namespace, ids).items()}
    if chosen := [id_ for id_, again in done.items() if again]:
        c.execute(_sql["retry"], {"now": now, "ids": json.dumps(chosen)})
        claims.mark(c, namespace, chosen)
    return done


def keep_late(c: sqlite3.Connection, results: Iterable[Result]) -> None:
    """Add the results of tasks whose runs were recorded as succeeded before they returned."""
    for r in results:
        if r.state is RunState.SUCCEEDED:
            values = {"id": r.run_id, "claim": r.claim, "node": r.node, "pending": PENDING}
            c.execute(_sql["keep_late"], values | {"value": r.value, "error": r.error})


def cancelling(c: sqlite3.Connection, namespace: str, node: str) -> list[tuple[int, int]]:
    values = {"namespace": namespace, "node": node}
    return [(id_, claim) for id_, claim in c.execute(_sql["cancelling"], values)]


def _states(c: sqlite3.Connection, namespace: str, ids: Sequence[int]) -> dict[int, str]:
    values = {"namespace": namespace, "ids": json.dumps(list(ids))}
    return dict(tuple(row) for row in c.execute(_sql["states"], values))
