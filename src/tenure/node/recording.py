"""Brings results to the store: all in one call, or one by one if the store cannot take them so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tenure.backends.base import RunStore
from tenure.errors import SchemaMismatch, StoreUnavailable
from tenure.facts import RunEnded, RunFact, RunFailed
from tenure.model import ClaimBatch, Result, RunState
from tenure.tasks.outcomes import Outcome, as_error

NOT_ITS_FAULT = (StoreUnavailable, SchemaMismatch, TimeoutError, OSError)
"""What says nothing about a result."""
_ENDED = {RunState.SUCCEEDED: "succeeded", RunState.WAITING: "was to be run again"}


async def recorded(
    runs: RunStore, outcomes: Sequence[Outcome], timeout: float
) -> tuple[list[Outcome], ClaimBatch]:
    """What was reported, and the answer. A result that the store refuses even alone, without being
    unavailable, would keep the others back for ever: its run is recorded as failed instead."""
    try:
        return list(outcomes), await _report(runs, outcomes, timeout)
    except NOT_ITS_FAULT:
        raise
    except Exception:  # noqa: BLE001 - what cannot be encoded may raise anything
        answers = [await _alone(runs, outcome, timeout) for outcome in outcomes]
    batches = [batch for _, batch in answers]
    return [outcome for outcome, _ in answers], ClaimBatch(
        batches[-1].now,
        [],
        batches[-1].next_due,
        [counted for batch in batches for counted in batch.kept],
        frozenset[int]().union(*(batch.cancelled for batch in batches)),
        frozenset[int]().union(*(batch.held for batch in batches)),
    )


async def _alone(runs: RunStore, outcome: Outcome, timeout: float) -> tuple[Outcome, ClaimBatch]:
    try:
        return outcome, await _report(runs, [outcome], timeout)
    except NOT_ITS_FAULT:
        raise
    except Exception as error:  # noqa: BLE001
        instead = _refused(outcome, error)
        return instead, await _report(runs, [instead], timeout)


def lasted(fact: RunFact) -> float | None:
    """How long the attempt took, if it had begun."""
    return fact.took if isinstance(fact, RunEnded) else None


def _refused(outcome: Outcome, error: Exception) -> Outcome:
    result, fact = outcome
    said = as_error(f"it {_ENDED.get(result.state, 'ended')}, but the store refused that: {error}")
    about = (fact.run, fact.task, fact.schedule, fact.nominal, fact.attempt, result.node)
    failed = Result(result.run_id, result.claim, result.node, RunState.FAILED, said, failed=True)
    return failed, RunFailed(*about, took=lasted(fact), error=said)


async def _report(runs: RunStore, outcomes: Sequence[Outcome], timeout: float) -> ClaimBatch:
    results = [result for result, _ in outcomes]
    async with asyncio.timeout(timeout):
        return await runs.claim(results[0].node, (), 0, results)
