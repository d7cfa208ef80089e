"""`tenure runs cancel` and `retry`: what is done to runs, one by one or to all that match."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.numbers import ID
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, when
from tenure.cli.progress import Progress
from tenure.cli.runs.filters import Filter, of_runs
from tenure.cli.store import Store, as_json, of_store
from tenure.model import RETRIED, Cancelling, RunRecord, RunState
from tenure.schedules.control import ended, why_not_retried
from tenure.words import count

BATCH = 200
"""How many one transaction changes."""
SHOWN = 10
"""How many lines a preview has."""
MOST = 1_000_000

Answers = dict[int, str]
"""What became of each run that exists."""
Act = Callable[[Opened, Sequence[int]], Awaitable[Answers]]

given_yes = click.option("--yes", is_flag=True, help="Do it: without it, only show what matches.")


@dataclass(frozen=True, slots=True)
class Deed:
    """What is done to runs, and how that is told."""

    verb: str
    """As in "Nothing to …"."""
    states: tuple[str, ...]
    """Which runs a filter is about, unless it names a state."""
    act: Act
    told: dict[str, str]
    """What is said of each answer; the first is what was wanted."""
    refusal: str
    """The answer of a run that was left alone."""
    why: Callable[[RunRecord], str]
    """What is said of such a run, if it was named."""
    was_so: RunState | None = None
    """A run that was left alone in this state already is as was wanted: no error."""


@click.command()
@click.argument("run_ids", metavar="[RUN]...", type=ID, nargs=-1)
@of_store
@of_runs
@click.option(
    "--state",
    type=click.Choice([state.value for state in (RunState.WAITING, RunState.CLAIMED)]),
    help="Only in this state; both without it.",
)
@given_yes
@as_json
def cancel(
    run_ids: tuple[int, ...],
    store: Store,
    chosen: Filter,
    state: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Cancel runs: those that you name, or all that match.

    A run that waits is cancelled at once and never begins. One that is being executed is asked to
    end: its node cancels a coroutine, and tells a plain function. Its state stays "claimed" until
    it has ended. The exit code is 1 if a run that you named has ended in another way.

    With a filter this shows what matches, and changes nothing until you add --yes.

    \b
    Examples:
      tenure runs cancel 1042 1043
      tenure runs cancel --schedule digest --state waiting
      tenure runs cancel --task report --older-than 1h --yes
    """

    async def act(backend: Opened, ids: Sequence[int]) -> Answers:
        return {id_: str(done) for id_, done in (await backend.runs.cancel(ids)).items()}

    deed = Deed(
        "cancel",
        (RunState.WAITING, RunState.CLAIMED) if state is None else (state,),
        act,
        {
            Cancelling.CANCELLED: "cancelled",
            Cancelling.REQUESTED: "asked to end: being executed, and the node is told",
            Cancelling.ENDED: "left alone: had ended already",
        },
        refusal=Cancelling.ENDED,
        why=lambda run: ended(run) if run.finished_at else "had ended already",
        was_so=RunState.CANCELLED,
    )
    _carry_out(deed, run_ids, store, chosen, filtered=state is not None, yes=yes, as_json=as_json)


