"""Runs on PostgreSQL: claims, results, recovery."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

import psycopg

from tenure.backends.base import CANCELS, RUNS
from tenure.backends.postgres.attempts import PostgresAttempts
from tenure.backends.postgres.columns import Numbers, Texts
from tenure.backends.postgres.encodings import fitting, fitting_json
from tenure.backends.postgres.events import PostgresEvents
from tenure.backends.postgres.limits import Limits, left_over
from tenure.backends.postgres.moments import Beyond
from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.run_rows import begun, end_first, run
from tenure.backends.postgres.scan_start import ScanStarts, is_slow
from tenure.backends.postgres.statements import Rows, Statement, Transactions, arrays
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.claim_turns import NEAR, ClaimTurns, most_asked
from tenure.errors import ConfigError, StoreError, StoreUnavailable
from tenure.model import (
    ENDED,
    PENDING,
    Cancelling,
    ClaimBatch,
    Fence,
    NewRun,
    Pruned,
    Recovered,
    Result,
    RunRecord,
    RunState,
)

_SELDOM = ("errors", "delays", "failed", "unbegun", "values")
RESULT = ("ids", "claims", "nodes", "states", *_SELDOM)
_TEXTS = ("nodes", "states", "errors", "values")
_CLAIM_ATTEMPTS = 5
_MEANWHILE = (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected)
"""A concurrent claim took a run of the same lock key, or two of them in another order. The
transaction was rolled back: try again."""
_SPARE = 50
"""A claim reads twice as many ready runs as it may take, and so many more: other claims may have
locked some, and some may have to wait for another run of their lock key."""
_TIDY = 500
"""How many runs of a lock key are unmarked at a time, if they need not be ready."""
_MEND = 1_000
"""How many lock keys are checked at a time for a missing mark."""


class PostgresRuns(PostgresAttempts):
    """The runs of one namespace."""

    def __init__(
        self,
        database: Transactions,
        office: PostgresOffice,
        wakeups: PostgresWakeups,
        namespace: str,
    ) -> None:
        super().__init__(database, namespace)
        self._office = office
        self._wake = {"channel": wakeups.channel, "topic": RUNS}
        self.always = self._named(**self._wake)
        self._tell_nodes = {"channel": wakeups.channel_of(CANCELS), "topic": CANCELS}
        self._sql = database.statements("sql/runs.sql")
        self._control = database.statements("sql/control.sql")
        self._events = PostgresEvents(database, office, wakeups, namespace)
        # A user's own transaction waits for a row that another one has locked. This node does not:
        # its other results, and its claims, would wait too.
        own = isfinite(database.longest)
        self._finish = self._sql["finish" if not own else "finish_unlocked"]
        self._once: list[Statement] = [(self._sql["plan_once"], {})] if own else []
        self._turns = ClaimTurns()
        self._limits = Limits(database)
        self._crowded = False
        """Did tenants take turns in the last claim? Then the next one begins with that."""
        self._scan_starts = ScanStarts()
        self._mended_to = ""
        """The last lock key that was checked for a missing mark."""

    async def enqueue(self, new: NewRun) -> tuple[RunRecord, bool]:
        values = self._named(**asdict(new) | {"on_crash": str(new.on_crash)})
        names = ("enqueue", "of_key")
        for _ in range(_CLAIM_ATTEMPTS):
            added, found, _ = await self._database.run(
                *((self._sql[name], values) for name in names), (self._sql["wake"], self._wake)
            )
            if found:
                return run(found[0]), bool(added)
        raise StoreUnavailable(f"key {new.key!r}: its run is deleted again and again. Try again.")

    async def claim(
        self,
        node: str,
        tasks: Sequence[str],
        limit: int,
        results: Sequence[Result] = (),
        ahead: int = 0,
    ) -> ClaimBatch:
        most = limit + ahead
        values = self._named(node=node, tasks=list(dict.fromkeys(tasks)), limit=limit, ahead=ahead)
        values |= {"look": 2 * most + _SPARE, "tidy": _TIDY}
        reports = self._reports(results)
        kept: list[bool] = []
        cancelled: frozenset[int] = frozenset()
        held: frozenset[int] = frozenset()
        values["ids"] = [result.run_id for result in results]
        if not most:
            answers = await self._patiently(*reports, (self._sql["next_waiting"], values))
            kept, held = await self._kept(results, answers[0]) if results else ([], held)
            cancelled = _cancelled(results, answers[0]) if results else cancelled
            [next_] = answers[-1]
            if next_["leaves_room"]:
                await self._database.one(self._sql["wake"], self._wake)
            return ClaimBatch(next_["now"], [], next_["later"], kept, cancelled, held)
        limits: list[Statement] = []
        variant = ""
        if not self._crowded:
            answers = await self._patiently(*reports, *self._claiming(values))
            kept, held = await self._kept(results, answers[0]) if results else ([], held)
            cancelled = _cancelled(results, answers[0]) if results else cancelled
            rows = await self._uncovered(
                await self._from_the_beginning(end_first(answers[-1]), values), values
            )
            if rows[0]["opening"]:
                values |= await self._limits.choose(values)
                limits, variant = [(self._sql["lock_limits"], values)], "_limited"
                claim = (self._sql["claim_limited"], values)
                answers = await self._patiently(*limits, claim)
                rows = end_first(answers[-1])
            if not rows[0]["crowded"]:
                # If other claims were in the way, look again at once.
                runs, end = begun(rows), rows[0]
                again = bool(runs) and end["short"]
                if variant:
                    again |= end["chosen"] < len(values["chosen"])
                    if results and left_over(runs, values["chosen"], values["wanted"]):
                        await self._database.one(self._sql["wake"], self._wake)
                later = end["now"] if again else end["later"]
                return ClaimBatch(end["now"], runs, later, kept, cancelled, held)
            reports = []  # they are recorded
        values |= {"asked": most_asked(limit + ahead), "near": NEAR}
        values["after"] = json.dumps(self._turns.after)
        names = (f"claim_in_turn{variant}", f"claim_rest{variant}", "next_waiting", "unmark")
        claims = [(self._sql[name], values) for name in names]
        answers = await self._patiently(*reports, *limits, *claims)
        rows, rest, [next_], _ = answers[-4:]
        if reports:
            kept, held = await self._kept(results, answers[0])
            cancelled = _cancelled(results, answers[0])
        edge = rows[0]["edge"]  # the lowest priority claimed; None if there was room for all
        turns = edge is not None and bool(rows[0]["asked"] or edge in self._turns.after)
        self._crowded = turns and not rows[0]["limited"]  # `claim` says whether a task has room
        if edge is not None:
            self._turns.turn_after(edge, rows[0]["after"])
        if next_["leaves_room"]:
            await self._database.one(self._sql["wake"], self._wake)
        runs = begun(rows) + begun(rest)
        return ClaimBatch(next_["now"], runs, next_["later"], kept, cancelled, held)

    async def _uncovered(self, rows: Rows, values: dict[str, Any]) -> Rows:
        """The rows of a claim. If it read only runs that it could not take, because others have
        locked them or they are behind another of their lock key, unmark the latter and repeat."""
        for _ in range(_CLAIM_ATTEMPTS):
            if not rows[0]["short"] or rows[0]["opening"]:
                break
            # `tidy` locks rows for a moment. Claims that skipped them are woken to look again.
            await self._database.run((self._sql["tidy"], values), (self._sql["wake"], self._wake))
            if len(rows) > 1:
                break
            rows = end_first((await self._patiently(*self._claiming(values)))[-1])
        return rows

    def _claiming(self, values: dict[str, Any]) -> list[Statement]:
        known = self._scan_starts.known(values["tasks"])
        name = "claim" if known is None else "claim_since"
        return [(self._sql[name], {**values, **(known or {})})]

    async def _from_the_beginning(self, rows: Rows, values: dict[str, Any]) -> Rows:
        """Repeat a claim that found nothing, if it is time to scan from the beginning; and if such
        a scan was slow, learn where to begin the next ones (scan_start.py)."""
        end = rows[0]
        if self._scan_starts.known(values["tasks"]) is not None:
            if not self._scan_starts.over(end["now"]) or len(rows) > 1:
                return rows
            rows = end_first((await self._patiently(*self._claiming(values)))[-1])
            end = rows[0]
        if is_slow(end["seconds"], len(rows), end["dead"]):
            levels = await self._database.one(self._sql["levels"], values)
            self._scan_starts.set(values["tasks"], levels, end["now"], end["seconds"])
        return rows

    async def _patiently(self, *statements: Statement) -> list[Rows]:
        attempt = 0
        while True:
            attempt += 1
            try:
                answers = await self._database.run(*self._once, *statements)
                return answers[len(self._once) :]
            except StoreError as error:
                if not isinstance(error.__cause__, _MEANWHILE):
                    raise
                if attempt == _CLAIM_ATTEMPTS:
                    raise

    def _reports(self, results: Sequence[Result]) -> list[Statement]:
        """The statements that record results; none for none."""
        if not results:
            return []
        columns = self._columns(results)
        columns |= {name: Numbers(columns[name]) for name in ("ids", "claims")}
        columns |= {name: Texts(columns[name]) for name in _TEXTS}
        if any(result.state is RunState.WAITING for result in results):
            self._scan_starts.forget()  # a run that is put back may be due before that
        # `mark` is a separate statement, to see what others committed while `finish` waited.
        statements: list[Statement] = [
            (self._finish, columns),
            *self._ending(results),
            (self._sql["mark"], columns),
        ]
        states = {result.state for result in results}
        if states & {RunState.FAILED, RunState.LOST}:
            statements.append((self._sql["tell_failures"], columns))
        if states & {RunState.FAILED, RunState.LOST, RunState.WAITING}:
            statements.append((self._sql["wake"], self._wake))
        if any(result.events for result in results):
            statements += self._events.of_results(results)
        return statements

    def told(self, result: Result) -> list[Statement]:
        """What follows a success at the end of a transaction that was lent (lending_texts.py)."""
        events = self._events.of_results([result]) if result.events else ()
        return [*self._ending([result]), *events] if events or result.recorded else []

    async def _kept(
        self, results: Sequence[Result], ended: Rows
    ) -> tuple[list[bool], frozenset[int]]:
        """Which of them are recorded; and the runs that another transaction has locked."""
        kept, held = {row["place"] for row in ended}, frozenset[int]()
        if len(kept) < len(results):
            # A result that ended no claim now did so earlier, or never will. So this query need
            # not be in the same transaction.
            known = await self._database.one(self._sql["on_record"], self._columns(results))
            late = [r for n, r in enumerate(results, 1) if n not in kept]
            succeeded = [r for r in late if r.state is RunState.SUCCEEDED]
            if succeeded:
                values = self._columns(succeeded) | {"pending": PENDING}
                await self._database.one(self._control["keep_late"], values)
            await self._tell_late(late)
            kept |= {row["place"] for row in known if not row["held"]}
            held = frozenset(results[row["place"] - 1].run_id for row in known if row["held"])
        return [place in kept for place in range(1, len(results) + 1)], held

    def _columns(self, results: Sequence[Result]) -> dict[str, Any]:
        """One array per column. A column that no result uses is sent empty, to save bytes."""
        codec = self._database.codec
        rows = [
            (
                *(r.run_id, r.claim, r.node, str(r.state), fitting(r.error, codec), r.delay),
                *(r.failed, not r.begun, fitting_json(r.value, codec)),
            )
            for r in results
        ]
        columns = arrays(rows, RESULT)
        for name in _SELDOM:
            if all(value is None or value is False for value in columns[name]):
                columns[name] = []
        return self._named(**columns)

    async def cancel(self, ids: Sequence[int]) -> dict[int, Cancelling]:
        rows, *_ = await self._patiently(
            (self._control["cancel"], self._named(ids=_possible(ids))),
            (self._sql["wake"], self._tell_nodes),
            (self._sql["wake"], self._wake),
        )
        return {row["id"]: Cancelling(row["done"]) for row in rows if row["done"] is not None}

    async def retry(self, ids: Sequence[int], *, even_succeeded: bool = False) -> dict[int, bool]:
        values = self._named(ids=_possible(ids), even_succeeded=even_succeeded)
        rows, _ = await self._patiently(
            (self._control["retry"], values), (self._sql["wake"], self._wake)
        )
        return {row["id"]: row["done"] for row in rows if row["done"] is not None}

    async def cancelling(self, node: str) -> list[tuple[int, int]]:
        rows = await self._database.one(self._control["cancelling"], self._named(node=node))
        return [(row["id"], row["attempt"]) for row in rows]

    async def claimed(self, node: str) -> list[RunRecord]:
        rows = await self._database.one(self._sql["claimed"], self._named(node=node))
        return [run(row) for row in rows]

    async def claimants(self) -> list[str]:
        # The leader calls this now and then: a good moment to repair marks.
        values = self._named(after=self._mended_to, most=_MEND)
        [mended], rows = await self._database.run(
            (self._sql["mend"], values), (self._sql["claimants"], values)
        )
        self._mended_to = mended["lock"] if mended["n"] == _MEND else ""
        if mended["marked"]:
            await self._database.one(self._sql["wake"], self._wake)
        return [row["node"] for row in rows]

    async def confirm(self, run: int, claim: int, node: str) -> bool:
        """Is this claim still good? For a user's transaction: `Joined`."""
        values = self._named(id=run, claim=claim, node=node)
        if await self._database.one(self._sql["confirm"], values):
            return True
        if await self._database.one(self._sql["seems_confirmed"], values):
            # It can be read and not locked: row security shows an editor no claimed run for that.
            raise ConfigError(
                "the role of this connection may not lock a claimed run. run.fence and"
                " run.complete need the rights of a node: connect with that role."
            )
        return False

    async def recover(
        self, fence: Fence, node: str, max_crashes: int, limit: int = 1_000
    ) -> Recovered:
        # What a user's transaction has confirmed stays its own until that ends. To wait for it
        # would keep the other runs of this node from being recovered.
        free = await self._database.one(
            self._sql["unconfirmed"], self._named(node=node, limit=limit)
        )
        more = {
            "node": node,
            "max_crashes": max_crashes,
            "error": f"its node {node} died",
            "ids": [row["id"] for row in free],
        }
        values = {**more, **self._office.of(fence)}
        *_, rows, _, _ = await self._office.transaction(
            fence,
            self._office.standing(fence.scope),
            *((self._sql[name], values) for name in ("lock_claims", "mark_for")),
            *self._crashing(values),
            (self._sql["recover"], values),
            (self._sql["tell_failures"], values),
            (self._sql["wake"], self._wake),
        )
        rerun = sum(row["state"] == RunState.WAITING for row in rows)
        cancelled = sum(row["state"] == RunState.CANCELLED for row in rows)
        return Recovered(rerun, len(rows) - rerun - cancelled, cancelled)

    async def prune(
        self, fence: Fence | None, older_than: float, limit: int, *, dry_run: bool = False
    ) -> Pruned:
        more = {"older_than": older_than, "limit": limit, "ended": ENDED}
        if dry_run or fence is None:
            nobody = dict.fromkeys(("scope", "term", "holder"))
            text = self._sql["prunable" if dry_run else "prune"]
            rows = await self._database.one(text, self._named(**more, **nobody))
        else:
            rows = await self._office.under(fence, self._sql["prune"], more)
        [row] = rows
        ended = row["ended"]
        return Pruned(row["pruned"], None if isinstance(ended, Beyond) else ended)

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
        values = self._named(schedule=schedule, state=state, limit=limit, below=below)
        values |= {"task": task, "tenant": tenant, "older_than": older_than or None}
        found = "find_claimed" if state == RunState.CLAIMED else "find"
        name = found if schedule is None else "of_schedule"
        if ids is not None:
            values["ids"], name = list(ids), "of_ids"
        rows = await self._database.one(self._sql[name], values)
        return [from_rows.with_name(run(row), row) for row in rows]

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}


def _cancelled(results: Sequence[Result], ended: Rows) -> frozenset[int]:
    """The runs of those results that ended as cancelled instead."""
    return frozenset(results[row["place"] - 1].run_id for row in ended if row["cancelled"])


def _possible(ids: Sequence[int]) -> list[int]:
    """Those that the server can compare with."""
    return [number for number in ids if 0 < number < 2**63]
