"""`tenure schedules update`, `pause`, `resume` and `remove`: changes to one schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tenure.cli.code import Code, of_code_and_store, unknown_tasks
from tenure.cli.errors import Failed, of_usage
from tenure.cli.numbers import ID
from tenure.cli.opened import Opened
from tenure.cli.output import print_json, say, when
from tenure.cli.policies import of_policy, of_target
from tenure.cli.schedules.output import rule, schedule_json, state
from tenure.cli.schedules.triggers import of_trigger
from tenure.cli.store import Store, as_json, of_store
from tenure.errors import ConfigError
from tenure.model import Event, Schedule
from tenure.triggers import Trigger

expected = click.option(
    "--expected-version",
    type=ID,
    metavar="N",
    help="Change it only if it still has this version; else exit code 1.",
)


@click.command()
@click.argument("name")
@of_trigger
@of_target
@of_policy
@click.option("--no-tenant", is_flag=True, help="Remove the tenant.")
@click.option("--no-lock", is_flag=True, help="Use the schedule's own lock key again.")
@click.option("--no-timeout", is_flag=True, help="Remove the timeout.")
@expected
@of_code_and_store
@as_json
def update(
    name: str,
    trigger: Trigger | None,
    task: str | None,
    kwargs: dict[str, Any] | None,
    emit: Event | None,
    tenant: str | None,
    policy: dict[str, Any],
    no_tenant: bool,
    no_lock: bool,
    no_timeout: bool,
    expected_version: int | None,
    code: Code,
    store: Store,
    as_json: bool,
) -> None:
    """Change what you give and leave the rest. A new trigger begins a new plan.

    \b
    Examples:
      tenure schedules update digest --cron "0 8 * * *" --tz Europe/Berlin
      tenure schedules update acme --kwargs '{"customer": 8}' --retries 3 \\
        --expected-version 4
    """
    more = {**policy, **_cleared(policy, tenant, no_tenant, no_lock, no_timeout)}
    if tenant is not None:
        more["tenant"] = tenant
    if all(given is None for given in (trigger, task, kwargs, emit)) and not more:
        raise click.UsageError(
            "nothing to change: give a trigger, --task, --kwargs, --emit or a policy."
        )

    async def act(opened: Opened) -> tuple[datetime, Schedule, str | None]:
        changed = await opened.editor(code.drafts).update(
            name,
            trigger=trigger,
            task=task,
            kwargs=kwargs,
            emit=emit,
            expected_version=expected_version,
            **more,
        )
        tasks = set() if changed.spec.event is not None else {changed.spec.task}
        _, warning = await unknown_tasks(opened, tasks)
        return await opened.now(), changed, warning

    try:
        now, changed, warning = store.ask(act)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if warning and task is not None:
        say(f"Warning: {warning}", err=True)
    if as_json:
        print_json(schedule_json(changed))
        return
    following = f"next {when(changed.next_due, now)}" if changed.active else state(changed)
    say(f"{name} is changed: {rule(changed)}; {following}; version {changed.version}")


def _cleared(
    policy: dict[str, Any], tenant: str | None, no_tenant: bool, no_lock: bool, no_timeout: bool
) -> dict[str, None]:
    given = {**policy, "tenant": tenant}
    cleared = {"tenant": no_tenant, "lock": no_lock, "timeout": no_timeout}
    for name, clear in cleared.items():
        if clear and given.get(name) is not None:
            raise click.UsageError(f"--{name} and --no-{name}: give one of them.")
    return {name: None for name, clear in cleared.items() if clear}


@click.command()
@click.argument("name")
@click.argument("new_name")
@of_store
@expected
@as_json
def rename(
    name: str, new_name: str, store: Store, expected_version: int | None, as_json: bool
) -> None:
    """Give a schedule another name. Its plan, its history and its runs stay with it.

    One that code declares is renamed in the code.

    \b
    Example:
      tenure schedules rename acme-invoice acme-invoice-monthly
    """

    async def act(backend: Opened) -> Schedule:
        return await backend.editor().rename(name, new_name, expected_version)

    renamed = of_usage(lambda: store.ask(act))
    if as_json:
        print_json(schedule_json(renamed))
        return
    say(f"{name} is named {renamed.name} now; version {renamed.version}")


@click.command()
@click.argument("name")
@of_store
@click.option("--reason", help="The reason, shown until it is resumed.")
@expected
@as_json
def pause(
    name: str, store: Store, reason: str | None, expected_version: int | None, as_json: bool
) -> None:
    """Stop firing until it is resumed. Runs that already wait or run are left alone.

    \b
    Example:
      tenure schedules pause digest --reason "mail server is down"
    """

    async def act(backend: Opened) -> tuple[Schedule, Schedule]:
        schedules = backend.editor()
        return await schedules.get(name), await schedules.pause(name, reason, expected_version)

    before, after = store.ask(act)
    if after.version == before.version:
        raise Failed(
            f"{name!r} is already inactive ({before.reason}); nothing was changed. --reason gives a"
            " paused schedule another reason."
        )
    if as_json:
        print_json(schedule_json(after))
        return
    command = store.address.command("schedules", "resume", name=name)
    say(f"{name}: {after.reason}. Resume it with: `{command}`")


@click.command()
@click.argument("name")
@of_store
@click.option(
    "--catch-up", is_flag=True, help="Continue from where it stopped, as after an outage."
)
@expected
@as_json
def resume(
    name: str, store: Store, catch_up: bool, expected_version: int | None, as_json: bool
) -> None:
    """Continue from now; what came due meanwhile is recorded as missed, with the reason.

    With --catch-up it continues from where it stopped; the schedule's policy then decides which of
    the late occurrences fire.

    \b
    Examples:
      tenure schedules resume digest
      tenure schedules resume report --catch-up
    """

    async def act(backend: Opened) -> tuple[datetime, Schedule, Schedule]:
        schedules = backend.editor()
        before = await schedules.get(name)
        after = await schedules.resume(name, catch_up=catch_up, expected_version=expected_version)
        return await backend.now(), before, after

    now, before, after = store.ask(act)
    if as_json:
        print_json(schedule_json(after))
        return
    already = " already; nothing was changed" if after.version == before.version else ""
    say(f"{name} is active{already}; next {when(after.next_due, now)}")


@click.command()
@click.argument("name")
@of_store
@click.option("--yes", is_flag=True, help="Do not ask.")
@expected
@as_json
def remove(name: str, store: Store, yes: bool, expected_version: int | None, as_json: bool) -> None:
    """Remove a schedule and cancel its waiting runs.

    \b
    Example:
      tenure schedules remove acme-invoice --yes
    """
    schedule = store.ask(lambda backend: backend.editor().get(name))
    if schedule.spec.app:
        say(
            f"{name!r} is declared in the code of app {schedule.spec.app!r}: the next node that"
            " starts with that code adds it again. To stop it for good, pause it or change the"
            " code.",
            err=True,
        )
    if not yes:
        try:
            sure = click.confirm(f"Remove schedule {name!r} and cancel its waiting runs?", err=True)
        except click.Abort:
            sure = False
        if not sure:
            raise Failed("not confirmed; nothing was changed. --yes skips the question.")
    store.ask(lambda backend: backend.editor().remove(name, expected_version))
    if as_json:
        print_json({"removed": name, "uid": schedule.uid})
        return
    say(f"{name} is removed.")
