"""The scheduler of a Django project: what `Scheduler` is, and Django's words for it."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast, overload

import django
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS

from tenure.contrib.django import conf, store
from tenure.contrib.django.connections import fresh_connections
from tenure.contrib.django.task_objects import as_function, is_task_object
from tenure.errors import ConfigError
from tenure.scheduler.consumer import Consumer
from tenure.scheduler.scheduler import Scheduler
from tenure.triggers import Trigger

T = TypeVar("T")
_made: list[ProjectScheduler] = []


def made() -> ProjectScheduler:
    """The project's scheduler, the same one each time."""
    if not apps.apps_ready and not apps.loading:
        django.setup()  # in a process that begins with it, such as that of an isolated task
    if not _made:
        _made.append(ProjectScheduler())
        # Found there by the node that asks where the process of an isolated task finds it.
        vars(sys.modules["tenure.contrib.django"])["scheduler"] = _made[0]
    return _made[0]


def _in_djangos_words(method: Callable[..., T]) -> Callable[..., T]:
    """The same method. It also takes `using`, the alias of the database whose transaction the
    change is part of; and, as a task, one of `django.tasks`."""

    @wraps(method)
    def call(self: Scheduler, *args: Any, using: str | None = None, **given: Any) -> T:
        if using is not None:
            if given.get("connection") is not None:
                raise ConfigError("using= and connection= were both given: give one of them.")
            given["connection"] = store.transaction(using)
        if "task" in given:
            given["task"] = as_function(given["task"])
        return method(self, *map(as_function, args), **given)

    return call


class ProjectScheduler(Scheduler):
    """`from tenure.contrib.django import scheduler`: made from `TENURE` and `DATABASES`."""

    _home: ClassVar[str | None] = "tenure.contrib.django:scheduler"

    def __init__(self) -> None:
        try:
            super().__init__(store.url_or_memory(), **conf.options())
        except ConfigError as error:
            raise ConfigError(f"TENURE in the settings: {error}") from error
        self._own = self._runtime
        self.may_use_test_database = False
        self.around(fresh_connections)
        self.task = _declaring(self.tasks.task)

    @property
    def url(self) -> str:
        return self._runtime.url if self._is_open else store.url()

    add = _in_djangos_words(Scheduler.add)
    put = _in_djangos_words(Scheduler.put)
    add_many = _in_djangos_words(Scheduler.add_many)
    update = _in_djangos_words(Scheduler.update)
    rename = _in_djangos_words(Scheduler.rename)
    pause = _in_djangos_words(Scheduler.pause)
    resume = _in_djangos_words(Scheduler.resume)
    backfill = _in_djangos_words(Scheduler.backfill)
    remove = _in_djangos_words(Scheduler.remove)
    run_now = _in_djangos_words(Scheduler.run_now)
    enqueue = _in_djangos_words(Scheduler.enqueue)
    emit = _in_djangos_words(Scheduler.emit)
    replay = _in_djangos_words(Scheduler.replay)
    runs = _in_djangos_words(Scheduler.runs)

    def start(self) -> None:
        """Join the cluster, in the background, as `Scheduler.start` does."""
        self._locate()
        super().start()

    def consumer(self, topic: str, **options: Any) -> Consumer:
        """As `Scheduler.consumer`."""
        self._locate()
        return super().consumer(topic, **options)

    def create_tables(self, using: str) -> None:
        """After `migrate` of this database, if the store is there, or at a URL."""
        given = conf.given()
        at_url = "URL" in given
        if given.get("MIGRATE") is False or using != (DEFAULT_DB_ALIAS if at_url else conf.alias()):
            return
        if store.is_in_memory() or (at_url and store.under_test()) or self._is_open:
            return  # nobody could use them; they are not the tests' to change; they are there
        self._runtime.move(store.url())
        try:
            super()._call(self._runtime.backend())
        finally:
            self.stop()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self._locate()
        except BaseException:
            coroutine.close()
            raise
        return super()._call(coroutine)

    @property
    def _is_open(self) -> bool:
        """Or is it in a world, which has a store of its own?"""
        return self._runtime is not self._own or self._runtime.is_open

    def _locate(self) -> None:
        """Before the store is opened: where is it now?"""
        if self._is_open:
            return
        if store.under_test() and not self.may_use_test_database:
            raise ConfigError(
                "this call would open a store while Django's tests run, perhaps in a database"
                " that is not a test's. With tenure.contrib.django.testing, derive your test from"
                " InWorld (nothing is stored), or use `with on_test_database():`."
            )
        self._runtime.move(store.url())


def _declaring(declare: Callable[..., Any]) -> Callable[..., Any]:
    """`Tasks.task` for functions, and for tasks of Django, which are returned unchanged."""

    def task(trigger: Any = None, /, **options: Any) -> Any:
        if is_task_object(trigger):
            declare(**options)(as_function(trigger))
            return trigger
        if callable(trigger) and not hasattr(trigger, "to_json"):
            return declare(trigger, **options)

        def decorate(function: Any) -> Any:
            declare(trigger, **options)(as_function(function))
            return function

        return decorate

    return task


@overload
def task(function: T, /) -> T: ...
@overload
def task(**options: Any) -> Callable[[T], T]: ...


def task(function: Any = None, /, **options: Any) -> Any:
    """Declare a task, in a `tasks.py`: `@task`, or `@task(retries=3)`. A function, or a task of
    `django.tasks`, which is returned unchanged. The options are those of `Scheduler.task`."""
    return made().task(function, **options)


def schedule(trigger: Trigger | str, /, **options: Any) -> Callable[[T], T]:
    """Declare a task and schedule it: `@schedule(cron("0 3 * * *"))`. Otherwise like `task`."""
    given: object = trigger
    if is_task_object(given) or inspect.isfunction(given):
        raise ConfigError("@schedule needs a trigger: @schedule(every(hours=1)), or use @task.")
    decorate: Any = made().task(trigger, **options)
    return cast(Callable[[T], T], decorate)


def start_with_runserver() -> None:
    """In `wsgi.py` or `asgi.py`: under `manage.py runserver`, the process that serves is a node.

    Its autoreloader, which is another process, is none; and under all else, such as gunicorn, this
    does nothing.
    """
    _, *arguments = sys.argv
    if "runserver" not in arguments[:1]:
        return
    if "--noreload" in arguments or os.environ.get("RUN_MAIN") == "true":
        made().start()
        atexit.register(made().stop)
