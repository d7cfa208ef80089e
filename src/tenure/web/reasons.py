"""Why an occurrence ran, or did not: what was in its way, and where to see that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenure.model import (
    OVERLAP,
    LeaseRecord,
    Occurrence,
    OccurrenceState,
    RunRecord,
    RunState,
    Schedule,
)
from tenure.node.names import LEADER
from tenure.printable import exception_line
from tenure.schedules.planning import SUPERSEDED
from tenure.triggers import Explanation
from tenure.web import descriptions
from tenure.web.drawing.strip import stretches
from tenure.web.reading import Store, is_live
from tenure.web.rendering import exact, query
from tenure.web.story import Gap, gaps
from tenure.words import relative, short, span

LINES = 300
"""How many lines of the leader's history are looked at."""
SEARCHED = 500
"""Among so many runs the one that was in the way is looked for."""
LATE = timedelta(seconds=10)
LEADER_LINK = f"/lease{query(name=LEADER)}"


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    path: str


@dataclass(frozen=True, slots=True)
class Why:
    """The sentence at the top of a page, and what it names."""

    text: str
    tone: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The time that is asked about, what is on record of it, and who led then."""

    now: datetime
    schedule: Schedule
    told: Explanation | None
    """What the present trigger says about that time. None: it cannot be read, or it was no time
    of the plan."""
    moment: datetime
    occurrence: Occurrence | None
    run: RunRecord | None
    following: Occurrence | None
    """The next on record."""
    leader: LeaseRecord | None
    without_leader: list[Gap]


def to_occurrence(occurrence: Occurrence) -> str:
    at = occurrence.nominal.isoformat()
    return f"/occurrence{query(name=occurrence.schedule, at=at, kind=str(occurrence.kind))}"


async def without_leader(
    store: Store, begin: datetime, end: datetime
) -> tuple[LeaseRecord | None, list[Gap]]:
    """The present leader, and when nobody led between two times."""
    now, leader = await store.lease_now(), await store.leases.read(LEADER)
    history = await store.leases.history(LEADER, limit=LINES)
    found = gaps(stretches(history, leader, now), begin, end, now)
    return (leader if is_live(leader, now) else None), found


async def why(store: Store, asked: Asked) -> Why:
    if asked.occurrence is None:
        return _not_recorded(asked)
    if asked.occurrence.state is OccurrenceState.SKIPPED:
        return await _skipped(store, asked, asked.occurrence)
    if asked.occurrence.state is OccurrenceState.MISSED:
        return _missed(asked, asked.occurrence)
    return await _fired(store, asked, asked.occurrence)


def _not_recorded(asked: Asked) -> Why:
    schedule, now, told = asked.schedule, asked.now, asked.told
    itself = Link(schedule.name, f"/schedule{query(name=schedule.name)}")
    if told is not None and not told.occurs:
        return Why(f"It does not occur then. {told.text}", "warn", _around(schedule, told))
    if not schedule.active:
        stops = f"It does not fire, {_since(schedule, now)}: {schedule.reason or 'paused'}."
        if asked.moment > now or _not_planned_yet(asked):
            return Why(stops, "warn", (itself,))
    if asked.moment > now:
        return Why(f"It is planned, and due {relative(asked.moment, now)}.", "", (itself,))
    if asked.moment < schedule.created_at:
        added = f"The schedule did not exist yet: it was added {exact(schedule.created_at)}."
        return Why(added, "", (itself,))
    if _not_planned_yet(asked):
        late = span((now - asked.moment).total_seconds())
        if asked.leader is None:
            text = f"It has been due for {late}, and nobody leads: nothing is fired."
            return Why(text, "bad", (Link("Who led", LEADER_LINK),))
        text = f"It has been due for {late}. The leader fires it next, or its log says why not."
        return Why(text, "warn", (Link("Who leads", "/"),))
    return Why(
        "Nothing is on record. It is so old that it was deleted, or the schedule had another"
        " trigger then.",
        "",
        (itself,),
    )


def _not_planned_yet(asked: Asked) -> bool:
    planned = asked.schedule.next_nominal
    return planned is not None and planned <= asked.moment


def _since(schedule: Schedule, now: datetime) -> str:
    return f"for {span(max(0.0, (now - schedule.updated_at).total_seconds()))}"


def _around(schedule: Schedule, told: Explanation) -> tuple[Link, ...]:
    near = (("The one before", told.previous), ("The one after", told.following))
    return tuple(
        Link(label, f"/occurrence{query(name=schedule.name, at=moment.isoformat())}")
        for label, moment in near
        if moment is not None
    )


async def _skipped(store: Store, asked: Asked, occurrence: Occurrence) -> Why:
    if not (occurrence.reason or "").startswith(OVERLAP):
        return Why(f"It was skipped: {occurrence.reason or 'no reason is on record'}.", "warn")
    found = await in_the_way(store, asked.schedule, occurrence)
    if found is None:
        text = (
            "It was skipped, because an earlier run of the same lock key was unfinished. Which one"
            " is no longer known."
        )
        return Why(text, "warn")
    of = found.schedule or found.task
    where = "it waited"
    if found.claimed_at is not None:
        where = f"on {short(found.node)} since {exact(found.claimed_at)}"
    until = (
        f"; it ended {exact(found.finished_at)}" if found.finished_at else "; it has not ended yet"
    )
    text = f"It was skipped, because run {found.id} of {of} was unfinished: {where}{until}."
    return Why(text, "warn", (Link(f"Run {found.id}", f"/run/{found.id}"),))


async def in_the_way(store: Store, schedule: Schedule, occurrence: Occurrence) -> RunRecord | None:
    """The run of the same lock key that was unfinished when the occurrence was recorded; the
    oldest, because later ones waited for it."""
    lock, at = schedule.spec.lock, occurrence.recorded_at
    earlier = await store.schedules.occurrences(schedule.name, 50, until=occurrence.nominal)
    own = [each.run_id for each in earlier if each.run_id is not None]
    looked = await store.overview.runs(own) if own else []
    for state in ("claimed", "waiting"):
        looked += await store.overview.unfinished(state, SEARCHED)
    found = _unfinished(looked, lock, at)
    if found is None:  # of another schedule, and it has ended since
        found = _unfinished(await store.overview.runs(limit=SEARCHED), lock, at)
    return found


def _unfinished(runs: Sequence[RunRecord], lock: str | None, at: datetime) -> RunRecord | None:
    found = [
        run
        for run in runs
        if run.lock == lock
        and run.created_at <= at
        and (run.finished_at is None or run.finished_at >= at)
    ]
    return min(found, key=lambda run: run.id, default=None)


def _missed(asked: Asked, occurrence: Occurrence) -> Why:
    many = occurrence.last != occurrence.nominal
    reason = occurrence.reason or "no reason is on record"
    text, links = f"{'They were' if many else 'It was'} missed: {reason}.", list[Link]()
    if reason.startswith(SUPERSEDED):
        text = (
            f"{'They were' if many else 'It was'} not fired in time, and when it was possible, a"
            " later one was due already: only the latest is caught up."
        )
    if asked.without_leader:
        text = f"{_told(asked.without_leader)} {text}"
        links.append(Link("Who led", LEADER_LINK))
    if asked.following is not None and reason.startswith(SUPERSEDED):
        links.append(Link("The one that was fired", to_occurrence(asked.following)))
    return Why(text, "warn", tuple(links))


def _told(found: Sequence[Gap]) -> str:
    gap = max(found, key=lambda each: each.end - each.begin)
    length = span((gap.end - gap.begin).total_seconds())
    until = "and nobody does now" if gap.goes_on else f"until {exact(gap.end)}"
    return f"Nobody led for {length}, {until} ({gap.why})."


async def _fired(store: Store, asked: Asked, occurrence: Occurrence) -> Why:
    run, now, links = asked.run, asked.now, list[Link]()
    late = occurrence.recorded_at - occurrence.nominal
    before = ""
    if occurrence.kind == "planned" and late > LATE:
        before = f"It was fired {span(late.total_seconds())} late. "
        if asked.without_leader:
            before += f"{_told(asked.without_leader)} "
            links.append(Link("Who led", LEADER_LINK))
    if run is None:
        if asked.schedule.spec.event is not None:
            topic = asked.schedule.spec.event.topic
            text = f"It emitted an event to {topic}."
            return Why(before + text, "", (*links, Link("Events", f"/events{query(topic=topic)}")))
        text = "It was fired. Its run is so old that it was deleted."
        return Why(before + text, "", tuple(links))
    links.insert(0, Link(f"Run {run.id}", f"/run/{run.id}"))
    if run.state is RunState.WAITING:
        waits = await descriptions.why_it_waits(store, run, now)
        if waits is not None:
            if waits.behind is not None:
                links.append(Link(f"Run {waits.behind}", f"/run/{waits.behind}"))
            return Why(f"{before}Its run waits. {waits.text}", "", tuple(links))
    return Why(before + _ended(run, now), _tone(run), tuple(links))


def _ended(run: RunRecord, now: datetime) -> str:
    when = "" if run.finished_at is None else f" {relative(run.finished_at, now)}"
    if run.state is RunState.CLAIMED:
        since = "" if run.claimed_at is None else f" since {exact(run.claimed_at)}"
        return f"It runs on {short(run.node)}{since}."
    if run.error and run.state is not RunState.SUCCEEDED:
        return f"Its run {_VERBS.get(run.state, run.state)}{when}: {exception_line(run.error)}"
    return f"Its run {_VERBS.get(run.state, run.state)}{when}."


_VERBS = {RunState.CANCELLED: "was cancelled", RunState.LOST: "was lost"}


def _tone(run: RunRecord) -> str:
    return "bad" if run.state in (RunState.FAILED, RunState.LOST) else ""
