"""`tenure schedules preview` and `explain`: of stored schedules, and of triggers given there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenure import Scheduler, cron
from tests.e2e.command import at_hand, tenure, until

CHANGE = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-27")
SKIPPED = '02:30 is skipped (the clocks go from 02:00 to 03:00), and gap="after" runs it just after'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("triggers")
    scheduler = Scheduler(f"sqlite:///{folder}/tenure.db", tz="Europe/Berlin")

    @scheduler.task
    def work() -> None: ...

    scheduler.add("digest", cron("30 2 * * *", jitter=60, start="2030-01-01"), task=work)
    scheduler.stop()
    return folder


def test_preview_of_an_expression_needs_no_store(tmp_path: Path) -> None:
    answer = tenure(tmp_path, "schedules", "preview", *CHANGE, "--count", 3)
    assert answer.code == 0, answer
    assert answer.out.splitlines() == [
        "cron 30 2 * * * (Europe/Berlin)",
        "LOCAL                      UTC               NOTE",
        "Fri 2026-03-27 02:30 CET   2026-03-27 01:30  –",
        "Sat 2026-03-28 02:30 CET   2026-03-28 01:30  –",
        f"Sun 2026-03-29 03:00 CEST  2026-03-29 01:00  {SKIPPED}",
    ]
    assert not list(tmp_path.iterdir())


def test_preview_shows_what_is_left_out(tmp_path: Path) -> None:
    options = ("--except", "2026-03-28", "--gap", "skip", "--jitter", "5m", "-n", 2)
    answer = at_hand(tmp_path, "schedules", "preview", *CHANGE, *options)
    assert [line.split("  ")[0] for line in answer.out.splitlines()[2:6]] == [
        "Fri 2026-03-27 02:30 CET",
        "Sat 2026-03-28 02:30 CET",
        "Sun 2026-03-29 03:00 CEST",
        "Mon 2026-03-30 02:30 CEST",
    ]
    assert "left out: except_dates has 2026-03-28" in answer.out
    assert 'gap="skip" leaves it out' in answer.out
    assert answer.out.splitlines()[-1] == "Each is due up to 300 s later, by jitter."


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (("--every", "1 month", "--start", "2026-01-31"), "2026-01-31T00:00:00.000000Z"),
        (("--at", "2026-12-31T18:00+01:00"), "2026-12-31T17:00:00.000000Z"),
        (
            ("--rrule", "FREQ=MONTHLY;BYDAY=-1FR", "--start", "2026-01-01T09:00"),
            "2026-01-30T09:00:00.000000Z",
        ),
    ],
)
def test_preview_of_every_kind(tmp_path: Path, given: tuple[str, ...], first: str) -> None:
    answer = at_hand(tmp_path, "schedules", "preview", *given, "--after", "2026-01-01", "--json")
    assert answer.json[0]["nominal"] == first


def test_preview_of_a_stored_schedule(folder: Path) -> None:
    answer = at_hand(folder, "schedules", "preview", "digest", "-n", 2, "--json")
    first, second = answer.json
    assert first["nominal"] == "2030-01-01T01:30:00.000000Z"
    assert first["local"] == "2030-01-01T02:30:00+01:00"
    assert first["nominal"] < first["due"] < "2030-01-01T01:31:00.000000Z"
    assert (second["occurs"], second["reason"]) == (True, "regular")
    assert "DUE" in at_hand(folder, "schedules", "preview", "digest").out


def test_one_that_is_not_to_be_kept_is_added_as_such(folder: Path) -> None:
    given = ("--at", "2030-12-31T18:00", "--no-keep", "--task", "send_digest")
    assert at_hand(folder, "schedules", "add", "party", *given).code == 0
    assert ", keep=no" in at_hand(folder, "schedules", "show", "party").out


def test_preview_of_what_has_ended(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "schedules", "preview", "--at", "2020-01-01")
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "No occurrences: it has ended.")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "give the name of a schedule, or one of"),
        (("digest", "--cron", "@daily"), "give the name of a schedule, or one of"),
        (("--cron", "@daily", "--at", "2026-01-01"), "--cron and --at: give one of them"),
        (("digest", "--tz", "UTC"), "--tz belongs to a trigger"),
        (("--cron", "0 24 * * *"), "the hour is wrong: '24'"),
        (("digest", "--no-keep"), "--no-keep belongs to a trigger"),
        (("--cron", "@daily", "--no-keep"), "keep= belongs to at"),
        (("--every", "5 fortnights"), "is not an interval"),
        (("--cron", "@daily", "--jitter", "soon"), "'soon'"),
        (("--cron", "@daily", "--after", "soon"), "--after='soon' is not a time"),
        (("--cron", "@daily", "--fold", "third"), "third"),
    ],
)
def test_wrong_usage(folder: Path, args: tuple[str, ...], said: str) -> None:
    answer = at_hand(folder, "schedules", "preview", *args)
    assert answer.code == 2, answer
    assert said in answer.err


def test_explain_answers_and_its_exit_code_too(folder: Path) -> None:
    answer = tenure(folder, "schedules", "explain", "digest", "2030-03-31T02:30")
    assert answer.code == 0, answer
    assert "does not exist in Europe/Berlin: the clocks go from 02:00 to 03:00" in answer.out
    assert "Sun 2030-03-31 03:00 CEST (01:00 UTC) is an occurrence" in answer.out
    answer = at_hand(folder, "schedules", "explain", "digest", "2030-03-31T02:31Z", "--json")
    assert answer.code == 1, answer
    assert (answer.json["occurs"], answer.json["reason"]) == (False, "no match")
    assert answer.json["following"] == "2030-04-01T00:30:00.000000Z"
    assert (answer.json["state"], answer.json["recorded"]) == ("active", None)


def test_explain_says_what_became_of_it(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db")

    @scheduler.task
    def work() -> None: ...

    scheduler.add("often", cron("* * * * * *"), task=work)
    scheduler.pause("often", "holidays")
    since = scheduler.get("often").next_nominal
    assert since is not None
    until(lambda: datetime.now(UTC) > since, "the next second")
    scheduler.resume("often")
    scheduler.stop()
    answer = at_hand(tmp_path, "schedules", "explain", "often", since.isoformat())
    assert "missed: paused: holidays" in answer.out


def test_explain_of_nothing(folder: Path) -> None:
    assert at_hand(folder, "schedules", "explain", "nobody", "2030-01-01").code == 1
    assert at_hand(folder, "schedules", "explain", "digest", "soon").code == 2
