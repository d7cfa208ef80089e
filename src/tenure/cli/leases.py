"""`tenure leases`: who holds what. Leases, and the lock keys of claimed runs beside them."""

from __future__ import annotations

from datetime import datetime

import click

from tenure.backends.address import Address
from tenure.cli.errors import Failed
from tenure.cli.lease_output import (
    lease_facts,
    lease_json,
    lock_expires,
    lock_json,
    state,
    tenure_json,
)
from tenure.cli.numbers import COUNT
from tenure.cli.opened import Opened
from tenure.cli.output import Page, exactly, print_json, say, when
from tenure.cli.recording import operator
from tenure.cli.store import ANSWER_WITHIN, Store, as_json, of_leases
from tenure.model import LeaseRecord, RunRecord, Tenure
from tenure.node.names import LEADER, PRESENCE, RELAY
from tenure.process.clock import SystemClock
from tenure.schedules.control import RunControl
from tenure.words import relative, short

LOCKS = 10_000


@click.group()
def leases() -> None:
    """Show who holds which lease and lock, and their history; evict or clear by force.

    Leadership is the lease tenure/leader, and the presence of a node tenure/node/<node>. The lock
    keys of claimed runs are listed too, as kind "lock": they end with their run, and last no
    longer than the presence of its node.

    For leases in Redis give --url redis://… alone, or --leases redis://… with the store.
    """


@leases.command("list")
@of_leases
@as_json
@click.option("--all", "everything", is_flag=True, help="Include the presence of dead nodes.")
def list_leases(store: Store, as_json: bool, everything: bool) -> None:
    """List leases, and the lock keys of claimed runs.

    \b
    Examples:
      tenure leases list
      tenure leases list --url redis://cache:6379/0
      tenure leases list --json | jq '.[] | select(.kind == "lock")'
    """

    async def look(backend: Opened) -> tuple[datetime, list[LeaseRecord], list[RunRecord]]:
        now, records = await backend.lease_now(), await backend.leases.all()
        if backend.has_schedules and (hint := await backend.leases_unknown()):
            say(f"Warning: {hint}", err=True)
        runs = await _locks(backend)
        if not records and not runs:
            await backend.tell_namespace()
        return now, records, runs

    now, records, runs = store.ask(look)
    presences = {record.holder: record for record in records if record.name.startswith(PRESENCE)}
    if not everything:
        records = [r for r in records if state(r, now) == "live" or not r.name.startswith(PRESENCE)]
    if as_json:
        locks = (lock_json(run, presences.get(run.node)) for run in runs)
        print_json([*(lease_json(r, now) for r in records), *locks])
        return
    rows: list[list[object]] = [
        [
            record.name,
            state(record, now),
            record.term,
            f"{record.pid} on {record.host}" if record.holder else None,
            when(record.acquired_at, now),
            relative(record.expires_at, now) if record.expires_at else None,
        ]
        for record in records
    ]
    rows += [
        [
            run.lock,
            "lock",
            run.term or None,
            f"run {run.id} on {short(run.node)}",
            when(run.claimed_at, now),
            relative(expires, now) if (expires := lock_expires(run, presences)) else None,
        ]
        for run in runs
    ]
    Page().table(
        ["NAME", "STATE", "+TERM", "HELD BY", "SINCE", "+EXPIRES"], rows, empty="No leases."
    )


