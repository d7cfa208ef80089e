"""Runs: added, claimed, finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tenure.model import (
    Attempt,
    Cancelling,
    ClaimBatch,
    Fence,
    NewRun,
    Pruned,
    Recovered,
    Report,
    Result,
    RunRecord,
)


class RunStore(Protocol):
    """Runs: waiting, claimed by one node at a time, finished.

    A claim costs the same however many runs wait. A store that needs marks for that marks a waiting
    run *ready* if a claim may have to take it. That is every run without a lock key, and of each
    lock key, task and priority the first one (runs that have begun first, then by due time and id),
    unless a run of the key is claimed, or one of the key and task with a higher priority has begun.
    Due times play no part, so that marks change only when runs change, never as time passes. More
    may be marked than necessary, but never fewer: a claim looks at nothing else.
    """

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        """Add a run without a schedule, and wake the workers. Returns the run, and whether it is
        new.

        - Its nominal time is `at`, or `delay` seconds from now by the store's clock. It is due then
          or, if that has passed, now. From then on it is a run like any other.
        - As long as a run is kept, repeating its task and key returns it as it is by now, whatever
          the other arguments are. Of several calls at the same time one adds it.
        - If a transaction that is still open has added it, the call waits for its end, and then
          returns that run or, after a rollback, adds one. If the wait takes too long, it raises
          `StoreUnavailable`, changing nothing.
        """
        ...

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        """Take waiting runs of these tasks for this node: highest priority, then oldest due first.

        `results` say how claims ended, of this node or another. They are recorded first, in the
        same transaction, so this call can already claim what they free. With a `limit` of 0 it
        records them and claims nothing. `ahead` is how many more than `limit` may be taken, to
        begin a moment later. Those stop before the first run with `on_crash="abandon"`: it would
        be lost if the node died before it began.

        - A run is claimed by one node at a time. Each claim of a run has a greater number than all
          earlier ones, however they ended; claiming counts an attempt.
        - Runs with the same lock key are never claimed at the same time. They are claimed in the
          order of priority, due time and id, except that a run that has begun (it waits for a
          retry, was cut off or recovered) goes before the others of its priority: they wait until
          it has ended, even while it is not due yet. A waiting run of one task never holds up runs
          of another task: maybe no node has its task any more.
        - If more waits than the call may take, tenants take turns among the runs of equal priority:
          each gets an equal share, its oldest first, and the oldest of all fill what is left. All
          runs without a tenant count as one tenant. If there are more tenants than places, some
          have their turn in this call, and the others in the next calls on this object. A higher
          priority still goes first, and the runs of one tenant, and of one lock key, keep their
          order. A store may look for a tenant's share among the oldest few hundred runs of each of
          its tasks only.
        - Of a task whose rule has a `max_running` (`EditionStore.set_rules`), no call claims a run
          while so many of its runs are claimed, by all nodes together, nor more than then fit. This
          counts runs that were claimed in advance, or under an earlier rule. If several apps have a
          rule for the task, the least number counts. If more of its runs wait than fit, tenants
          take turns among them as above. What must wait for that costs and holds up no run of
          another task, except behind it in the queue of a lock key. When a result or a recovery
          makes room that the call does not fill, it wakes the workers.
        - A result whose (run, claim, node) is not the present claim changes nothing.
        - `ClaimBatch.kept` is true for a result that ended its claim, in this call or an earlier
          one whose reply may have been lost. So repeating a result changes nothing and is not
          refused, at least until the run is put back once more, or retried.
        - If the store can have more than one writer, a result whose run a user's transaction has
          locked is not waited for: `ClaimBatch.held` names it, and it is to be reported again.
        - A run that is put back keeps its priority, and its due time unless the result has a delay.
          One that did not begin also keeps its attempt number.
        - The `value` of a result that ended its claim becomes the run's result, unchanged. If that
          of a success is `PENDING`, a repetition brings it, or None, and its error:
          `run.complete` ends the claim before its task returns.
        - The `events` of a success are stored in the same transaction, in their order, if it ended
          its claim in this call or an earlier one; each once, by its id. Those of results that are
          not kept, or are no success, are dropped.
        - If a result ends a run as failed or lost, and the rule of its task has an `on_failure`, a
          run of that one is added in the same transaction, due now and without a schedule. Its key
          is `FAILURE_KEY`, the run and its claim; its tenant that of the run; its only argument,
          `failure`, says what failed (`failure_of`). A run that was added so adds none.
        - If cancelling the run was requested, it is neither put back nor lost: a result that says
          so ends it as cancelled, and `ClaimBatch.cancelled` names it. A success or failure stands:
          the request came too late.
        - A result that ends its claim puts its attempt on record, in the same transaction, with
          the `report` if it has one; see `attempts`. If `run.complete` ended the claim, a
          repetition may bring a later report. No other repetition changes what is on record.
        """
        ...

    async def report(self, node: str, reports: Mapping[tuple[int, int], Report]) -> None:
        """What attempts of this node tell while they run, by run and claim, in one transaction.
        Each report replaces what its attempt has told before; one whose (run, claim, node) is not
        the present claim changes nothing. A node that has reported an attempt sends a last report
        along with its result."""
        ...

    async def attempts(self, run_id: int) -> list[Attempt]:
        """The attempts of a run that are on record, in their order.

        - On record is every attempt that did not succeed, one time each, from the transaction that
          ended its claim: by a result, or by `recover` as crashed. So is each that has reported,
          from then on. A success that reported nothing is not, and costs nothing.
        - A claim that was given back before it began was no attempt.
        - If there are more than `FIRST_ATTEMPTS` and `LAST_ATTEMPTS`, those in between are deleted.
        - They are kept when a run is retried, and deleted together with the run.
        """
        ...

    async def reported(self, ids: Sequence[int]) -> dict[int, Report]:
        """Of those of these runs that are claimed: what the present attempt has told, without its
        log. None of those that have told nothing."""
        ...

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        """Cancel these runs, in one transaction. The answer for each run that exists:

        - `CANCELLED`: it waited, and has ended as cancelled. It is never claimed from now on, and
          the next run of its lock key is ready.
        - `REQUESTED`: a node has claimed it. The store keeps the request and wakes the nodes; only
          the claim ends the run, or the recovery of a dead node. Asking again changes nothing.
        - `ENDED`: it had ended. Nothing is changed.
        """
        ...

    async def cancelling(self, node: str) -> list[tuple[int, int]]:
        """Those of this node's claims for which cancelling was requested: run and claim. A node
        asks when it is woken, and now and then while it executes something."""
        ...

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        """Let these runs wait again, in one transaction. For each run that exists: did this call?

        - Runs that failed, were lost or were cancelled wait again; and those that succeeded, if
          `even_succeeded` insists. One that waits or is claimed stays as it is.
        - The run keeps its id, is due now, and takes its place in the queue of its lock key, as one
          that has begun if it has. Its schedule is not needed: it may have been removed.
        - Its attempts and claims continue to count, so no result of an earlier claim matches.
          Failures and crashes start over: it has all of its retries. A request to cancel is over,
          and its result is forgotten. Its error stays if it failed or was lost, as the reason why
          it waits again; what was said of a run that was cancelled or succeeded no longer holds.
        """
        ...

    async def claimed(self, node: str) -> list[RunRecord]:
        """The runs that this node has claimed, for a node whose claim was not answered."""
        ...

    async def claimants(self) -> list[str]:
        """The nodes that have claimed runs. The leader calls this now and then, so a store with
        ready marks uses it to check some lock keys: if runs were edited by hand, their key may
        have no marked run, and would wait for ever. It then marks the first one."""
        ...

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        """Take a dead node's runs away from it, the oldest first and at most `limit`.

        Those with `on_crash="rerun"` wait again with their due time, unless this was crash number
        `max_crashes`; all others are recorded as lost. A run that was asked to be cancelled ends as
        cancelled instead. For each that is lost, what `on_failure` says is added, as by a result.
        Raises `Fenced` as `fire` does.
        """
        ...

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        """Delete finished runs and occurrences recorded more than `older_than` seconds ago, at
        most `limit` of each, the oldest first. Returns how many, and up to which time. What
        `backfill` must know about this is noted in the same transaction. With `dry_run` nothing is
        changed: it counts.

        Schedules that have ended go too, at most `limit`, counted or not: active, with nothing
        planned, not changed since then, and with nothing on record. Those that code declares stay,
        marked as ended: the code would add them once more.

        With a fence, raises `Fenced` as `fire` does, so that a former leader stops. Without one,
        anyone may call it: operators do. That is safe beside a leader and beside other callers.
        What has finished never changes again; a schedule moved on in the transaction that recorded
        its occurrence, which therefore cannot fire again; and deleting twice changes nothing.
        """
        ...

    async def find(
        self,
        ids: Sequence[int] | None = None,
        *,
        schedule: str | None = None,
        state: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        older_than: float = 0.0,
        limit: int = 50,
        below: int | None = None,
    ) -> list[RunRecord]:
        """Runs, newest first: those of `ids` that exist, or without `ids` all of them, up to
        `limit`. `schedule`, `state`, `task` and `tenant` narrow that down; so does `older_than`, to
        runs that were made so many seconds ago or earlier, and `below`, to those with a lower id:
        one call continues where another ended. A run has the name that its schedule has
        now; a claim may give the name that it had when it fired."""
        ...
