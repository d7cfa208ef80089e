"""The local times of a recurrence rule from DAILY to SECONDLY, found by leaps.

A time has to suit the interval, the day and the time of day. Whichever of the three it does not
suit says where to look next, so that nobody counts the seconds up to the next 29 February.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date, datetime, timedelta
from math import gcd

from tenure.triggers.clock import PARTS, Clock
from tenure.triggers.effort import spend
from tenure.triggers.frequent_periods import Met
from tenure.triggers.recurrence import MOST_IN_A_PERIOD, too_many
from tenure.triggers.recurrence_days import days_of
from tenure.triggers.rrule_text import DAILY, HOURLY, MINUTELY, SECONDLY, Parts

_DAY = 86_400
_LENGTHS = {DAILY: _DAY, HOURLY: 3600, MINUTELY: 60, SECONDLY: 1}
# A search ends after so many days that BYMONTH and the like allow: a century at least.
_MOST_DAYS = 36_525
# With so few times of day, or so few periods in a day, it pays to know which periods have them.
_FEW, _LONG = 2_000, 3_600
_LAST = date.max.toordinal() * _DAY + _DAY - 1


class Frequent:
    """The local times of a rule, from `start` on; inside, seconds of the calendar."""

    def __init__(self, parts: Parts, start: datetime) -> None:
        length = _LENGTHS[parts.freq]
        self._start = _seconds(start)
        self._zero = self._start // length * length
        self._step = length * parts.interval
        self._days = days_of(
            frozenset(parts.lists.get("BYMONTH", ())),
            frozenset(parts.lists.get("BYMONTHDAY", ())),
            frozenset(parts.lists.get("BYYEARDAY", ())),
            frozenset(day for day, _ in parts.days),
        )
        self._clock = _clock(parts)
        self._offsets = _offsets(parts, start)
        # The days on which the interval meets the same times of day come round after so many.
        self._cycle = self._step // gcd(self._step, _DAY)
        self._met: Met | None = None
        self._recent = (0, 0)  # no time lies between the two; the second is one
        few = self._clock.size <= _FEW
        self._rare = self._cycle > 1 and (few or (self._step >= _LONG and self._clock.size < _DAY))
        if self._rare and not few:
            self._periods()  # takes milliseconds: now, and not when it is asked first

    @property
    def night(self) -> timedelta:
        """From the last time of a day to the first one of the next, or less than that."""
        span = self._offsets[-1] - self._offsets[0] if self._offsets else 0
        night = self._clock.night - timedelta(seconds=span)
        return max(night, timedelta(seconds=self._step - span))

    def after(self, wall: datetime) -> datetime | None:
        found = self._after(max(_seconds(wall), self._start - 1))
        return None if found is None else _wall(found)

    def until(self, wall: datetime) -> datetime | None:
        found = self._until(_seconds(wall))
        return None if found is None or found < self._start else _wall(found)

    def _after(self, moment: int) -> int | None:
        asked, known = self._recent  # the same is often asked again, and rare times take long
        if asked <= moment < known:
            return known
        found = self._search(moment)
        if found is not None:
            self._recent = (moment, found)
        return found

    def _search(self, moment: int) -> int | None:
        if not self._offsets:
            return None  # BYSETPOS chooses none of them
        period = self._period_from(self._zero + (moment - self._zero) // self._step * self._step)
        if period is not None and moment >= period + self._offsets[-1]:
            period = self._period_from(period + self._step)
        if period is None:
            return None
        return period + self._offsets[bisect_right(self._offsets, moment - period)]

    def _until(self, moment: int) -> int | None:
        if not self._offsets:
            return None
        period = self._period_until(moment)
        if period is not None and moment < period + self._offsets[0]:
            period = self._period_until(period - 1)
        if period is None:
            return None
        return period + self._offsets[bisect_right(self._offsets, moment - period) - 1]

    def nth(self, number: int) -> datetime | None:
        """The one that has so many before it; None if the calendar ends before."""
        if not self._offsets:
            return None
        met = self._periods()
        # The place of the first one, as if the rule went through its first period from the begin.
        first = bisect_left(self._offsets, self._start - self._zero) if met.has(0) else 0
        nth, place = divmod(first + number, len(self._offsets))
        period = met.nth(nth)
        found = None if period is None else period + self._offsets[place]
        return None if found is None or found > _LAST else _wall(found)

    def between(self, begin: datetime, end: datetime) -> int:
        """How many there are from `begin` on, which is not before the start, and before `end`."""
        count, found = 0, self._after(_seconds(begin) - 1)
        while found is not None and found < _seconds(end):
            spend(5)
            count, found = count + 1, self._after(found)
        return count

    # -- periods (days, … seconds), each by its first second --------------------------------------

    def _periods(self) -> Met:
        if self._met is None:
            self._met = Met(self._zero, self._step, self._clock, self._days)
        return self._met

    def _period_from(self, moment: int) -> int | None:
        """The first one at or after `moment`."""
        if self._rare:
            return self._periods().at_or_after(moment)
        moment = max(moment, self._zero)
        first, second = divmod(moment, _DAY)
        day, barren = first, set[int]()
        for _ in range(_MOST_DAYS):
            spend(3)
            if len(barren) == self._cycle:
                break
            # An interval of more than a day leaves days out.
            missed = (self._zero - day * _DAY) % self._step // _DAY
            found = self._days.at_or_after(day + missed)
            if found is None:
                return None
            day = found
            if day % self._cycle not in barren:
                time = self._time_from(day, second if day == first else 0)
                if time is not None:
                    return day * _DAY + time
                if day != first:  # of the first one, only a part was looked at
                    barren.add(day % self._cycle)
            day += 1
        return None

    def _period_until(self, moment: int) -> int | None:
        """The last one at or before `moment`."""
        if self._rare:
            return self._periods().at_or_before(moment)
        first, second = divmod(moment, _DAY)
        day, barren = first, set[int]()
        for _ in range(_MOST_DAYS):
            spend(3)
            if len(barren) == self._cycle or day * _DAY + _DAY <= self._zero:
                break
            missed = ((day + 1) * _DAY - 1 - self._zero) % self._step // _DAY
            found = self._days.at_or_before(day - missed)
            if found is None:
                return None
            day = found
            if day % self._cycle not in barren:
                time = self._time_until(day, second if day == first else _DAY - 1)
                if time is not None:
                    period = day * _DAY + time
                    return period if period >= self._zero else None
                if day != first:
                    barren.add(day % self._cycle)
            day -= 1
        return None

    def _time_from(self, day: int, second: int) -> int | None:
        """The first time of that day at or after `second` that suits interval and clock."""
        phase = self._zero - day * _DAY
        second += (phase - second) % self._step
        while second < _DAY:
            spend(2)
            found = self._clock.later(*_shown(second - 1))
            if found is None:
                return None
            time = found[0] * 3600 + found[1] * 60 + found[2]
            if time == second:
                return time
            second = time + (phase - time) % self._step
        return None

    def _time_until(self, day: int, second: int) -> int | None:
        phase = self._zero - day * _DAY
        second -= (second - phase) % self._step
        while second >= 0:
            spend(2)
            found = self._clock.not_later(*_shown(second))
            if found is None:
                return None
            time = found[0] * 3600 + found[1] * 60 + found[2]
            if time == second:
                return time
            second = time - (time - phase) % self._step
        return None


def _clock(parts: Parts) -> Clock:
    """The times of day at which a period may begin."""
    hours, minutes, seconds = (
        parts.lists.get(key, tuple(range(size))) if parts.freq >= freq else (0,)
        for key, freq, size in PARTS
    )
    return Clock(frozenset(hours), frozenset(minutes), frozenset(seconds))


def _offsets(parts: Parts, start: datetime) -> tuple[int, ...]:
    """How many seconds after its beginning a period has its times: by the parts below FREQ."""
    found = [0]
    given = (start.hour, start.minute, start.second)
    for (key, freq, _), size, value in zip(PARTS, (3600, 60, 1), given, strict=True):
        if parts.freq < freq:
            numbers = sorted(set(parts.lists.get(key, (value,))))
            found = [offset + number * size for offset in found for number in numbers]
    if "BYSETPOS" in parts.lists:
        count = len(found)
        places = {n - 1 if n > 0 else n + count for n in parts.lists["BYSETPOS"]}
        found = [found[place] for place in sorted(places) if 0 <= place < count]
    if len(found) > MOST_IN_A_PERIOD:
        raise too_many(parts.freq)
    return tuple(found)


def _seconds(wall: datetime) -> int:
    return wall.toordinal() * _DAY + wall.hour * 3600 + wall.minute * 60 + wall.second


def _wall(seconds: int) -> datetime:
    day, second = divmod(seconds, _DAY)
    return datetime.fromordinal(day) + timedelta(seconds=second)


def _shown(second: int) -> tuple[int, int, int]:
    """Hour, minute and second of a second of the day; one before 0 is before every hour."""
    hour, rest = divmod(second, 3600)
    return hour, rest // 60, rest % 60