@leases.command()
@click.argument("name")
@of_leases
@as_json
def show(name: str, store: Store, as_json: bool) -> None:
    """Show one lease, or the lock key of a claimed run. Exit code 1 if nobody ever held it.

    \b
    Example:
      tenure leases show tenure/leader
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, LeaseRecord | None, RunRecord | None, LeaseRecord | None]:
        record, run = await _held(backend, name)
        node = None if run is None else run.node
        presence = node and await backend.leases.read(f"{PRESENCE}{node}")
        return await backend.lease_now(), record, run, presence or None

    now, record, run, presence = store.ask(look)
    if record is None and run is None:
        raise Failed(
            f"there is no lease named {name!r}, and no running run has that lock key."
            f" `{store.address.command('leases', 'list')}` shows those that exist."
        )
    if as_json:
        print_json(
            lease_json(record, now) if record is not None else run and lock_json(run, presence)
        )
    elif record is not None:
        Page().facts(lease_facts(record, now))
    elif run is not None:
        Page().facts(
            [
                ("Lock key", run.lock),
                ("Held by", f"run {run.id} of {run.schedule or run.task}, attempt {run.attempt}"),
                ("Node", run.node),
                ("Since", exactly(run.claimed_at, now)),
                ("Expires", exactly(presence.expires_at, now) if presence else None),
                ("Ends", "with the run, or when its node is found dead"),
            ]
        )


@leases.command()
@click.argument("name", required=False)
@of_leases
@as_json
@click.option("--limit", default=50, show_default=True, type=COUNT, help="How many.")
def history(name: str | None, store: Store, as_json: bool, limit: int) -> None:
    """Show who held one lease, or all, from when to when, and why it ended; newest first.

    \b
    Examples:
      tenure leases history tenure/leader
      tenure leases history --limit 20 --json
    """

    async def look(backend: Opened) -> tuple[datetime, list[Tenure]]:
        lines = await backend.leases.history(name, limit)
        if not lines:
            await backend.tell_namespace()
        return await backend.lease_now(), lines

    now, lines = store.ask(look)
    if as_json:
        print_json([tenure_json(line) for line in lines])
        return
    Page().table(
        ["NAME", "TERM", "HELD BY", "FROM", "UNTIL", "ENDED"],
        (
            [
                line.name,
                line.term,
                f"{line.pid} on {line.host}",
                when(line.acquired_at, now),
                when(line.ended_at, now) if line.ended_at else "still held",
                line.end,
            ]
            for line in lines
        ),
        empty="No history." if name is None else f"Nobody ever held {name!r}.",
    )


@leases.command()
@click.argument("name")
@of_leases
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", help="The reason, kept in the history.")
def evict(name: str, store: Store, yes: bool, reason: str | None) -> None:
    """End a lease by force, no matter who holds it. Exit code 1 if nobody does.

    The holder is not stopped: it can no longer renew, and finds out when it tries. For leadership
    that is safe, because its writes are refused. Other holders may overlap with their successor
    for a moment.

    \b
    Example:
      tenure leases evict nightly-import --reason "host db3 is gone"
    """
    record, run = store.ask(lambda backend: _held(backend, name))
    if record is None or record.holder is None:
        raise Failed(_nothing_to_evict(name, run, store.address))
    if not yes:
        say(f"{name!r} is held by pid {record.pid} on {record.host}, term {record.term}.", err=True)
        say(_consequence(record), err=True)
        _confirm("Evict it?")

    async def act(backend: Opened) -> LeaseRecord | None:
        current = await backend.leases.read(name)
        if current is None or (current.holder, current.term) != (record.holder, record.term):
            return None  # what was shown and agreed to is no longer there
        who = f"evicted by {operator()}"
        why = f"{who}: {reason}" if reason else who
        seen = None if current.unreadable else current.term
        return await backend.leases.evict(name, why, seen)

    if store.ask(act) is None:
        raise Failed(f"{name!r} changed hands meanwhile; nothing was changed. Look again.")
    say(f"Evicted {record.holder} from {name}; term {record.term} is over.")


@leases.command()
@click.argument("lock")
@of_leases
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--reason", help="The reason, kept as the error of the run.")
@click.option(
    "--wait",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds for the run to end by itself.",
)
def clear(lock: str, store: Store, yes: bool, reason: str | None, wait: float) -> None:
    """Free the lock key of one run that is stuck. Exit code 1 if no run has it.

    The run is cancelled, and its node is told. If it does not end within --wait seconds, its claim
    is ended: the key is free, and what the run still reports, or writes under run.fence(), is
    refused. Other runs of its node go on.

    \b
    Example:
      tenure leases clear mailbox:7 --reason "hangs since noon"
    """
    record, run = store.ask(lambda backend: _held(backend, lock))
    if run is None:
        raise Failed(_nothing_to_clear(lock, record, store.address))
    if not yes:
        what = f"run {run.id} of {run.schedule or run.task}, on {run.node}"
        since = exactly(run.claimed_at, SystemClock().now())
        say(f"{lock!r} is the lock key of {what}, since {since}.", err=True)
        say("Its code cannot be stopped from outside, and may go on for a while.", err=True)
        _confirm("Clear it?")
    who = f"its lock was cleared by {operator()}"
    why = f"{who}: {reason}" if reason else who

    async def act(backend: Opened) -> RunRecord:
        return await RunControl(backend, store.address).clear(run, wait, why, SystemClock())

    ended = store.ask(act, within=ANSWER_WITHIN + wait)
    by_itself = "" if ended.error == why else ", by itself"
    say(f"Run {run.id} is {ended.state}{by_itself}; {lock} is free.")


async def _locks(backend: Opened) -> list[RunRecord]:
    if not backend.has_schedules:
        return []  # of a Redis alone: runs are elsewhere
    runs = await backend.runs.find(state="claimed", limit=LOCKS)
    return sorted((run for run in runs if run.lock), key=lambda run: run.lock or "")


async def _held(backend: Opened, name: str) -> tuple[LeaseRecord | None, RunRecord | None]:
    locks = [run for run in await _locks(backend) if run.lock == name]
    return await backend.leases.read(name), locks[0] if locks else None


def _nothing_to_evict(name: str, run: RunRecord | None, at: Address) -> str:
    if run is None:
        listing = at.command("leases", "list")
        return f"nobody holds {name!r}; nothing was changed. `{listing}` shows who holds what."
    return (
        f"{name!r} is the lock key of run {run.id}, not a lease: it ends with the run. If that is"
        f" stuck, clear it: `{at.command('leases', 'clear', name=name)}`. If its whole node hangs,"
        f" take all runs from that node:"
        f" `{at.command('leases', 'evict', name=f'{PRESENCE}{run.node}')}`"
    )


def _nothing_to_clear(lock: str, record: LeaseRecord | None, at: Address) -> str:
    if record is None or record.holder is None:
        listing = at.command("leases", "list")
        return f"no run has the lock key {lock!r}; nothing was changed. `{listing}` shows them."
    evict = at.command("leases", "evict", name=lock)
    return f"{lock!r} is a lease, not the lock key of a run: to end it by force, `{evict}`"


def _confirm(question: str) -> None:
    try:
        sure = click.confirm(question, err=True)
    except click.Abort:
        sure = False
    if not sure:
        raise Failed("not confirmed; nothing was changed. --yes skips the question.")


def _consequence(record: LeaseRecord) -> str:
    if record.name == LEADER:
        return "Another node takes over; what the old leader still writes is refused."
    if record.name.startswith(PRESENCE):
        return (
            "Its runs are given to other nodes while it may still be executing them (their results"
            " are refused). A node that lives comes back under a new name."
        )
    if record.name.startswith(RELAY):
        return "Another process goes on with the relay; events that are on their way may repeat."
    return (
        "Its holder is not stopped, and may continue until its next renewal: make sure that the"
        " process is gone, or that two at a time do no harm."
    )
