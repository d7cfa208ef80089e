"""`tenure schedules preview` and `explain`; and the options with which commands take a trigger."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tenure.cli.numbers import Whole
from tenure.cli.opened import Opened
from tenure.cli.output import Page, iso, print_json
from tenure.cli.schedules.output import occurrence_json, state
from tenure.cli.store import Store, as_json, of_store
from tenure.errors import InvalidTrigger
from tenure.model import Occurrence, Schedule
from tenure.process.clock import SystemClock
from tenure.schedules.changes import trigger_of
from tenure.triggers import Explanation, Trigger, moments
from tenure.triggers import parse as parse_trigger
from tenure.triggers.cron_dialects import DIALECTS
from tenure.triggers.text import seconds

KINDS = ("every", "cron", "at", "rrule")
_RECORDED = 1_000


def of_trigger(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a trigger, as one argument `trigger`: None if none was given.

    An error in them is one of usage.
    """

    @click.option("--every", metavar="INTERVAL", help="An interval: 5m, 1h30m, 2 months, day.")
    @click.option("--cron", metavar="EXPRESSION", help='Cron: "0 7 * * MON-FRI", @daily.')
    @click.option("--at", metavar="TIME", help="One time: 2026-12-31T18:00.")
    @click.option("--rrule", metavar="RULE", help='RFC 5545: "FREQ=MONTHLY;BYDAY=-1FR".')
    @click.option("--tz", metavar="ZONE", help="Its time zone, such as Europe/Berlin.  [UTC]")
    @click.option("--start", metavar="TIME", help="Not before this time; --every counts from it.")
    @click.option("--end", metavar="TIME", help="Not after this time.")
    @click.option(
        "--except",
        "except_dates",
        multiple=True,
        metavar="DATE",
        help="Leave out this date or time.",
    )
    @click.option("--jitter", metavar="SPAN", help="Delay by up to this long: 30s, 5m.")
    @click.option(
        "--gap", type=click.Choice(["after", "skip"]), help="If the clocks skip the time."
    )
    @click.option(
        "--fold", type=click.Choice(["first", "second", "both"]), help="If the time occurs twice."
    )
    @click.option(
        "--immediately", is_flag=True, help="For --every: begin when the schedule is added."
    )
    @click.option(
        "--no-keep", is_flag=True, help="For --at: the schedule is removed when it fires."
    )
    @click.option(
        "--dialect", type=click.Choice(DIALECTS), help="What --cron was written for, if not cron."
    )
    @functools.wraps(command)
    def wrapper(*args: Any, except_dates: tuple[str, ...], **given: Any) -> Any:
        kinds = {kind: text for kind in KINDS if (text := given.pop(kind)) is not None}
        names = ("tz", "start", "end", "jitter", "gap", "fold", "dialect")
        options = {name: value for name in names if (value := given.pop(name)) is not None}
        if given.pop("immediately"):
            options["immediately"] = True
        if given.pop("no_keep"):
            options["keep"] = False
        if except_dates:
            options["except_dates"] = list(except_dates)
        return command(*args, trigger=_made(kinds, options), **given)

    return wrapper


def _made(kinds: dict[str, str], options: dict[str, Any]) -> Trigger | None:
    if len(kinds) > 1:
        raise click.UsageError(f"--{' and --'.join(kinds)}: give one of them.")
    if not kinds:
        if options:
            name = {"except_dates": "except", "keep": "no-keep"}.get(
                name := next(iter(options)), name
            )
            raise click.UsageError(
                f"--{name} belongs to a trigger: give --every, --cron, --at or --rrule with it."
            )
        return None
    ((kind, text),) = kinds.items()
    try:
        if "jitter" in options:
            options["jitter"] = seconds("jitter", options["jitter"])
        return parse_trigger(f"{kind} {text}", **options)
    except InvalidTrigger as error:
        raise click.UsageError(str(error)) from error


