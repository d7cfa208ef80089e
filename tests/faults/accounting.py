"""The checker: was every nominal time accounted for exactly once, and none executed twice?

The nominal times are counted out here anew, from the stored trigger alone, without asking Tenure.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tests.faults.support import Journal, Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SLEW = 20_000  # the machine's wall clock may be adjusted by this much while a test runs


def account(journal: Journal, store: Store) -> list[str]:
    """Everything that contradicts the promises; empty if nothing does."""
    with store.connect() as connection:
        # One read transaction: the store as it was at one instant. The journal is read after it,
        # so that it contains at least what the store knows of.
        connection.execute("BEGIN")
        schedules = connection.execute("SELECT * FROM tenure_schedule").fetchall()
        occurrences = connection.execute("SELECT * FROM tenure_occurrence").fetchall()
        runs = connection.execute("SELECT * FROM tenure_run").fetchall()
        connection.execute("COMMIT")
    planned: dict[int, list[sqlite3.Row]] = {}
    for row in occurrences:
        if row["kind"] == "planned":
            planned.setdefault(row["schedule_uid"], []).append(row)
    found: list[str] = []
    for schedule in schedules:
        found += _nominal_times(schedule, planned.get(schedule["uid"], []))
    found += _runs(runs, occurrences)
    found += _executions(journal, runs)
    return found


def _nominal_times(schedule: sqlite3.Row, occurrences: list[sqlite3.Row]) -> Iterator[str]:
    name = schedule["name"]
    expected = list(_counted_out(schedule))
    covered: Counter[int] = Counter()
    for row in occurrences:
        if row["state"] == "missed":
            stretch = [n for n in expected if row["nominal"] <= n <= row["last"]]
            covered.update(stretch)
            if not stretch or (stretch[0], stretch[-1]) != (row["nominal"], row["last"]):
                yield f"{name}: missed stretch {row['nominal']} to {row['last']} fits no plan"
            if not row["reason"]:
                yield f"{name}: missed stretch at {row['nominal']} has no reason"
        else:
            covered[row["nominal"]] += 1
            if row["state"] == "skipped" and not row["reason"]:
                yield f"{name}: skipped {row['nominal']} has no reason"
    for nominal in expected:
        if covered[nominal] != 1:
            yield f"{name}: nominal {nominal} is accounted for {covered[nominal]} times"
    for nominal in covered.keys() - set(expected):
        yield f"{name}: {nominal} is on record and is no nominal time before the next"


def _counted_out(schedule: sqlite3.Row) -> Iterator[int]:
    """The nominal times up to the schedule's next one, in microseconds since 1970."""
    trigger = json.loads(schedule["trigger"])
    anchor = (datetime.fromisoformat(trigger["anchor"]) - _EPOCH) // _MICROSECOND
    step = timedelta(seconds=trigger["seconds"]) // _MICROSECOND
    moment = anchor + step
    while moment < schedule["next_nominal"]:
        yield moment
        moment += step


def _runs(runs: list[sqlite3.Row], occurrences: list[sqlite3.Row]) -> Iterator[str]:
    by_id = {run["id"]: run for run in runs}
    fired = [o["run_id"] for o in occurrences if o["state"] == "fired"]
    for run_id, times in Counter(fired).items():
        if times > 1 or run_id not in by_id:
            yield f"run {run_id} stands for {times} occurrences"
    for run_id in by_id.keys() - set(fired):
        yield f"run {run_id} belongs to no fired occurrence"
    keys = Counter((run["schedule_uid"], run["kind"], run["key"]) for run in runs)
    for key, times in keys.items():
        if times > 1:
            yield f"{key} has {times} runs"


def _executions(journal: Journal, runs: list[sqlite3.Row]) -> Iterator[str]:
    begun = journal.entries("begin")
    ended = {(entry["run"], entry["attempt"]) for entry in journal.entries("end")}
    by_id = {run["id"]: run for run in runs}
    attempts = Counter((entry["run"], entry["attempt"]) for entry in begun)
    for (run_id, attempt), times in attempts.items():
        if times > 1:
            yield f"run {run_id}, attempt {attempt}, was begun {times} times"
    # The only reasons to begin again: its node crashed, or was stopped and put it back.
    put_back = Counter(fact["run"] for fact in journal.facts("run.retried"))
    executions: dict[tuple[str, int], list[int]] = {}
    for entry in begun:
        executions.setdefault((entry["schedule"], entry["nominal"]), []).append(entry["run"])
    for (schedule, nominal), ids in executions.items():
        reasons = sum(by_id[run]["crashes"] + put_back[run] for run in set(ids) if run in by_id)
        if len(ids) > 1 + reasons:
            yield f"{schedule} at {nominal} was executed {len(ids)} times, with {reasons} reasons"
    for run in runs:
        final = (run["id"], run["attempt"])
        if run["state"] == "succeeded" and final not in ended:
            yield f"run {run['id']} succeeded, but nobody executed attempt {run['attempt']}"
    # By the clock of this process: those that executed may have been given a wrong one.
    offset = (time.time_ns() - time.monotonic_ns()) // 1_000
    for entry in begun:
        early = entry["nominal"] - (entry.at * 1e6 + offset)
        if early > _SLEW:
            yield f"{entry['schedule']} at {entry['nominal']} was begun {early / 1e6} s early"
