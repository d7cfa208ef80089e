"""What `tenure runs` shows of attempts: a table, progress, and the command `log`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.numbers import ID
from tenure.cli.opened import Opened
from tenure.cli.output import Page, iso, print_json, say, when
from tenure.cli.runs.output import summary
from tenure.cli.runs.wait import FINISHED
from tenure.cli.store import Store, as_json, of_store
from tenure.model import Attempt, Report, RunRecord
from tenure.printable import lines
from tenure.process.clock import SystemClock
from tenure.words import lasted, short

LOOK_EVERY = 0.5
LAST_LINES = 10
"""How much of the log `runs show` shows."""
BAR = 20
_KNOWN = 2_000
"""By how many characters `--follow` recognises where it was."""


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "run": attempt.run,
        "attempt": attempt.attempt,
        "claim": attempt.claim,
        "node": attempt.node,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
        "outcome": attempt.outcome,
        "error": attempt.error,
        "progress": attempt.progress,
        "message": attempt.message,
        "log": attempt.log,
        "log_dropped": attempt.log_dropped,
        "reported_at": iso(attempt.reported_at),
    }


def progress_json(report: Report | None) -> dict[str, Any]:
    return {
        "progress": None if report is None else report.progress,
        "message": None if report is None else report.message,
    }


def share(progress: float | None, message: str) -> str | None:
    """For a column: 40 % page 12 of 30."""
    told = "" if progress is None else f"{progress:.0%}".replace("%", " %")
    return f"{told} {message}".strip() or None


def bar(progress: float | None, message: str) -> str | None:
    """The same with a bar, for a page about one run."""
    told = share(progress, message)
    if progress is None:
        return told
    done = round(BAR * progress)
    return f"[{'#' * done}{'-' * (BAR - done)}] {told}"


def show_attempts(page: Page, attempts: Sequence[Attempt], now: datetime) -> None:
    """What is on record about them, below the facts of their run."""
    page.line()
    page.table(
        ["ATTEMPT", "OUTCOME", "STARTED", "TOOK", "NODE", "+PROGRESS", "+ERROR"],
        (
            [
                attempt.attempt,
                attempt.outcome or "running",
                when(attempt.started_at, now),
                _took(attempt),
                short(attempt.node),
                share(attempt.progress, attempt.message),
                summary(attempt.error),
            ]
            for attempt in attempts
        ),
    )
    logged = _with_log(attempts)
    if logged is not None:
        told = logged.log.rstrip("\n").split("\n")
        more = f", the last {LAST_LINES} of {len(told)} lines" if len(told) > LAST_LINES else ""
        page.line()
        page.line(f"Log of attempt {logged.attempt}{more}:")
        page.text("\n".join(told[-LAST_LINES:]))


@click.command()
@click.argument("run_id", metavar="RUN", type=ID)
@of_store
@as_json
@click.option("--attempt", type=ID, help="Of this attempt, and not of the last one with a log.")
@click.option("--follow", is_flag=True, help="Go on until the run has ended.")
def log(run_id: int, store: Store, as_json: bool, attempt: int | None, follow: bool) -> None:
    """Print what a run has logged: with `run.log`, or through `tenure.RunLogHandler`.

    Each line is indented, so that none can pass for one of ours; --json has the text as it is.

    \b
    Examples:
      tenure runs log 1042
      tenure runs log 1042 --attempt 1
      tenure runs log 1042 --follow
    """
    if follow and (as_json or attempt is not None):
        raise click.UsageError("--follow goes with neither --json nor --attempt.")

    async def look(backend: Opened) -> tuple[RunRecord | None, list[Attempt]]:
        found = await backend.runs.find([run_id])
        return (found[0] if found else None), await backend.runs.attempts(run_id)

    async def go_on(backend: Opened) -> None:
        clock, printed = SystemClock(), _Printed()
        while True:
            run, attempts = await look(backend)
            for each in attempts:
                printed.go_on(each)
            if run is None or run.state in FINISHED:
                return
            await clock.sleep(LOOK_EVERY)

    run, attempts = store.ask(look)
    if run is None:
        raise Failed(
            f"there is no run {run_id}. `{store.address.command('runs', 'list')}` shows the latest;"
            " finished ones are deleted when they are older than the retention time."
        )
    if follow:
        store.ask(go_on, within=None)
        return
    chosen = _with_log(attempts)
    if attempt is not None:
        chosen = _attempt(run, attempts, attempt)
    if as_json:
        logged = dict.fromkeys(("attempt", "log", "log_dropped"))
        whole = logged if chosen is None else attempt_json(chosen)
        print_json({"run": run_id, **{name: whole[name] for name in logged}})
    elif chosen is not None and chosen.log:
        _print(chosen.log)
    else:
        which = "" if attempt is None else f" in attempt {attempt}"
        say(f"Run {run_id} has logged nothing{which}.", err=True)


class _Printed:
    """How far the log of each attempt is printed."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}

    def go_on(self, attempt: Attempt) -> None:
        seen, told = self._seen.get(attempt.claim, ""), attempt.log
        if told == seen:
            return
        self._seen[attempt.claim] = told
        if told.startswith(seen):
            new = told[len(seen) :]
        else:  # its middle is left out by now
            known = seen[-_KNOWN:]
            place = told.rfind(known)
            new = told if place < 0 else told[place + len(known) :]
        if new:
            _print(new)


def _print(text: str) -> None:
    """Lines that are not ours: harmless to a terminal, and indented, so that none can pass for one
    of ours."""
    for line in lines(text.removesuffix("\n")).split("\n"):
        click.echo(f"  {line}".rstrip())


def _attempt(run: RunRecord, attempts: Sequence[Attempt], number: int) -> Attempt | None:
    """None if nothing is on record about it; an error if there was none."""
    found = next((each for each in attempts if each.attempt == number), None)
    if found is None and number > run.attempt:
        known = {0: "it has not begun", 1: "only 1"}.get(run.attempt, f"only 1 to {run.attempt}")
        raise Failed(f"run {run.id} has no attempt {number}, {known}.")
    return found


def _with_log(attempts: Sequence[Attempt]) -> Attempt | None:
    return next((attempt for attempt in reversed(attempts) if attempt.log), None)


def _took(attempt: Attempt) -> str | None:
    if attempt.ended_at is None:
        return None
    return lasted(max(0.0, (attempt.ended_at - attempt.started_at).total_seconds()))
