"""Transactional tasks: what they write and their run commit together.

effects     a run of a transactional task has succeeded if its transaction was committed, and in no
            other way; it is committed once, unless somebody insists on a retry. A node tells of a
            success only if it was
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tenure.facts import RunSucceeded
from tenure.model import RunRecord, RunState
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    EFFECT,
    FACT,
    RUN,
    STORE,
    TRANSACTIONAL,
    Call,
    Event,
    History,
    show,
)


def check_effects(history: History) -> Iterator[Violation]:
    effects: Counter[int] = Counter()
    for place, event in history.of(STORE, RUN, FACT):
        for text in _see(event, effects):
            yield Violation("effects", text, place, history)


def _see(event: Event, effects: Counter[int]) -> Iterator[str]:
    detail = event.detail
    if event.kind == STORE:
        for run in _committed(detail):
            effects[run] += 1
            if effects[run] > 1:
                yield f"the effects of run {run} were committed {effects[run]} times"
        if detail.op == "retry" and detail.error is None:
            for run, done in detail.result.items():
                effects[run] = 0 if done else effects[run]
    elif event.kind == FACT and isinstance(detail, RunSucceeded):
        if detail.task.startswith(TRANSACTIONAL) and not effects[detail.run]:
            yield f"run {detail.run} of {detail.task} succeeded, it is told, without its effects"
    elif (
        isinstance(detail, RunRecord)
        and detail.task.startswith(TRANSACTIONAL)
        and (detail.state is RunState.SUCCEEDED) != bool(effects[detail.id])
    ):
        yield f"{show(detail)}: its effects were committed {effects[detail.id]} times"


def _committed(call: Call) -> Iterator[int]:
    """The runs whose effects were committed by this call."""
    if call.op == "claim" and call.error is None and len(call.args) > 3:
        for result, kept in zip(call.args[3], call.result.kept, strict=True):
            if kept and result.value == EFFECT:
                yield result.run_id
