"""What the code declares, and what follows from it for the stored schedules of its app.

All that the code of an app declares is an *edition*. During a rollout the nodes of two editions run
side by side. For each schedule the newest edition counts, of those that a live node has and that
declare it:

    declared differently by a newer live edition     left alone: it is that one's to say
    declared otherwise than it is stored             replaced
    declared, and orphaned                           revived
    declared by no live node                         orphaned

The same goes for what it says about its tasks (`rules`): for each task the newest edition counts,
of those that a live node has and that have the task.

`decide` and `rules` are pure. node/rollout.py asks, and acts on the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tenure import triggers
from tenure.errors import ConfigError, InvalidSchedule
from tenure.facts import Fact, ScheduleOrphaned, ScheduleReplaced, ScheduleRevived
from tenure.model import (
    Change,
    Declared,
    Edition,
    OnFailure,
    Schedule,
    ScheduleSpec,
    TaskRule,
)
from tenure.schedules.changes import (
    ORPHANED,
    added,
    edited,
    is_orphaned,
    replanned,
    resumed,
    stopped,
)
from tenure.schedules.drafts import make_spec
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.tasks.task import Task


class Declaration(NamedTuple):
    """A schedule as the code declares it; its trigger is not anchored yet."""

    spec: ScheduleSpec
    trigger: triggers.Trigger


@dataclass(frozen=True, slots=True)
class Declarations:
    """Everything that the code of an app declares."""

    app: str
    by_name: Mapping[str, Declaration]
    edition: Edition


class Decision(NamedTuple):
    """A change of a schedule, and what is told when it has landed."""

    change: Change
    fact: Fact | None = None


def collect(tasks: Tasks, settings: Settings, app: str) -> Declarations:
    """What the code declares; refuses what it declares wrongly."""
    found: dict[str, Declaration] = {}
    for task in tasks:
        if task.trigger is not None:
            spec = make_spec(task.name, task.name, task.kwargs, task.tenant, task.policy, settings)
            # Two digests, of the trigger and of all else: what did not change can be left alone.
            halves = _digest(triggers.fingerprint(task.trigger)), _digest(_written(spec))
            spec = replace(spec, app=app, definition=":".join(halves))
            found[task.name] = Declaration(spec, task.trigger)
    definitions = {name: found[name].spec.definition for name in sorted(found)}
    of_tasks = {
        task.name: TaskRule(task.options.max_running, _on_failure(task, tasks))
        for task in sorted(tasks, key=lambda task: task.name)
    }
    told = [definitions, {name: asdict(rule) for name, rule in of_tasks.items()}]
    return Declarations(app, found, Edition(_digest(json.dumps(told)), definitions, tasks=of_tasks))


def _on_failure(task: Task, tasks: Tasks) -> OnFailure | None:
    wanted = task.options.on_failure
    if wanted is None:
        return None
    try:
        told = tasks.named(wanted)
        told.check({"failure": {}})
    except ConfigError as error:
        raise type(error)(f"task {task.name!r}: on_failure: {error}") from error
    policy = told.policy
    if policy.lock is not None and "{" in policy.lock:
        raise InvalidSchedule(
            f"task {task.name!r}: on_failure: the lock of {told.name!r}, {policy.lock!r}, has"
            " arguments to be filled in. Give it a plain lock key, or none."
        )
    return OnFailure(
        told.name, policy.lock, policy.priority, policy.timeout, policy.retries, policy.on_crash
    )


def starting(known: Declared, within: float) -> set[str]:
    """The editions that were announced a moment ago, by nodes that may not be present yet."""
    lately = timedelta(seconds=within)
    return {
        edition.digest
        for edition in known.editions
        if edition.announced_at is not None
        and known.now - lately < edition.announced_at <= known.now
    }


def is_known(mine: Declarations, known: Declared) -> bool:
    """Has the store heard of this edition, and still knows what it declares?"""
    return any(
        edition.digest == mine.edition.digest and not edition.unreadable
        for edition in known.editions
    )


def decide(
    mine: Declarations, known: Declared, live: Collection[str | None], *, joining: bool = False
) -> list[Decision]:
    """What has to be changed, as far as it is for a node of this edition to do.

    `live` are the editions of the app's live nodes; None stands for a node that does not say what
    it declares, which may be anything. A node that is *joining* adds what is missing, and leaves
    orphans to those that are there. One that is there does not add: what someone removed stays
    removed until a node starts.
    """
    stored = {schedule.name: schedule for schedule in known.schedules}
    newest, _, hidden, certain = _newest(mine, known, live)
    decisions = []
    for name, declaration in mine.by_name.items():
        if newest.get(name) != declaration.spec.definition:
            continue
        old = stored.get(name)
        if old is not None and not hidden:
            decisions += _declared(mine, declaration, old, known.now)
        elif old is None and joining:
            decisions.append(Decision(added(*declaration, known.now)))
    if certain and not joining:
        decisions += [
            _orphaned(mine.app, old)
            for old in known.schedules
            if old.active and old.name not in newest
        ]
    # All nodes in the same order, so that none waits for another that waits for it.
    return sorted(decisions, key=lambda decision: decision.change.spec.name)


def rules(
    mine: Declarations, known: Declared, live: Collection[str | None], *, joining: bool = False
) -> dict[str, TaskRule]:
    """The rules of tasks that have to be put into force, as far as it is for a node of this edition
    to do, by the same principles."""
    _, newest, hidden, certain = _newest(mine, known, live)
    changes = {
        task: rule
        for task, rule in mine.edition.tasks.items()
        if not hidden and newest[task] == rule != known.rules.get(task, TaskRule())
    }
    if certain and not joining:
        changes |= {task: TaskRule() for task in known.rules if task not in newest}
    return changes


def _newest(
    mine: Declarations, known: Declared, live: Collection[str | None]
) -> tuple[dict[str, str], dict[str, TaskRule], bool, bool]:
    """What the newest live editions say about schedules and about tasks; whether a newer one than
    ours cannot be read; and whether it is certain that there are no others."""
    live = {*live, mine.edition.digest}
    editions = _with(mine.edition, known.editions)
    definitions: dict[str, str] = {}
    tasks: dict[str, TaskRule] = {}
    hidden = False
    for edition in editions:
        if edition.digest in live:
            definitions.update(edition.definitions)
            tasks.update(edition.tasks)
            # A newer one that cannot be read may declare anything. Its own nodes will mend it.
            hidden = edition.unreadable or (hidden and edition.digest != mine.edition.digest)
    told = {edition.digest for edition in editions if not edition.unreadable}
    return definitions, tasks, hidden, None not in live and told.issuperset(live)


def _with(mine: Edition, editions: list[Edition]) -> list[Edition]:
    """Ours is among them, as we know it; if the store has not heard of it, as the newest."""
    if all(edition.digest != mine.digest for edition in editions):
        return [*editions, mine]
    return [mine if edition.digest == mine.digest else edition for edition in editions]


def _declared(
    mine: Declarations, declaration: Declaration, old: Schedule, now: datetime
) -> list[Decision]:
    spec, trigger = declaration
    same = [a == b for a, b in zip(_halves(old.spec), _halves(spec), strict=True)]
    about = (old.name, mine.app, mine.edition.digest)
    revives = is_orphaned(old)
    if all(same) and not revives:
        return []
    # What was changed at run time stays, unless the code changed just that.
    if same[1]:
        spec = replace(old.spec, definition=spec.definition)
    if same[0]:
        spec = replace(spec, trigger=old.spec.trigger)
        change = resumed(old, spec, now) if revives else edited(old, spec)
    elif revives:
        change = replanned(old, spec, trigger, now, why=old.reason or ORPHANED)
        change = replace(change, active=True, reason=None)
    else:
        change = replanned(old, spec, trigger, now)
    fact = ScheduleRevived(*about) if revives else ScheduleReplaced(*about)
    return [Decision(change, fact)]


def _orphaned(app: str, old: Schedule) -> Decision:
    reason = f"{ORPHANED}: no live node of app {app!r} declares it"
    return Decision(stopped(old, reason), ScheduleOrphaned(old.name, app, reason))


def _halves(spec: ScheduleSpec) -> tuple[str, str]:
    trigger, _, rest = str(spec.definition).partition(":")  # SQLite takes anything, also bytes
    return trigger, rest


def _written(spec: ScheduleSpec) -> str:
    """What is said about a schedule beyond the defaults: a default that a newer Tenure adds does
    not change the definition."""
    told = ((field.name, getattr(spec, field.name), field.default) for field in fields(spec))
    return json.dumps({name: value for name, value, default in told if value != default})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
