"""Whatever is given for a trigger or a time: it works, or an error of ours says why not."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import InvalidTrigger, TenureError
from tenure.triggers import Trigger, at, cron, dump, every, load, parse, rrule
from tests.e2e.command import at_hand

BIG = "9" * 5000
NUMBERS = (
    *("0", "1", "-1", "2", "7", "12", "31", "53", "60", "366", "1000", "999999999", BIG, "1.5"),
    *("1e9", "\u0661", "²", "NaN", "inf", "+1", "0x1"),
)
TIMES = (
    *("0001-01-01", "0001-01-01T00:00", "9999-12-31", "9999-12-31T23:59:59", "2026-02-29"),
    *("0001-01-01T00:00+14:00", "9999-12-31T23:59:59-12:00", "0001-01-01T12:00Z", "", BIG),
    *("2026-01-01T00:00:00.000001Z", "20260101", "2026-W01-1", "9999-12-31T12:00Z", "now"),
)
ZONES = (
    *("UTC", "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12", "nowhere", "../etc/passwd"),
    *("\0", "", "Europe/", "." * 300, "posixrules"),
)
DAYS = ("MO", "FR", "53FR", "-53SU", "5MO", "-5FR", "6SA", "1SU", "0MO", "+1MO", "FR53", "\u0663MO")
FIELDS = (
    *("*", "*/5", "0", "59", "60", "31", "30", "2", "L", "LW", "15W", "5L", "5#3", "MON-FRI"),
    *("FEB", "1-5/2", "*/0", "0-", "-1", "1,2,,", "H", "?", "²", BIG, "*/99999", "0#0", "@daily"),
)
ODD: tuple[Any, ...] = (
    *(None, 5, b"x", "", " ", BIG, float("nan"), float("inf"), True, 10**5000, "\0", "\ud800"),
    *(
        datetime(1, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        date(1, 1, 1),
        timedelta.max,
    ),
)
EDGES = (
    datetime(2026, 5, 5, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
)
BY = ("BYSECOND", "BYMINUTE", "BYHOUR", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH")


class Guesses:
    """Triggers of all kinds, most of them wrong somewhere."""

    def __init__(self, seed: int) -> None:
        self._r = random.Random(seed)

    def _some(self, choices: tuple[str, ...]) -> str:
        return ",".join(self._r.choice(choices) for _ in range(self._r.randint(1, 2)))

    def rule(self) -> str:
        r = self._r
        parts = [f"FREQ={r.choice(['YEARLY', 'MONTHLY', 'WEEKLY', 'DAILY', 'HOURLY', 'X'])}"]
        keys = [key for key in ("INTERVAL", "COUNT", "BYSETPOS", *BY) if r.random() < 0.15]
        parts += [f"{key}={self._some(NUMBERS)}" for key in keys]
        if r.random() < 0.5:
            parts.append(f"BYDAY={self._some(DAYS)}")
        if r.random() < 0.2:
            parts.append(f"UNTIL={r.choice(['00010101', '99991231T235959Z', '20269999', 'x'])}")
        text = ";".join(parts)
        if r.random() < 0.2:
            begin = r.choice(["00010101T000000", "99991231T235959Z", "20260101", "x", ""])
            text = f"DTSTART{r.choice(['', ';TZID=Europe/Berlin', ';TZID='])}:{begin}\nRRULE:{text}"
        return text

    def expression(self) -> str:
        return " ".join(self._r.choice(FIELDS) for _ in range(self._r.choice([1, 5, 5, 5, 6, 7])))

    def interval(self) -> str:
        units = ("s", "m", "h", "d", "w", "months", "years", "x", "")
        return self._r.choice(NUMBERS) + self._r.choice(units)

    def options(self) -> dict[str, Any]:
        r, given = self._r, dict[str, Any]()
        for name, choices in (
            ("tz", ZONES),
            ("start", TIMES),
            ("end", TIMES),
            ("except_dates", ([r.choice(TIMES)], "2026-01-01", [5], None, [None])),
            ("jitter", (0, 1, -1, 1e308, float("nan"), 10**5000, "5", None, True)),
            ("gap", ("after", "skip", "x", None, 5)),
            ("fold", ("first", "both", "x", None)),
        ):
            if r.random() < 0.25:
                given[name] = r.choice(choices)
        return given

    def stored(self) -> str:
        r = self._r
        data: dict[str, Any] = {"type": r.choice(["every", "cron", "at", "rrule", "x", 5]), "v": 1}
        for key in ("rule", "last", "seconds", "days", "months", "expression", "time", "tz", "end"):
            if r.random() < 0.4:
                texts = (self.rule(), self.expression(), *NUMBERS, *TIMES)
                data[key] = r.choice([r.choice(texts), 1, -1, 1e308, [], {}, None, [1]])
        return json.dumps(data).replace('"1.5"', BIG)

    def trigger(self) -> Trigger:
        r, options = self._r, self.options()
        kind = r.randint(0, 7)
        if kind == 0:
            return cron(self.expression(), **options)
        if kind == 1:
            return parse(f"every {self.interval()}", **options)
        if kind == 2:
            some = {name: options[name] for name in options.keys() & {"tz", "jitter", "gap"}}
            return at(r.choice(TIMES), **some)
        if kind == 3:
            unit = r.choice(["seconds", "hours", "days", "months", "count", "unit", "start", "tz"])
            return every(**{unit: r.choice(ODD)})
        if kind == 4:
            maker: Any = r.choice([cron, at, rrule, parse, load])
            made: Trigger = maker(r.choice(ODD))
            return made
        if kind == 5:
            return load(self.stored())
        return rrule(self.rule(), **options)

    def edge(self) -> datetime:
        return self._r.choice(EDGES)


def use(trigger: Trigger, now: datetime) -> None:
    """All that is done with a trigger, at the ends of the calendar too."""
    back = load(dump(trigger.zoned("Europe/Berlin").anchored(now)))
    assert str(back)
    assert repr(back)
    for moment in EDGES:
        back.next(moment)
        back.latest(moment)
        for ask in (
            lambda m=moment: back.preview(3, m, 7),
            lambda m=moment: back.explain(m, 7),
            lambda m=moment: back.explain(m.replace(tzinfo=None)),
        ):
            try:
                ask()
            except TenureError:
                continue


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_anything_works_or_is_refused(seed: int) -> None:
    guesses, worked, refused = Guesses(seed), 0, list[str]()
    for _ in range(400):
        try:
            use(guesses.trigger(), guesses.edge())
            worked += 1
        except TenureError as error:
            refused.append(str(error))
    assert worked > 5
    assert len(refused) > 20
    assert all(0 < len(text) < 2_000 for text in refused)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rrule FREQ=MONTHLY;BYDAY=53FR", "a month has no more than 5 of a weekday"),
        ("rrule FREQ=YEARLY;BYMONTH=2;BYDAY=-6MO", "a month has no more than 5 of a weekday"),
        (f"every {BIG}s", "is not an interval"),
        (f"every {BIG}", "is not an interval"),
        (f"every 5m jitter={BIG}", "is not a duration"),
        ("every 1h start=0001-01-01", "beyond the calendar"),
        ("rrule FREQ=DAILY start=0001-01-01", "beyond the calendar"),
        ("rrule FREQ=DAILY start=0001-01-01 tz=Pacific/Kiritimati", "there is no such time"),
    ],
)
def test_reason(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidTrigger, match=why) as caught:
        use(parse(text), EDGES[0])
    assert len(str(caught.value)) < 500
    kind, rule, *options = text.split()
    given = [word for option in options for word in f"--{option}".split("=")]
    answer = at_hand(tmp_path, "schedules", "preview", f"--{kind}", rule, *given)
    assert answer.code == 2, answer
    assert why in answer.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["every", "cron", "at", "rrule"])
def test_command_line_has_no_traceback(kind: str, tmp_path: Path) -> None:
    guesses = Guesses(7)
    makers = {"every": guesses.interval, "cron": guesses.expression, "rrule": guesses.rule}
    store = ("--url", "sqlite:///jobs.db")
    assert at_hand(tmp_path, "migrate", *store).code == 0
    added = ("schedules", "add", "a", "--every", "1d", "--task", "x", *store)
    assert at_hand(tmp_path, *added).code == 0
    for n in range(60):
        text = makers[kind]() if kind in makers else TIMES[n % len(TIMES)]
        given = guesses.options()
        words = [f"--{name}={given[name]}" for name in ("tz", "start", "end") if name in given]
        time = TIMES[n % len(TIMES)]
        for call in (
            ("preview", f"--{kind}={text}", *words, f"--after={time}"),
            ("add", f"s{n}", f"--{kind}={text}", *words, "--task", "x", *store),
            ("preview", "a", f"--after={time}", *store),
            ("explain", "a", time, *store),
            ("backfill", "a", "--from", time, "--to", TIMES[n * 7 % len(TIMES)], *store),
        ):
            answer = at_hand(tmp_path, "schedules", *call)  # raises what is not told plainly
            assert answer.code in (0, 1, 2), answer
