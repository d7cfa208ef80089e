"""Tenure as an app of a Django project: its settings, its scheduler, its admin and its commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import Client, SimpleTestCase, override_settings

from tenure import ConfigError, Event, InvalidSchedule, NotFound, UnknownTask, every
from tenure.testing import testing
from tests.e2e.django_project import set_up
from tests.support.servers import PostgresServer


@pytest.fixture(autouse=True)
def project(postgres: PostgresServer) -> Iterator[None]:
    set_up(postgres)
    yield
    from tenure.contrib.django import scheduler

    for schedule in scheduler.schedules():
        scheduler.remove(schedule.name)
    scheduler.stop()
    connections.close_all()


@pytest.fixture
def scheduler() -> Any:
    from tenure.contrib.django import scheduler

    return scheduler


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"QUEUE": ["mail"]}, r"TENURE\['QUEUE'\] is not a setting. Did you mean 'QUEUES'"),
        ({"TTL": "15"}, r"TENURE\['TTL'\] must be a number of seconds, not '15'"),
        ({"TTL": True}, r"TENURE\['TTL'\] must be a number"),
        ({"LEADS": 1}, r"TENURE\['LEADS'\] must be True or False, not 1"),
        ({"QUEUES": "mail"}, r"TENURE\['QUEUES'\] must be a list, not 'mail'"),
        ({"URL": ("postgresql://u:secret@h/d",)}, r"TENURE\['URL'\] must be a text, not what it"),
        ({"URL": "memory://", "DATABASE": "lite"}, "both 'URL' and 'DATABASE'"),
        ({"DATABASE": "other"}, "DATABASES has no 'other'. There are: 'default', 'lite'"),
        ({"TTL": 0}, "TENURE in the settings: ttl"),
        ({"POLICIES": ["retries"]}, r"TENURE\['POLICIES'\] must be a dict"),
        ({"POLICIES": {"retry": 3}}, "TENURE in the settings: .*retr"),
        ([], "TENURE must be a dict"),
    ],
)
def test_what_is_wrong_in_the_settings_is_named(given: Any, said: str) -> None:
    from tenure.contrib.django.project import ProjectScheduler

    with override_settings(TENURE=given), pytest.raises(ConfigError, match=said) as raised:
        ProjectScheduler()
    assert "secret" not in str(raised.value)


def test_settings_are_the_arguments_of_the_scheduler() -> None:
    from tenure.contrib.django.project import ProjectScheduler

    given = {"DATABASE": "lite", "NAMESPACE": "shop", "CONCURRENCY": 3, "QUEUES": ["mail"]}
    with override_settings(TENURE={**given, "TZ": None}):
        scheduler = ProjectScheduler()
        assert scheduler.url == f"sqlite:///{settings.DATABASES['lite']['NAME']}"
    assert (scheduler.namespace, scheduler.tz) == ("shop", "Europe/Berlin")
    assert scheduler.settings.concurrency == 3
    assert tuple(scheduler.settings.queues) == ("mail",)


def test_policies_hold_for_tasks_and_schedules_that_say_nothing_themselves() -> None:
    from tenure.contrib.django.project import ProjectScheduler

    with override_settings(TENURE={"POLICIES": {"retries": 3, "catch_up": "none"}}):
        scheduler = ProjectScheduler()

    @scheduler.task
    def plain() -> None: ...

    @scheduler.task(every(hours=1), retries=1)
    def declared() -> None: ...

    with testing(scheduler):
        added = scheduler.add("added", every(hours=1), task=plain).spec
        assert (added.retries, added.catch_up) == (3, "none")
        own = scheduler.get("declared").spec
        assert (own.retries, own.catch_up) == (1, "none")


POSTGRES = {"ENGINE": "django.db.backends.postgresql"}


@pytest.mark.parametrize(
    ("database", "url"),
    [
        (
            {**POSTGRES, "NAME": "shop", "USER": "u@x", "PASSWORD": "p/w:d", "HOST": "db"},
            "postgresql://u%40x@db/shop?password=p%2Fw%3Ad",
        ),
        ({**POSTGRES, "OPTIONS": {"service": "shop"}}, "postgresql:///?service=shop"),
        (
            {**POSTGRES, "NAME": "shop", "HOST": "/run/pg", "OPTIONS": {"sslmode": "require"}},
            "postgresql:///shop?sslmode=require&host=%2Frun%2Fpg",
        ),
        (
            {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/a b%.db"},
            "sqlite:////srv/a b%25.db",
        ),
    ],
)
def test_the_store_is_where_the_database_is(
    database: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenure.contrib.django import store

    configured = connections.configure_settings({"default": {}, "shop": dict(database)})
    monkeypatch.setitem(connections.settings, "shop", configured["shop"])
    with override_settings(TENURE={"DATABASE": "shop"}):
        assert store.url() == url
    del connections["shop"]


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "SQLite database in memory"),
        ({"ENGINE": "django.db.backends.dummy"}, "Tenure knows SQLite and PostgreSQL"),
    ],
)
def test_a_database_that_is_no_store(
    database: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenure.contrib.django import store

    configured = connections.configure_settings({"default": {}, "shop": dict(database)})
    monkeypatch.setitem(connections.settings, "shop", configured["shop"])
    with (
        override_settings(TENURE={"DATABASE": "shop"}),
        pytest.raises(ConfigError, match=said),
    ):
        store.url()
    del connections["shop"]


# -- tasks -----------------------------------------------------------------------------------------


def test_tasks_py_is_found(scheduler: Any) -> None:
    from tests.e2e.django_project import tasks

    assert {"nightly", "greet", "plain", "hourly"} <= {task.name for task in scheduler.tasks}
    assert scheduler.tasks["greet"].policy.retries == 2
    tasks.executed.clear()
    with testing(scheduler) as world:
        world.advance(days=1)
        assert world.ran("nightly") == 1
        assert world.runs("nightly")[0].nominal.hour == 2  # 03:00 in the zone of the project


def test_tasks_of_django_are_enqueued(scheduler: Any) -> None:
    from tests.e2e.django_project import tasks

    tasks.executed.clear()
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert tasks.executed == ["hourly all by TaskContext"]
        scheduler.add("daily", every(days=1), task=tasks.send, kwargs={"to": "acme"})
        run = scheduler.enqueue(tasks.send, kwargs={"to": "all"})
        world.run_due()
        assert tasks.executed[1:] == ["send all"]
        assert len(scheduler.result(run)) > 20  # the id of Django's own result
        assert [each.id for each in scheduler.runs(task=tasks.send)] == [run.id]
        assert scheduler.get("daily").task == "tests.e2e.django_project.tasks.send"
        with pytest.raises(InvalidSchedule, match="to"):
            scheduler.enqueue(tasks.send, kwargs={"wrong": 1})
        with pytest.raises(UnknownTask):
            scheduler.enqueue(tasks.send.using(priority=1), kwargs={"to": "all"})


def test_a_schedule_needs_a_trigger() -> None:
    from tenure.contrib.django import schedule

    with pytest.raises(ConfigError, match="use @task"):
        schedule(lambda: None)  # type: ignore[arg-type]


# -- in the project's own transactions -------------------------------------------------------------


def test_changes_are_part_of_the_transaction(scheduler: Any) -> None:
    with transaction.atomic():
        scheduler.add("kept", every(hours=1), task="plain", using="default")
        scheduler.pause("kept", "a reason", using="default")
        scheduler.emit(Event("orders", "Placed"), using="default")
        run = scheduler.enqueue("greet", kwargs={"name": "acme"}, using="default")
    with transaction.atomic():
        scheduler.put("lost", every(hours=1), task="plain", using="default")
        scheduler.remove("kept", using="default")
        transaction.set_rollback(True)
    assert scheduler.get("kept").reason == "paused: a reason"
    assert scheduler.get_run(run).state == "waiting"
    with pytest.raises(NotFound):
        scheduler.get("lost")
    scheduler.cancel(run)


def test_what_cannot_be_used_says_why(scheduler: Any) -> None:
    with pytest.raises(ConfigError, match=r"inside `with transaction\.atomic"):
        scheduler.remove("x", using="default")
    with pytest.raises(ConfigError, match="DATABASES has no 'other'"):
        scheduler.remove("x", using="other")
    with transaction.atomic(), pytest.raises(ConfigError, match="using= and connection="):
        scheduler.remove("x", using="default", connection=connections["default"].connection)
    with transaction.atomic(using="lite"), pytest.raises(ConfigError):
        scheduler.remove("x", using="lite")  # not the database that has the schedules


# -- tests of the project --------------------------------------------------------------------------


def test_tests_open_no_store(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.contrib.django.testing import InWorld, on_test_database

    monkeypatch.setattr(mail, "outbox", [], raising=False)
    with pytest.raises(ConfigError, match="derive your test from InWorld"):
        scheduler.get("nightly")
    with pytest.raises(ConfigError, match="derive your test from InWorld"):
        scheduler.start()

    class Case(InWorld, SimpleTestCase):  # type: ignore[misc]
        def runTest(self) -> None:  # noqa: N802
            assert scheduler.get("nightly").active
            self.world.advance(days=2)
            assert self.world.ran("nightly") == 2

    result = Case().run()
    assert result.wasSuccessful(), result.errors
    with on_test_database() as same:
        assert same is scheduler
        assert not same.schedules()
    with pytest.raises(ConfigError, match="derive your test from InWorld"):
        scheduler.get("nightly")


# -- the admin -------------------------------------------------------------------------------------


@pytest.fixture
def browser() -> Iterator[Client]:
    from django.contrib.auth.models import User

    user = User.objects.create_superuser("alice")
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    yield client
    user.delete()


def act(browser: Client, action: str, scheduler: Any) -> str:
    chosen = scheduler.get("admired").uid
    where, form = "/admin/tenure/schedule/", {"action": action, "_selected_action": chosen}
    return str(browser.post(where, form, follow=True).content.decode())


@pytest.mark.parametrize("atomic", [False, True])
def test_admin_pauses_resumes_and_runs(
    scheduler: Any, browser: Client, atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.admin.models import LogEntry

    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", atomic)
    scheduler.add("admired", every(hours=1), task="plain")
    listed = browser.get("/admin/tenure/schedule/").content.decode()
    assert "every hour" in listed
    assert "Paused: admired" in act(browser, "pause", scheduler)
    assert scheduler.get("admired").reason == "paused: in the admin, by alice"
    assert "Resumed: admired" in act(browser, "resume", scheduler)
    assert scheduler.get("admired").active
    assert "Run now: admired" in act(browser, "run_now", scheduler)
    assert "an earlier run is unfinished" in act(browser, "run_now", scheduler)
    (run,) = scheduler.runs("admired", "waiting")
    shown = browser.get(f"/admin/tenure/run/{run.id}/change/").content.decode()
    assert "manual" in shown
    assert 'name="_save"' not in shown
    assert LogEntry.objects.filter(object_repr="admired").count() == 3
    LogEntry.objects.all().delete()
    scheduler.cancel(run)


def test_who_may_only_look_cannot_act(scheduler: Any) -> None:
    from django.contrib.auth.models import Permission, User

    user = User.objects.create_user("bob", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_schedule"))
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    scheduler.add("admired", every(hours=1), task="plain")
    assert "admired" in client.get("/admin/tenure/schedule/").content.decode()
    act(client, "pause", scheduler)
    assert scheduler.get("admired").active
    assert client.get("/admin/tenure/run/").status_code == 403
    assert client.get("/admin/tenure/schedule/add/").status_code == 403
    user.delete()


# -- commands --------------------------------------------------------------------------------------


def test_commands_know_the_store_and_the_code(scheduler: Any) -> None:
    scheduler.add("known", every(hours=1), task="plain")
    out = StringIO()
    call_command("tenure", "schedules", "list", "--json", stdout=out)
    assert [schedule["name"] for schedule in json.loads(out.getvalue())] == ["known"]
    with pytest.raises(CommandError, match="exit code 2"):
        call_command("tenure", "enqueue", "greet", "--kwargs", '{"wrong": 1}', stdout=out)
    assert not scheduler.runs(state="waiting")


def test_tables_are_created_where_the_schedules_are(tmp_path: Path) -> None:
    from tenure.contrib.django.project import ProjectScheduler

    with override_settings(TENURE={"DATABASE": "lite"}):
        scheduler = ProjectScheduler()
        scheduler.create_tables("default")
        assert "tenure_schedule" not in connections["lite"].introspection.table_names()
        scheduler.create_tables("lite")
        assert "tenure_schedule" in connections["lite"].introspection.table_names()
    with override_settings(TENURE={"URL": f"sqlite:///{tmp_path}/x.db", "MIGRATE": False}):
        ProjectScheduler().create_tables("default")
        assert not list(tmp_path.iterdir())
