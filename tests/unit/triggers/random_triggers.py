"""Triggers at random around a change of the clocks, each with what brute force says about it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, at, cron, dump, every, load, parse, rrule
from tests.unit.triggers.brute_force import (
    DAY,
    DAYS,
    MINUTE,
    Rule,
    cron_matches,
    every_matches,
    follows_the_wall,
)
from tests.unit.triggers.brute_force_rrule import rrule_matches
from tests.unit.triggers.trigger_oracle import INSTANT

UNITS = ["minutes", "hours", "days", "days", "weeks", "months", "years"]


@dataclass
class Case:
    """One trigger, and a stretch of time in which it is looked at."""

    said: str
    make: Callable[[], Trigger]
    rule: Rule
    begin: datetime
    end: datetime
    text: str | None = None
    """The same as one line."""
    without_zone: Callable[[], Trigger] | None = None
    """The same before it is given its zone."""

    def check(self) -> int:
        """Compare; how many minutes were looked at, 0 if it is refused for having no occurrence."""
        expected = self.rule.occurrences(self.begin, self.end)
        trigger = self.made(expected)
        if trigger is None:
            return 0
        assert load(dump(trigger)) == trigger, self.said
        assert self.text is None or parse(self.text) == trigger, self.text
        assert self.forward(trigger) == expected, self.said
        self._check_zone_later(expected)
        assert self.backward(trigger) == expected, self.said
        for moment in expected[:3]:
            assert trigger.explain(moment).occurs, self.said
            assert trigger.explain(moment + MINUTE).occurs == (moment + MINUTE in expected)
        told = trigger.preview(3, self.begin - INSTANT)
        assert [t.moment for t in told if t.moment < self.end] == expected[:3], self.said
        return 2 * int((self.end - self.begin) // MINUTE)

    def _check_zone_later(self, expected: list[datetime]) -> None:
        """A zone may be given to it later, also after it was stored."""
        if self.without_zone is None:
            return
        try:
            trigger = self.without_zone()
        except InvalidTrigger:
            return  # it has no occurrence in UTC
        for given in (trigger, load(dump(trigger))):
            assert self.forward(given.zoned(self.rule.zone)) == expected, self.said

    def made(self, expected: list[datetime]) -> Trigger | None:
        """The trigger; None if it is refused, as one without occurrences is."""
        try:
            return self.make()
        except InvalidTrigger as error:
            said = f"{self.said}: refused, {error}"
        assert not expected, said
        return None

    def forward(self, trigger: Trigger) -> list[datetime]:
        found, moment = list[datetime](), trigger.next(self.begin - INSTANT)
        while moment is not None and moment < self.end:
            found.append(moment)
            moment = trigger.next(moment)
        return found

    def backward(self, trigger: Trigger) -> list[datetime]:
        found, moment = list[datetime](), trigger.latest(self.end - INSTANT)
        while moment is not None and moment >= self.begin:
            found.append(moment)
            moment = trigger.latest(moment - INSTANT)
        return found[::-1]


class Cases:
    """Those around one change; the same seed gives the same ones."""

    def __init__(self, zone: str, change: datetime, seed: int) -> None:
        self._zone, self._change = zone, change
        self._random = random.Random(f"{seed} {zone} {change}")
        there = ZoneInfo(zone)
        self._before = (change - MINUTE).astimezone(there).replace(tzinfo=None) + MINUTE
        self._after = change.astimezone(there).replace(tzinfo=None, fold=0)

    def case(self) -> Case:
        kinds = [self._cron, self._every, self._rrule, self._rrule, self._at]
        return self._random.choice(kinds)()

    def _pick(self, choices: Any) -> Any:
        return self._random.choice(list(choices))

    def _chance(self, part: float) -> bool:
        return self._random.random() < part

    def _wall(self, days: int = 1) -> datetime:
        """A local time near the change; often one that it skips or repeats."""
        low, high = sorted((self._before, self._after))
        met = (high - low) // MINUTE // 15
        if met and self._chance(0.3):
            return low + self._random.randrange(met) * 15 * MINUTE
        quarters = self._random.randint(-6, 6)
        near = self._random.choice([self._before, self._after])
        wall = near + quarters * 15 * MINUTE
        return wall + self._random.randint(-days, days) * DAY if self._chance(0.4) else wall

    def _instant(self) -> datetime:
        return self._change + self._random.randint(-8, 8) * 15 * MINUTE

    def _start(self) -> datetime:
        return self._instant() if self._chance(0.15) else self._wall()

    def _case(
        self, make: Callable[..., Trigger], rule: Rule, given: str, options: dict[str, Any]
    ) -> Case:
        """With options that all kinds have."""
        if self._chance(0.25):
            rule.end = self._pick([self._wall(), self._wall().date(), self._instant()])
        if self._chance(0.35):
            walls = [self._wall() for _ in range(3)]
            rule.excluded = [self._pick([w, w, w.date(), self._instant()]) for w in walls]
        options |= {"tz": self._zone}
        options |= {"end": rule.end} if rule.end is not None else {}
        options |= {"except_dates": rule.excluded} if rule.excluded else {}
        begin, end = self._change - 3 * DAY, self._change + 3 * DAY
        said = f"{make.__name__}({given}, {options})"
        elsewhere = {name: value for name, value in options.items() if name != "tz"}
        return Case(
            said,
            lambda: make(**options),
            rule,
            begin,
            end,
            text=_line(make.__name__, options),
            without_zone=lambda: make(**elsewhere),
        )

    def _policy(self, gap: str, fold: str, options: dict[str, Any]) -> tuple[str, str]:
        """The defaults of a trigger, or others."""
        if self._chance(0.4):
            gap = options["gap"] = self._pick(["after", "skip"])
        if self._chance(0.4):
            fold = options["fold"] = self._pick(["first", "second", "both"])
        return gap, fold

    # -- kinds ------------------------------------------------------------------------------------

    def _cron(self) -> Case:
        near, day = self._wall(), self._wall()
        hour, minute = near.hour, near.minute
        following = min(hour + 1, 23)
        fields = [
            self._pick([f"{minute}", "0,30", "*/20", "7-59/13", f"{minute}-{minute}/5", "5/20"]),
            self._pick(
                [
                    f"{hour}",
                    f"{hour}",
                    f"{hour}-{following}",
                    f"{hour}-{hour}/6",
                    "*",
                    "*/2",
                    f"{hour % 6}/6",
                    f"{hour},{following},12",
                ]
            ),
            self._pick(["*", "*", "*", f"{day.day}", "L", "LW", "*/2", f"{day.day}-{day.day}/3"]),
            self._pick(["*", "*", f"{day.month}", f"{day:%b}", "1-12/3"]),
            self._pick(
                [
                    "*",
                    "*",
                    "*",
                    f"{day:%a}",
                    f"{day:%a}L",
                    f"{day:%a}#{(day.day + 6) // 7}",
                    "1-5",
                    f"{day.isoweekday()}L",
                    f"{day:%a}-{day:%a}/2",
                    "7",
                    "0/2",
                ]
            ),
        ]
        text = " ".join(fields)
        options: dict[str, Any] = {"expression": text}
        usual = ("skip", "both") if follows_the_wall(text) else ("after", "first")
        rule = Rule(self._zone, cron_matches(text), *self._policy(*usual, options))
        if self._chance(0.4):
            rule.start = options["start"] = self._start()
        return self._case(cron, rule, text, options)

    def _at(self) -> Case:
        wall = self._wall()
        options: dict[str, Any] = {"time": wall}
        policy = self._policy("after", "first", options)
        return self._case(at, Rule(self._zone, wall.__eq__, *policy), f"{wall}", options)

    def _every(self) -> Case:
        unit = self._pick(UNITS)
        count, start = self._random.randint(1, 3), self._start()
        options: dict[str, Any] = {unit: count, "start": start}
        if unit in ("minutes", "hours"):
            options[unit] = count * 15
            step = timedelta(**{unit: count * 15})
            rule = Rule(self._zone, start.__eq__, "after", "first", start, step=step)
            return self._case(every, rule, unit, options)
        wall = start
        if start.tzinfo is not None:
            options["fold"] = "first"
            wall = start.astimezone(ZoneInfo(self._zone)).replace(tzinfo=None, fold=0)
            policy = ("after", "first")
        else:
            if self._chance(0.6):
                back = self._random.randint(0, 2) * count
                days = {"days": 1, "weeks": 7, "months": 28, "years": 364}[unit]
                wall = options["start"] = start = start - back * days * DAY
            policy = self._policy("after", "first", options)
        months = {"months": 1, "years": 12}.get(unit, 0) * count
        matches = every_matches(wall, {"days": 1, "weeks": 7}.get(unit, 0) * count, months)
        rule = Rule(self._zone, matches, *policy, start, exact=start.tzinfo is not None)
        return self._case(every, rule, unit, options)

    def _rrule(self) -> Case:
        freq = self._pick(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
        start, near = self._start(), self._wall(2)
        interval = self._pick([1, 1, 1, 2, 3])
        parts: dict[str, Any] = {
            "FREQ": freq,
            "INTERVAL": interval * (15 if freq == "MINUTELY" else 1),
        }
        last = (near.replace(day=28) + 4 * DAY).replace(day=1) - DAY
        by: dict[str, Any] = {
            "BYMONTH": lambda: near.month,
            "BYDAY": lambda: self._weekdays(freq, near, "BYMONTH" in parts),
            "BYHOUR": lambda: f"{near.hour},{(near.hour + 1) % 24}",
            "BYMINUTE": lambda: self._pick([near.minute, "0,30", "15,45,50"]),
        }
        if freq != "WEEKLY":
            by["BYMONTHDAY"] = lambda: self._pick([near.day, near.day - last.day - 1])
        if freq == "YEARLY" and "BYDAY" not in parts:
            by["BYYEARDAY"] = lambda: near.timetuple().tm_yday
        chosen = self._random.sample(sorted(by), self._random.randint(0, 3))
        for key in sorted(chosen, key=lambda k: k != "BYMONTH"):
            parts[key] = by[key]()
        if chosen and freq not in ("MINUTELY", "HOURLY") and self._chance(0.2):
            parts["BYSETPOS"] = self._pick([1, -1, 2, "1,-1"])
        if self._chance(0.2):
            parts["WKST"] = self._pick(DAYS)
        text = ";".join(f"{key}={value}" for key, value in parts.items())
        options: dict[str, Any] = {"rule": text, "start": start}
        usual = ("skip", "both") if freq in ("HOURLY", "MINUTELY") else ("after", "first")
        policy = self._policy(*usual, options)
        wall = start
        if start.tzinfo is not None:
            wall = start.astimezone(ZoneInfo(self._zone)).replace(tzinfo=None, fold=0)
        rule = Rule(self._zone, rrule_matches(text, wall), *policy, start)
        if self._chance(0.4):
            rule.count = self._random.randint(1, 30)
            options["rule"] += f";COUNT={rule.count}"
        return self._case(rrule, rule, text, options)

    def _weekdays(self, freq: str, near: datetime, monthly: bool) -> str:
        plain = self._random.sample(DAYS, 2)
        if freq == "MONTHLY" or (freq == "YEARLY" and monthly):
            return ",".join([plain[0], f"{(near.day + 6) // 7}{DAYS[near.weekday()]}"])
        return ",".join([*plain, DAYS[near.weekday()]])


def _line(kind: str, options: dict[str, Any]) -> str:
    """A trigger as one line, as docs/triggers.md has it."""

    def written(value: Any) -> str:
        if isinstance(value, list):
            return ",".join(map(written, value))
        return value.isoformat() if isinstance(value, date) else str(value)

    words = [kind]
    for name, value in options.items():
        if name in ("expression", "rule", "time"):
            words.append(written(value))
        elif name in UNITS:
            words.append(f"{value} {name}")
        else:
            words.append(f"{name}={written(value)}")
    return " ".join(words)


def changes(zone: str, first: int, last: int) -> list[datetime]:
    """When the clocks of a zone change in these years, from a full minute to another."""
    there, found = ZoneInfo(zone), list[datetime]()
    moment, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    while moment < end:
        before, day = moment.astimezone(there).utcoffset(), moment
        moment += DAY
        if moment.astimezone(there).utcoffset() != before:
            while day.astimezone(there).utcoffset() == before:
                day += MINUTE
            if in_minutes(zone, day - MINUTE) and in_minutes(zone, day):
                found.append(day)
    return found


def in_minutes(zone: str, moment: datetime) -> bool:
    """Do the clocks there show full minutes when UTC does? Some once followed the sun."""
    offset = moment.astimezone(ZoneInfo(zone)).utcoffset()
    return offset is not None and offset % MINUTE == timedelta(0)


def check_days(seed: int) -> None:
    """Compare the days of a rule of years, months or weeks, for some years."""
    chance = random.Random(f"days {seed}")
    freq = chance.choice(["YEARLY", "YEARLY", "MONTHLY", "WEEKLY"])
    parts: dict[str, Any] = {"FREQ": freq, "INTERVAL": chance.choice([1, 1, 1, 2, 3])}
    if chance.random() < 0.3:
        parts["BYMONTH"] = chance.choice(["1", "12", "1,12", "2", "6,7"])
    if freq == "YEARLY" and chance.random() < 0.5:
        weeks = chance.sample([1, 2, 51, 52, 53, -1, -2, -51, -52, -53], 2)
        parts["BYWEEKNO"] = ",".join(map(str, weeks))
    elif freq != "WEEKLY" and chance.random() < 0.3:
        parts["BYMONTHDAY"] = chance.choice(["1,2,3,4,5,6,7", "-1,-2,-3", "29,30,31", "13"])
    if chance.random() < 0.7:
        days = chance.sample(DAYS, 3)
        if freq == "MONTHLY" or (freq == "YEARLY" and "BYWEEKNO" not in parts):
            most = 5 if freq == "MONTHLY" or "BYMONTH" in parts else 53
            days[0] = f"{chance.choice([1, 2, most, -1, -most])}{days[0]}"
        parts["BYDAY"] = ",".join(days)
        if chance.random() < 0.2:
            parts["BYSETPOS"] = chance.choice(["1", "-1", "2,-2"])
    if chance.random() < 0.5:
        parts["WKST"] = chance.choice(DAYS)
    text = ";".join(f"{key}={value}" for key, value in parts.items())
    start = datetime(chance.randint(2000, 2060), chance.randint(1, 12), chance.randint(1, 28))  # noqa: DTZ001
    matches = rrule_matches(text, start)
    days_of = [start + n * DAY for n in range(366 * 7)]
    expected = [day.replace(tzinfo=UTC) for day in days_of if matches(day)]
    begin, end = start.replace(tzinfo=UTC), days_of[-1].replace(tzinfo=UTC) + DAY
    rule = Rule("UTC", matches, "after", "first", start)
    case = Case(f"rrule({text}, {start})", lambda: rrule(text, start=start), rule, begin, end)
    trigger = case.made(expected)
    if trigger is not None:
        assert case.forward(trigger) == expected, case.said
        assert case.backward(trigger) == expected, case.said
