"""The checker: was every nominal time accounted for exactly once, and none executed twice?

The nominal times are counted out here anew, from the stored trigger alone, without asking Tenure.
The journal is read line by line, so that hours of it can be checked.
"""

from __future__ import annotations

import json
import sqlite3
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.faults.support import Journal, Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SLEW = 20_000  # the machine's wall clock may be adjusted by this much while a test runs

DUPLICATE, UNACCOUNTED, EARLY, WRONG = "duplicate", "unaccounted", "early", "wrong"
Complaint = tuple[str, str]
"""Its kind, and what it is about."""


@dataclass
class Audit:
    """What was found. No complaints: all promises were kept."""

    complaints: list[Complaint] = field(default_factory=list)
    occurrences: Counter[str] = field(default_factory=Counter)
    """Nominal times by what became of them: fired, skipped, missed."""
    runs: Counter[str] = field(default_factory=Counter)
    """By their state in the end."""
    executed: int = 0
    """How often a run was begun; those of killed nodes again."""
    late: dict[tuple[str, int], float] = field(default_factory=dict)
    """Seconds from the nominal time to the first execution, by schedule and nominal time."""

    def count(self, kind: str) -> int:
        return sum(kind == found for found, _ in self.complaints)


def account(journal: Journal, store: Store) -> list[str]:
    """Everything that contradicts the promises; empty if nothing does."""
    return [text for _, text in audit(journal, store).complaints]


def audit(journal: Journal, store: Store) -> Audit:
    found = Audit()
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
    for schedule in schedules:
        rows = planned.get(schedule["uid"], [])
        found.complaints += _nominal_times(schedule, rows, found.occurrences)
    found.runs.update(run["state"] for run in runs)
    found.complaints += _runs(runs, occurrences)
    found.complaints += _executions(journal, runs, found)
    return found


def _nominal_times(
    schedule: sqlite3.Row, occurrences: list[sqlite3.Row], counts: Counter[str]
) -> Iterator[Complaint]:
    name = schedule["name"]
    expected = list(_counted_out(schedule))
    covered: Counter[int] = Counter()
    for row in occurrences:
        if row["state"] == "missed":
            begin = bisect_left(expected, row["nominal"])
            stretch = expected[begin : bisect_right(expected, row["last"])]
            covered.update(stretch)
            counts["missed"] += len(stretch)
            if not stretch or (stretch[0], stretch[-1]) != (row["nominal"], row["last"]):
                text = f"{name}: missed stretch {row['nominal']} to {row['last']} fits no plan"
                yield WRONG, text
            if not row["reason"]:
                yield WRONG, f"{name}: missed stretch at {row['nominal']} has no reason"
        else:
            covered[row["nominal"]] += 1
            counts[row["state"]] += 1
            if row["state"] == "skipped" and not row["reason"]:
                yield WRONG, f"{name}: skipped {row['nominal']} has no reason"
    for nominal in expected:
        if covered[nominal] != 1:
            kind = DUPLICATE if covered[nominal] else UNACCOUNTED
            yield kind, f"{name}: nominal {nominal} is accounted for {covered[nominal]} times"
    for nominal in covered.keys() - set(expected):
        yield WRONG, f"{name}: {nominal} is on record and is no nominal time before the next"


def _counted_out(schedule: sqlite3.Row) -> Iterator[int]:
    """The nominal times up to the schedule's next one, in microseconds since 1970."""
    trigger = json.loads(schedule["trigger"])
    anchor = (datetime.fromisoformat(trigger["anchor"]) - _EPOCH) // _MICROSECOND
    step = timedelta(seconds=trigger["seconds"]) // _MICROSECOND
    moment = anchor + step
    while moment < schedule["next_nominal"]:
        yield moment
        moment += step


def _runs(runs: list[sqlite3.Row], occurrences: list[sqlite3.Row]) -> Iterator[Complaint]:
    known = {run["id"] for run in runs}
    fired = Counter(o["run_id"] for o in occurrences if o["state"] == "fired")
    for run_id, times in fired.items():
        if times > 1 or run_id not in known:
            kind = DUPLICATE if times > 1 else WRONG
            yield kind, f"run {run_id} stands for {times} occurrences"
    for run_id in known - fired.keys():
        yield WRONG, f"run {run_id} belongs to no fired occurrence"
    keys = Counter((run["schedule_uid"], run["kind"], run["key"]) for run in runs)
    for key, times in keys.items():
        if times > 1:
            yield DUPLICATE, f"{key} has {times} runs"


def _executions(journal: Journal, runs: list[sqlite3.Row], found: Audit) -> Iterator[Complaint]:
    # By the clock of this process: those that executed may have been given a wrong one.
    offset = (time.time_ns() - time.monotonic_ns()) // 1_000
    attempts: Counter[tuple[int, int]] = Counter()
    executions: dict[tuple[str, int], list[int]] = {}
    put_back: Counter[int] = Counter()
    ended: set[tuple[int, int]] = set()
    for entry in journal.read():
        if entry.event == "fact" and entry["name"] == "run.retried":
            put_back[entry["run"]] += 1
        elif entry.event == "end":
            ended.add((entry["run"], entry["attempt"]))
        elif entry.event == "begin":
            key = entry["schedule"], entry["nominal"]
            attempts[entry["run"], entry["attempt"]] += 1
            executions.setdefault(key, []).append(entry["run"])
            late = entry.at * 1e6 + offset - entry["nominal"]
            found.late[key] = min(late / 1e6, found.late.get(key, float("inf")))
            if late < -_SLEW:
                yield EARLY, f"{key[0]} at {key[1]} was begun {-late / 1e6} s early"
    found.executed = sum(attempts.values())
    for (run_id, attempt), times in attempts.items():
        if times > 1:
            yield DUPLICATE, f"run {run_id}, attempt {attempt}, was begun {times} times"
    # The only reasons to begin again: its node crashed, or was stopped and put it back.
    crashes = {run["id"]: run["crashes"] for run in runs}
    for (schedule, nominal), ids in executions.items():
        reasons = sum(crashes[run] + put_back[run] for run in set(ids) if run in crashes)
        if len(ids) > 1 + reasons:
            text = f"{schedule} at {nominal} was executed {len(ids)} times, with {reasons} reasons"
            yield DUPLICATE, text
    for run in runs:
        # The column counts claims; those that were given back before they began are no attempts.
        attempt = run["attempt"] - run["unbegun"]
        if run["state"] == "succeeded" and (run["id"], attempt) not in ended:
            text = f"run {run['id']} succeeded, but nobody executed attempt {attempt}"
            yield WRONG, text
