"""What the code declares, and what follows from it for the stored schedules of its app.

All that the code of an app declares is a *release*. During a rollout the nodes of two releases run
side by side. For each schedule the newest release counts, of those that a live node has and that
declare it:

    declared differently by a newer live release     left alone: it is that one's to say
    declared otherwise than it is stored             replaced
    declared, and orphaned                           revived
    declared by no live node                         orphaned

`decide` is pure. Who asks and what it does with the answer is in declarer.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tenure import triggers
from tenure.catalog import make_spec
from tenure.changes import ORPHANED, added, edited, is_orphaned, replanned, resumed, stopped
from tenure.facts import Fact, ScheduleOrphaned, ScheduleReplaced, ScheduleRevived
from tenure.model import Change, Declared, Release, Schedule, ScheduleSpec
from tenure.settings import Settings
from tenure.tasks import Tasks


class Declaration(NamedTuple):
    """A schedule as the code declares it; its trigger is not anchored yet."""

    spec: ScheduleSpec
    trigger: triggers.Trigger


@dataclass(frozen=True, slots=True)
class Declarations:
    """Everything that the code of an app declares."""

    app: str
    by_name: Mapping[str, Declaration]
    release: Release


class Decision(NamedTuple):
    """A change of a schedule, and what is told when it has landed."""

    change: Change
    fact: Fact | None = None


def collect(tasks: Tasks, settings: Settings, app: str) -> Declarations:
    """What the code declares; refuses what it declares wrongly."""
    found: dict[str, Declaration] = {}
    for task in tasks:
        if task.trigger is not None:
            spec = make_spec(
                task.name, "", task.name, task.kwargs, task.tenant, task.policy, settings
            )
            # Two digests, of the trigger and of all else: what did not change can be left alone.
            halves = _digest(triggers.dump(task.trigger)), _digest(_written(spec))
            spec = replace(spec, app=app, definition=":".join(halves))
            found[task.name] = Declaration(spec, task.trigger)
    definitions = {name: found[name].spec.definition for name in sorted(found)}
    return Declarations(app, found, Release(_digest(json.dumps(definitions)), definitions))


def starting(known: Declared, within: float) -> set[str]:
    """The releases that were announced a moment ago, by nodes that may not be present yet."""
    lately = timedelta(seconds=within)
    return {
        release.digest
        for release in known.releases
        if release.announced_at is not None
        and known.now - lately < release.announced_at <= known.now
    }


def is_known(mine: Declarations, known: Declared) -> bool:
    """Has the store heard of this release? Else it will be the newest when it has."""
    return any(release.digest == mine.release.digest for release in known.releases)


def decide(
    mine: Declarations, known: Declared, live: Collection[str | None], *, joining: bool = False
) -> list[Decision]:
    """What has to be changed, as far as it is for a node of this release to do.

    `live` are the releases of the app's live nodes; None stands for a node that does not say what
    it declares, which may be anything. A node that is *joining* adds what is missing, and leaves
    orphans to those that are there. One that is there does not add: what somebody removed stays
    removed until a node starts.
    """
    live = {*live, mine.release.digest}
    stored = {schedule.name: schedule for schedule in known.schedules}
    releases = known.releases if is_known(mine, known) else [*known.releases, mine.release]
    newest: dict[str, str] = {}
    for release in releases:
        if release.digest in live:
            newest.update(release.definitions)
    decisions = []
    for name, declaration in mine.by_name.items():
        if newest.get(name) != declaration.spec.definition:
            continue
        old = stored.get(name)
        if old is not None:
            decisions += _declared(mine, declaration, old, known.now)
        elif joining:
            decisions.append(Decision(added(*declaration, known.now)))
    certain = None not in live and {release.digest for release in releases}.issuperset(live)
    if certain and not joining:
        decisions += [
            _orphaned(mine.app, old)
            for old in known.schedules
            if old.active and old.name not in newest
        ]
    # All nodes in the same order, so that none waits for another that waits for it.
    return sorted(decisions, key=lambda decision: decision.change.spec.name)


def _declared(
    mine: Declarations, declaration: Declaration, old: Schedule, now: datetime
) -> list[Decision]:
    spec, trigger = declaration
    same = [a == b for a, b in zip(_halves(old.spec), _halves(spec), strict=True)]
    about = (old.name, mine.app, mine.release.digest)
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
    trigger, _, rest = spec.definition.partition(":")
    return trigger, rest


def _written(spec: ScheduleSpec) -> str:
    """What is said about a schedule beyond the defaults: a default that a newer Tenure adds does
    not change the definition."""
    told = ((field.name, getattr(spec, field.name), field.default) for field in fields(spec))
    return json.dumps({name: value for name, value, default in told if value != default})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
