"""Why a time is an occurrence, or is not: which rule of the trigger applied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tenure.errors import ConfigError
from tenure.process.clock import SystemClock
from tenure.triggers.base import Bounded
from tenure.triggers.local_times import INSTANT, Policy, Walls, contains, skipped
from tenure.triggers.moments import resolve, show, show_clock, show_wall
from tenure.triggers.zones import Jump, change, change_at, to_utc

MOST_LEFT_OUT = 3


class Reason(StrEnum):
    """The rule that decided."""

    REGULAR = "regular"
    GAP = "skipped hour"
    FOLD = "repeated hour"
    EXCLUDED = "excluded date"
    BEFORE_START = "before start"
    AFTER_END = "after end"
    NO_MATCH = "no match"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One time, and what the trigger says about it."""

    moment: datetime
    """In UTC."""
    local: datetime
    """The same in the zone of the trigger."""
    occurs: bool
    reason: Reason
    text: str
    """The whole answer in words."""
    note: str = ""
    """The part of it that says which option or jump of the clocks decided; empty if none did."""
    due: datetime | None = None
    """When it is due: with jitter, only if the schedule is known."""
    previous: datetime | None = None
    following: datetime | None = None
    """The occurrences before and after it, in UTC."""
    left_out: tuple[Explanation, ...] = ()
    """In a preview: the first times since the occurrence before that an option leaves out."""

    def __str__(self) -> str:
        return self.text


def preview(trigger: Bounded, n: int, after: datetime | None, uid: int | None) -> list[Explanation]:
    """The next occurrences after `after`, which is local if it has no zone; or from now on."""
    if n < 0:
        raise ConfigError(f"preview({n}): the number must not be negative.")
    found = list[Explanation]()
    after = SystemClock().now() if after is None else resolve(after, trigger.options.zone)
    if not trigger.complete:
        trigger = trigger.anchored(after)
    wide, since = _widened(trigger), after
    before, moment = trigger.latest(after), trigger.next(after)
    while moment is not None and len(found) < n:
        left_out = _left_out(trigger, wide, since, moment)
        following = trigger.next(moment)
        told = _Answer(trigger, moment, uid, around=(before, following)).explain()
        found.append(replace(told, left_out=left_out))
        before, since, moment = moment, moment, following
    return found


def explain(trigger: Bounded, moment: datetime, uid: int | None) -> Explanation:
    """About an instant, or about a local time if `moment` has no zone."""
    try:
        return _explain(trigger, moment, uid)
    except OverflowError as error:
        raise ConfigError(f"{moment} is too close to the end of the calendar.") from error


def _explain(trigger: Bounded, moment: datetime, uid: int | None) -> Explanation:
    zone, walls = trigger.options.zone, trigger.walls
    if moment.tzinfo is not None:
        return _Answer(trigger, moment, uid).explain()
    wall = moment.replace(fold=0)
    jump = change(wall, zone)
    if jump is None or not jump.skipped:
        instant = to_utc(wall, zone, second=bool(moment.fold))
        return _Answer(trigger, instant, uid).explain()
    missing = f"{show_wall(wall)} does not exist in {trigger.options.tz}: {_jump(jump)}"
    answer = _Answer(trigger, jump.moment, uid)
    if walls is None or not contains(walls[0], wall):
        told, said = answer.tell(False, Reason.NO_MATCH, ""), "it is not a time of the rule"
    elif walls[1].gap == "skip":
        told, said = answer.tell(False, Reason.GAP, ""), 'gap="skip" leaves it out'
    else:
        told = answer.explain()
        return replace(told, text=f"{missing}. {told.text}")
    text = f"{missing}, and {said}.{answer.neighbours()}"
    return replace(told, text=text, note=f"{_jump(jump)}, and {said}")