@click.command()
@click.argument("name", required=False)
@of_trigger
@of_store
@as_json
@click.option(
    "--count", "-n", default=5, show_default=True, type=Whole(1, 10_000), help="How many."
)
@click.option("--after", "given", metavar="TIME", help="From this time on.  [default: now]")
def preview(
    name: str | None,
    trigger: Trigger | None,
    store: Store,
    as_json: bool,
    count: int,
    given: str | None,
) -> None:
    """Show the next times of a schedule, or of a trigger given here, with the reasons.

    Also shows times that an option or a clock change leaves out.

    \b
    Examples:
      tenure schedules preview digest
      tenure schedules preview --cron "30 2 * * *" --tz Europe/Berlin \\
        --after 2026-03-27
    """
    if (name is None) == (trigger is None):
        raise click.UsageError(
            "give the name of a schedule, or one of --every, --cron, --at, --rrule."
        )
    uid, planned = None, None
    if name is not None:
        schedule, now, _ = store.ask(functools.partial(_look, name=name, occurrences=0))
        trigger, uid = trigger_of(schedule), schedule.uid
        planned = schedule.next_nominal if schedule.active else None
    else:
        assert trigger is not None
        now = SystemClock().now()
        trigger = trigger.anchored(now)
    after = now if planned is None else planned - timedelta(microseconds=1)
    if given is not None:
        after = _time("--after", given, trigger) - timedelta(microseconds=1)
    found = trigger.preview(count, after, uid)
    if as_json:
        print_json([explanation_json(told) for told in found])
        return
    _show(trigger, found, known=uid is not None)


@click.command()
@click.argument("name")
@click.argument("time")
@of_store
@as_json
def explain(name: str, time: str, store: Store, as_json: bool) -> None:
    """Say whether a schedule occurs at a time, why, and what became of it.

    A TIME without an offset is local, in the schedule's time zone. The exit code is 1 if it does
    not occur then.

    \b
    Examples:
      tenure schedules explain digest 2026-03-29T02:30
      tenure schedules explain digest 2026-03-29T01:00Z --json
    """
    schedule, _, past = store.ask(functools.partial(_look, name=name, occurrences=_RECORDED))
    trigger = trigger_of(schedule)
    try:
        asked = moments.read("TIME", time)
    except InvalidTrigger as error:
        raise click.UsageError(str(error)) from error
    told = trigger.explain(asked, schedule.uid)
    record = next((o for o in past if o.nominal <= told.moment <= o.last), None)
    if as_json:
        recorded = None if record is None else occurrence_json(record, None)
        print_json(explanation_json(told) | {"state": state(schedule), "recorded": recorded})
    else:
        page = Page()
        page.facts(
            [
                ("Schedule", schedule.name),
                ("Trigger", trigger),
                ("State", state(schedule)),
                ("Why", schedule.reason),
                ("Answer", told.text),
                ("On record", _recorded(record)),
            ]
        )
    if not told.occurs:
        click.get_current_context().exit(1)


async def _look(
    backend: Opened, *, name: str, occurrences: int
) -> tuple[Schedule, datetime, list[Occurrence]]:
    schedule = await backend.editor().get(name)
    past = await backend.schedules.occurrences(name, occurrences) if occurrences else []
    return schedule, await backend.now(), past


def _time(what: str, text: str, trigger: Trigger) -> datetime:
    try:
        return trigger.explain(moments.read(what, text)).moment
    except InvalidTrigger as error:
        raise click.UsageError(str(error)) from error


def _show(trigger: Trigger, found: list[Explanation], *, known: bool) -> None:
    page = Page()
    page.line(str(trigger), style="bold")
    rows = [row for told in found for row in (*told.left_out, told)]
    columns: dict[str, Callable[[Explanation], object]] = {
        "LOCAL": lambda told: f"{moments.show_wall(told.local)} {told.local:%Z}",
        "UTC": lambda told: _utc(told.moment),
    }
    if trigger.jitter and known:
        columns["DUE"] = lambda told: None if told.due is None else _utc(told.due)
    if any(told.note for told in rows):
        columns["NOTE"] = lambda told: told.note if told.occurs else f"left out: {told.note}"
    page.table(
        list(columns),
        [[value(told) or None for value in columns.values()] for told in rows],
        empty="No occurrences: it has ended.",
    )
    if trigger.jitter and not known:
        page.line(f"Each is due up to {trigger.jitter:g} s later, by jitter.", style="dim")


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d} {moments.show_clock(moment.astimezone(UTC))}"


def _recorded(occurrence: Occurrence | None) -> str | None:
    if occurrence is None:
        return None
    return f"{occurrence.state}: {occurrence.reason}" if occurrence.reason else occurrence.state


def explanation_json(told: Explanation) -> dict[str, Any]:
    return {
        "nominal": iso(told.moment),
        "local": told.local.isoformat(),
        "due": iso(told.due),
        "occurs": told.occurs,
        "reason": told.reason,
        "note": told.note or None,
        "text": told.text,
        "previous": iso(told.previous),
        "following": iso(told.following),
        "left_out": [explanation_json(left_out) for left_out in told.left_out],
    }