@click.command()
@click.argument("run_ids", metavar="[RUN]...", type=ID, nargs=-1)
@of_store
@of_runs
@click.option(
    "--state",
    type=click.Choice([state.value for state in (*RETRIED, RunState.SUCCEEDED)]),
    help="Only in this state; failed and lost without it.",
)
@click.option("--even-succeeded", is_flag=True, help="Also runs that have succeeded.")
@given_yes
@as_json
def retry(
    run_ids: tuple[int, ...],
    store: Store,
    chosen: Filter,
    state: str | None,
    even_succeeded: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Run again what failed, was lost or was cancelled: those that you name, or all that match.

    The run keeps its number and arguments, is due now, and has all of its retries again. It needs
    no schedule: that may have been removed. The exit code is 1 if a run that you named waits, is
    being executed, or has succeeded and you did not insist with --even-succeeded.

    With a filter this shows what matches, and changes nothing until you add --yes. A filter without
    --state is about runs that failed or were lost.

    \b
    Examples:
      tenure runs retry 1042 1043
      tenure runs retry --task report --state failed
      tenure runs retry --schedule digest --older-than 1h --yes
    """
    if state == RunState.SUCCEEDED and not even_succeeded:
        raise click.UsageError("these have succeeded: insist with --even-succeeded.")

    async def act(backend: Opened, ids: Sequence[int]) -> Answers:
        done = await backend.runs.retry(ids, even_succeeded=even_succeeded)
        return {id_: "retried" if again else "refused" for id_, again in done.items()}

    usual = (RunState.FAILED, RunState.LOST, *([RunState.SUCCEEDED] * even_succeeded))
    deed = Deed(
        "retry",
        usual if state is None else (state,),
        act,
        {
            "retried": "to be run again",
            "refused": "left alone: waiting, being executed, or succeeded",
        },
        refusal="refused",
        why=lambda run: why_not_retried(run, "--even-succeeded"),
    )
    _carry_out(deed, run_ids, store, chosen, filtered=state is not None, yes=yes, as_json=as_json)


def _carry_out(
    deed: Deed,
    run_ids: Sequence[int],
    store: Store,
    chosen: Filter,
    *,
    filtered: bool,
    yes: bool,
    as_json: bool,
) -> None:
    by_filter = bool(chosen) or filtered
    if run_ids and by_filter:
        raise click.UsageError("give runs or a filter, not both.")
    if not run_ids and not by_filter:
        raise click.UsageError(
            f"which runs? Give their numbers, or a filter such as --schedule or --task;"
            f" `{store.address.command('runs', 'list')}` shows them."
        )

    named = list(dict.fromkeys(run_ids))

    async def ask(backend: Opened) -> tuple[datetime, list[RunRecord], Answers | None]:
        now = await backend.now()
        if named:
            done = await _in_batches(backend, deed, named, quiet=True)
            left = [id_ for id_ in named if done.get(id_) == deed.refusal]
            return now, await backend.runs.find(left, limit=len(left)) if left else [], done
        found: list[RunRecord] = []
        for state in deed.states:
            found += await chosen.find(backend, state, MOST)
        if not found:
            await chosen.check(backend)
        ids = [run.id for run in found]
        if not yes:
            return now, found, None
        return now, found, await _in_batches(backend, deed, ids, quiet=as_json)

    now, found, done = store.ask(ask, within=None if yes else 60)
    if done is None:
        _preview(deed, now, found, as_json=as_json)
        return
    if named:
        _report_each(deed, named, done, {run.id: run for run in found}, as_json=as_json)
    else:
        _report(deed, [run.id for run in found], done, as_json=as_json)


async def _in_batches(backend: Opened, deed: Deed, ids: list[int], *, quiet: bool) -> Answers:
    done: Answers = {}
    with Progress(deed.verb.capitalize(), len(ids), unit="runs", quiet=quiet) as progress:
        for first in range(0, len(ids), BATCH):
            batch = ids[first : first + BATCH]
            done |= await deed.act(backend, batch)
            progress.step(len(batch))
    return done


def _preview(deed: Deed, now: datetime, found: list[RunRecord], *, as_json: bool) -> None:
    if as_json:
        some = [_line(run) for run in found[:SHOWN]]
        print_json({"done": False, "matches": len(found), "first": some})
        return
    page = Page()
    if not found:
        states = " or ".join(deed.states)
        page.line(f"Nothing to {deed.verb}: no run that is {states} matches.")
        return
    page.table(
        ["RUN", "SCHEDULE", "TASK", "STATE", "DUE"],
        ([r.id, r.schedule, r.task, r.state, when(r.due, now)] for r in found[:SHOWN]),
    )
    if len(found) > SHOWN:
        page.line(f"… and {len(found) - SHOWN:,} more")
    page.line(f"{count(len(found), 'run')} to {deed.verb}. Nothing was changed: --yes does it.")


def _line(run: RunRecord) -> dict[str, Any]:
    return {"id": run.id, "schedule": run.schedule, "task": run.task, "state": run.state}


def _report(deed: Deed, wanted: Sequence[int], done: Answers, *, as_json: bool) -> None:
    groups = {answer: [id_ for id_ in wanted if done.get(id_) == answer] for answer in deed.told}
    if as_json:
        changed = any(ids for answer, ids in groups.items() if answer != deed.refusal)
        missing = [id_ for id_ in wanted if id_ not in done]
        print_json({"done": changed, **groups, "unknown": missing})
        return
    for answer, told in deed.told.items():
        if groups[answer] or answer == next(iter(deed.told)):
            Page().line(f"  {len(groups[answer]):>9,} {told}")


def _report_each(
    deed: Deed, named: Sequence[int], done: Answers, left: dict[int, RunRecord], *, as_json: bool
) -> None:
    """Of runs that were named: what became of each, and of those `left` alone, why."""

    def told(id_: int) -> str:
        if id_ not in done:
            return "there is none"
        if id_ in left:
            return f"left alone: it {deed.why(left[id_])}"
        return deed.told[done[id_]]

    if as_json:
        _report(deed, named, done, as_json=True)
    else:
        for id_ in named:
            Page().line(f"Run {id_}: {told(id_)}.")
    as_wanted = {id_ for id_, run in left.items() if run.state is deed.was_so}
    refused = [id_ for id_ in named if done.get(id_, deed.refusal) == deed.refusal]
    if which := ", ".join(str(id_) for id_ in refused if id_ not in as_wanted):
        raise Failed(f"could not {deed.verb} all of them; nothing was changed about {which}.")