class _Answer:
    """The case for one instant."""

    def __init__(
        self,
        trigger: Bounded,
        moment: datetime,
        uid: int | None,
        *,
        brief: bool = False,
        around: tuple[datetime | None, datetime | None] | None = None,
    ) -> None:
        """`around`: the occurrences before and after it, if they are known already."""
        self._trigger = trigger
        self._zone = trigger.options.zone
        self._moment = moment.astimezone(UTC)
        self._local = moment.astimezone(self._zone)
        self._wall = self._local.replace(tzinfo=None, fold=0)
        self._uid = uid
        self._brief = brief
        self._known = around

    @property
    def _around(self) -> tuple[datetime | None, datetime | None]:
        if self._known is None:
            trigger, moment = self._trigger, self._moment
            self._known = trigger.latest(moment - INSTANT), trigger.next(moment)
        return self._known

    def explain(self) -> Explanation:
        trigger, moment, last = self._trigger, self._moment, self._trigger.ends
        begins = trigger.begins
        if begins is not None and moment < begins:
            return self.tell(False, Reason.BEFORE_START, f"it begins at {self._show(begins)}")
        if last is not None and moment > last:
            return self.tell(False, Reason.AFTER_END, f"it ends at {self._show(last)}")
        occurs = trigger._until(moment) == moment
        entry = trigger.excluded(moment) if occurs else None
        if entry is not None:
            said = f"except_dates has {entry.isoformat()}"
            return self.tell(False, Reason.EXCLUDED, said)
        plain = self.tell(occurs, Reason.REGULAR if occurs else Reason.NO_MATCH, "")
        walls = trigger.walls
        return plain if walls is None else self._clock_change(*walls, occurs) or plain

    def _clock_change(self, walls: Walls, policy: Policy, occurs: bool) -> Explanation | None:
        """The answer if it depends on a jump of the clocks."""
        if contains(walls, self._wall):
            jump = change(self._wall, self._zone)
            if jump is None:
                return None
            said = f"the {self._pass} pass of a repeated hour ({_jump(jump)})"
            runs = {"both": "both", "first": "the first", "second": "the second"}[policy.fold]
            return self.tell(occurs, Reason.FOLD, f'{said}, and fold="{policy.fold}" runs {runs}')
        jump = change_at(self._moment, self._zone)
        missing = None if jump is None else self._trigger.skipped(jump) or skipped(walls, jump)
        if jump is None or missing is None:
            return None
        said = f"{show_clock(missing)} is skipped ({_jump(jump)})"
        does = 'gap="after" runs it just after' if occurs else 'gap="skip" leaves it out'
        return self.tell(occurs, Reason.GAP, f"{said}, and {does}")

    @property
    def _pass(self) -> str:
        return "second" if self._local.fold else "first"

    def tell(self, occurs: bool, reason: Reason, said: str) -> Explanation:
        text = f"{self._show(self._moment)} is {'an' if occurs else 'not an'} occurrence"
        text += f": {said}." if said else "."
        trigger, due, (before, after) = self._trigger, None, self._around
        if not occurs:
            text += "" if self._brief else self.neighbours()
        elif self._uid is not None:
            due = self._moment + trigger.delay(self._uid, self._moment)
            text += f" Due {self._show(due)}, by jitter." if trigger.jitter else ""
        elif trigger.jitter:
            text += f" Due up to {trigger.jitter:g} s later, by jitter."
        else:
            due = self._moment
        return Explanation(
            moment=self._moment,
            local=self._local,
            occurs=occurs,
            reason=reason,
            text=text,
            note=said,
            due=due,
            previous=before,
            following=after,
        )

    def neighbours(self) -> str:
        before, after = self._around
        said = [
            f"{what} {self._show(moment)}"
            for what, moment in (("the last one before it is", before), ("the next one is", after))
            if moment is not None
        ]
        text = ", ".join(said) or "there is none before or after it"
        return f" {text[0].upper()}{text[1:]}."

    def _show(self, moment: datetime) -> str:
        return show(moment, self._zone)


def _jump(jump: Jump) -> str:
    form = "%H:%M" if jump.begin.date() == jump.end.date() else "%Y-%m-%d %H:%M"
    begin, end = jump.begin.strftime(form), jump.end.strftime(form)
    if jump.skipped:
        return f"the clocks go from {begin} to {end}"
    return f"the clocks go from {end} back to {begin}"


def _left_out(
    trigger: Bounded, wide: Bounded | None, since: datetime, until: datetime
) -> tuple[Explanation, ...]:
    """What the rule has between two occurrences and an option takes away; the first few."""
    found = list[Explanation]()
    moment = None if wide is None else wide.next(since)
    while wide is not None and moment is not None and moment < until:
        if len(found) == MOST_LEFT_OUT:
            break
        told = _Answer(trigger, moment, None, brief=True).explain()
        if told.reason is not Reason.NO_MATCH:
            found.append(told)
        moment = wide.next(moment)
    return tuple(found)


def _widened(trigger: Bounded) -> Bounded | None:
    """The same rule without what takes times away; None if nothing does."""
    options, wider = trigger.options, dict[str, Any]()
    if options.except_dates:
        wider["except_dates"] = ()
    if trigger.walls is not None and trigger.walls[1].fold != "both":
        wider["fold"] = "both"
    if options.gap == "skip":
        wider["gap"] = "after"
    return trigger.loosened(replace(options, **wider)) if wider else None
