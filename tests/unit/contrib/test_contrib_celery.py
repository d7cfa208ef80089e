"""Celery's tasks and entries as Tenure's: in a world without servers, and with Celery's own broker
in memory."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.apps.beat import Beat
from celery.beat import BeatLazyFunc, Service
from celery.schedules import crontab
from kombu.exceptions import OperationalError

from tenure import Run, Scheduler, Settings, every
from tenure.contrib.celery import Once, include
from tenure.contrib.celery.beat import BeatScheduler, declare
from tenure.contrib.celery.config import REAP_EVERY, make_scheduler
from tenure.contrib.celery.sending import OCCURRENCE, SENT, send
from tenure.errors import ConfigError, InvalidSchedule
from tenure.model import CatchUp, Kind, Overlap
from tenure.testing import testing

START = datetime.fromisoformat("2026-03-01T12:00:00+00:00")


class Recorded(Celery):  # type: ignore[misc]  # Celery has no types
    """An application whose messages go nowhere, and are remembered. Away, it takes none."""

    def __init__(self, **entries: Any) -> None:
        super().__init__("proj", set_as_current=False)
        self.conf.timezone = "Europe/Berlin"
        self.conf.tenure_url = "sqlite:///never-opened.db"
        self.conf.beat_schedule = entries
        self.sent: list[tuple[str, list[Any], dict[str, Any], dict[str, Any]]] = []
        self.away = False

    def send_task(self, name: str, args: Any, kwargs: Any, **options: Any) -> None:
        if self.away:
            raise OperationalError("nobody listens")
        self.sent.append((name, args, kwargs, options))

    @property
    def ids(self) -> list[str]:
        return [options["task_id"] for *_, options in self.sent]


def entries(app: Celery) -> Scheduler:
    """A scheduler with the entries of this application, as a beat has them."""
    beat = BeatScheduler(app, lazy=True)
    beat.merge_inplace(app.conf.beat_schedule)
    declare(beat._tenure, app, beat.schedule.values())
    scheduler: Scheduler = beat._tenure
    return scheduler


def test_an_entry_sends_its_task_with_what_beat_schedule_says() -> None:
    numbers = iter(range(10))
    app = Recorded(
        report={
            "task": "proj.report",
            "schedule": 60,
            "args": ((1, 2), BeatLazyFunc(lambda: next(numbers))),
            "kwargs": {"when": BeatLazyFunc(datetime.now)},
            "options": {"queue": "slow", "headers": {"own": 1}},
        }
    )
    with testing(entries(app), start=START) as world:
        world.advance(minutes=2)
    first, second = app.sent
    assert (first[0], first[1]) == ("proj.report", [(1, 2), 0])
    assert second[1] == [(1, 2), 1]
    assert isinstance(first[2]["when"], datetime)
    assert first[3]["queue"] == "slow"
    assert first[3]["headers"].keys() == {"own", "celery_beat_task", OCCURRENCE, SENT}
    # What beat_schedule says is not changed by it.
    assert app.conf.beat_schedule["report"]["options"] == {"queue": "slow", "headers": {"own": 1}}


def test_a_broker_that_is_away_is_waited_for_and_each_occurrence_sent() -> None:
    app = Recorded(tick={"task": "proj.tick", "schedule": 1})
    with testing(entries(app), start=START) as world:
        world.advance(seconds=2)
        app.away = True
        world.advance(seconds=10)
        assert len(app.sent) == 2
        app.away = False
        world.advance(seconds=3)
    occurrences = [json.loads(options["headers"][OCCURRENCE]) for *_, options in app.sent]
    times = sorted(datetime.fromisoformat(told[4]) for told in occurrences)
    assert times == [START + timedelta(seconds=n) for n in range(1, 16)]
    assert len(set(app.ids)) == 15


def a_run(**given: Any) -> Run:
    about = {"id": 1, "schedule": "tick", "task": "tick", "nominal": START, "attempt": 1}
    return Run(**{**about, "term": 1, "node": "a", "kwargs": {}, **given})


def test_the_id_of_a_message_follows_from_its_occurrence_alone() -> None:
    def sent(run: Run, namespace: str = "default") -> str:
        return send(Recorded(), run, namespace, "proj.tick", (), {}, {})

    usual = sent(a_run())
    assert usual == sent(a_run(id=2, attempt=3, term=9, node="b")) == sent(a_run())
    later = START + timedelta(seconds=1)
    others = [
        sent(a_run(nominal=later)),
        sent(a_run(schedule="tock")),
        sent(a_run(kind=Kind.BACKFILL)),
        sent(a_run(kind=Kind.MANUAL)),
        sent(a_run(kind=Kind.MANUAL, id=2)),
        sent(a_run(), "other"),
    ]
    assert len({usual, *others}) == 7


def test_what_no_broker_would_take_fails_at_once() -> None:
    class Refuses(Recorded):
        def send_task(self, *args: Any, **options: Any) -> None:
            raise TypeError("not serializable")

    app = Refuses(tick={"task": "proj.tick", "schedule": 1})
    with testing(entries(app), start=START) as world:
        world.advance(seconds=1)
        (failure,) = world.failures
    assert "not serializable" in str(failure)


def test_entries_have_the_policies_that_celery_and_you_ask_for() -> None:
    app = Recorded(
        nightly={"task": "a", "schedule": crontab(minute=0, hour=3)},
        often={"task": "a", "schedule": 10},
    )
    app.conf.beat_cron_starting_deadline = 120
    app.conf.tenure_policies = {"*": {"priority": 2}, "often": {"catch_up": "all"}}
    tasks = entries(app).tasks
    nightly, often = tasks["nightly"].policy, tasks["often"].policy
    assert (nightly.catch_up, nightly.catch_up_grace) == (CatchUp.NONE, 120)
    assert (often.catch_up, often.overlap, often.priority) == (CatchUp.ALL, Overlap.ALLOW, 2)
    assert nightly.priority == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tenure_policies": {"nightl": {}}}, r"names 'nightl'.*Did you mean 'nightly'"),
        ({"tenure_policies": {"nightly": "all"}}, r"is not a mapping of policies"),
        ({"tenure_policies": {"*": {"catchup": 1}}}, r"beat_schedule\['nightly'\].*'catchup'"),
        ({"tenure_options": ["ttl"]}, r"tenure_options=\['ttl'\] is not a mapping"),
        ({"tenure_options": {"tl": 5}}, r"no argument 'tl'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(
    change: dict[str, Any], said: str
) -> None:
    app = Recorded(nightly={"task": "a", "schedule": crontab(minute=0, hour=3)})
    app.conf.update(change)
    with pytest.raises(ConfigError, match=said):
        BeatScheduler(app)


def test_in_djangos_settings_the_names_begin_as_celerys_own_do() -> None:
    class Settings:
        CELERY_BEAT_SCHEDULE: Any = {"often": {"task": "a", "schedule": 10}}  # noqa: RUF012
        CELERY_TENURE_URL = "sqlite:///of-django.db"
        CELERY_TENURE_POLICIES: Any = {"often": {"catch_up": "all"}}  # noqa: RUF012
        CELERY_TENURE_OPTIONS: Any = {"namespace": "shop"}  # noqa: RUF012

    app = Celery("proj", set_as_current=False)
    app.config_from_object(Settings, namespace="CELERY")
    scheduler = entries(app)
    assert (scheduler.url, scheduler.namespace) == ("sqlite:///of-django.db", "shop")
    assert scheduler.tasks["often"].policy.catch_up == CatchUp.ALL


def test_the_configuration_may_name_it_as_the_option_does() -> None:
    app = Recorded()
    app.conf.beat_scheduler = "tenure"
    named = Beat(app=app, quiet=True).scheduler_cls
    assert type(Service(app, scheduler_cls=named).get_scheduler(lazy=True)) is BeatScheduler


def test_a_beat_looks_often_for_what_a_killed_one_did_not_send() -> None:
    app = Recorded()
    app.conf.tenure_options = {"ttl": 5, "namespace": "shop"}
    scheduler = make_scheduler(app)
    assert scheduler.namespace == "shop"
    assert (scheduler.settings.ttl, scheduler.settings.reap_every) == (5, REAP_EVERY)
    app.conf.tenure_options = {"settings": Settings(reap_every=1)}
    assert make_scheduler(app).settings.reap_every == 1


def test_a_tenure_scheduler_sends_the_tasks_of_an_application() -> None:
    app = Recorded()

    @app.task(name="proj.digest", bind=True)  # type: ignore[untyped-decorator]
    def digest(self: Any, user: int, run: str = "x") -> None: ...

    @app.task(name="proj.any")  # type: ignore[untyped-decorator]
    def anything(*args: Any, **kwargs: Any) -> None: ...

    scheduler = Scheduler("sqlite:///never-opened.db")
    include(scheduler, app)
    with testing(scheduler, start=START) as world:
        scheduler.add("one", every(seconds=1), task="proj.digest", kwargs={"user": 1, "run": "y"})
        scheduler.add("two", every(seconds=1), task="proj.any", kwargs={"what": 2})
        with pytest.raises(InvalidSchedule, match="takes no 'usr'"):
            scheduler.add("three", every(seconds=1), task="proj.digest", kwargs={"usr": 1})
        world.advance(seconds=1)
    assert sorted((name, kwargs) for name, _, kwargs, _ in app.sent) == [
        ("proj.any", {"what": 2}),
        ("proj.digest", {"user": 1, "run": "y"}),
    ]


def test_a_task_that_is_not_sent_by_tenure_is_executed_unasked() -> None:
    app = Celery("proj", task_cls=Once, set_as_current=False)
    app.conf.tenure_url = "nonsense://"  # which nothing opens

    @app.task(name="proj.double")  # type: ignore[untyped-decorator]
    def double(number: int) -> int:
        return 2 * number

    assert double.apply((2,)).get() == 4
