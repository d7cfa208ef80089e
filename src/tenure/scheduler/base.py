"""What `Scheduler` and `AsyncScheduler` have in common for their users. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from tenure.errors import ConfigError
from tenure.events.relay import Relay, check_relays
from tenure.facts import Fact
from tenure.process.clock import Clock
from tenure.scheduler.runtime import Runtime
from tenure.settings import Settings, check_keywords
from tenure.tasks.executor import Wrapper
from tenure.tasks.functions import is_generator, place
from tenure.tasks.registry import Tasks

T = TypeVar("T")


class BaseScheduler:
    """What both have: declaring tasks, listening to facts. Nothing here does I/O."""

    _home: ClassVar[str | None] = None
    """The MODULE:ATTR that a process of its own must begin with; None: any module that has it."""

    if not TYPE_CHECKING:  # type checkers know the arguments from __init__

        def __new__(cls, *args: Any, **given: Any) -> Self:
            if cls.__init__ is BaseScheduler.__init__:  # a subclass may take others
                check_keywords(cls.__name__, given, ["url"], cls.__init__.__kwdefaults__)
            return super().__new__(cls)

    def __init__(
        self,
        url: str | object | None = None,
        *,
        leases: str | object | None = None,
        namespace: str = "default",
        app: str = "default",
        tz: str | None = None,
        ttl: float | None = None,
        concurrency: int | None = None,
        queues: Iterable[str] | None = None,
        leads: bool | None = None,
        relays: Sequence[Relay] = (),
        health: str | None = None,
        migrate: bool = True,
        settings: Settings | None = None,
        workers_env: str | None = None,
        clock: Clock | None = None,
        policies: Mapping[str, Any] | None = None,
    ) -> None:
        """Say which store, and how this node behaves.

        Args:
            url: sqlite:///file.db; by default $TENURE_URL (or the URL in the file
                $TENURE_URL_FILE), else sqlite:///tenure.db. Or an SQLAlchemy engine or a psycopg
                pool, whose settings Tenure uses.
            leases: another store for leases alone, such as redis://host, or a Redis client.
            namespace: separates clusters that share a store.
            app: the app that the schedules declared in code belong to.
            tz: the time zone of triggers that name none; UTC by default.
            ttl: seconds after which a silent node counts as dead, if nothing shows it sooner.
            concurrency: how many runs this node executes at a time; with 0 it only schedules.
            queues: the queues whose tasks this node executes; by default all.
            leads: False keeps this node from leading: it only executes.
            relays: where this node delivers events to: `[Relay("kafka://broker:9092")]`.
            health: "HOST:PORT", where this process answers /healthz, /readyz, /leader and
                /metrics, on a thread of its own.
            migrate: create and upgrade the tables at start; False leaves that to
                `tenure migrate`.
            settings: all settings at once, instead of ttl, concurrency, queues and leads.
            workers_env: a variable, such as "WEB_CONCURRENCY", that must not ask for more than one
                worker, or the start stops: see `check_workers`. For programs that support one.
            policies: what holds for tasks and schedules that do not say it themselves, such as
                {"retries": 3, "catch_up": "none"}.
        """
        given = {"ttl": ttl, "concurrency": concurrency, "queues": queues, "leads": leads}
        given = {name: value for name, value in given.items() if value is not None}
        if settings is not None and given:
            raise ConfigError(
                f"{' and '.join(given)} and settings= were both given: put all into settings=."
            )
        settings = settings or Settings(**given)  # type: ignore[arg-type]
        self._runtime = Runtime(
            url,
            leases=leases,
            namespace=namespace,
            app=app,
            tz=tz,
            migrate=migrate,
            settings=settings,
            workers_env=workers_env,
            clock=clock,
            relays=relays,
            policies=policies,
        )
        self._serve_health(health)
        self.tasks: Tasks = self._runtime.tasks
        self.task = self.tasks.task
        """Declare a task: `@scheduler.task`, or `@scheduler.task(every(seconds=10))`."""

    @property
    def url(self) -> str:
        return self._runtime.url

    @property
    def namespace(self) -> str:
        return self._runtime.namespace

    @property
    def tz(self) -> str | None:
        return self._runtime.tz

    @property
    def settings(self) -> Settings:
        return self._runtime.settings

    @property
    def relays(self) -> Sequence[Relay]:
        """Where this node delivers events to."""
        return self._runtime.relays

    def configure(
        self,
        *,
        concurrency: int | None = None,
        queues: Iterable[str] | None = None,
        leads: bool | None = None,
        relays: Sequence[Relay] | None = None,
        health: str | None = None,
    ) -> None:
        """Say, before the start, what this process does: `configure(queues=["mail"])`."""
        if self.running:
            raise ConfigError("configure() comes before start(): this scheduler is running.")
        given = {"concurrency": concurrency, "queues": queues, "leads": leads}
        changes: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        self._runtime.settings = replace(self._runtime.settings, **changes)
        if relays is not None:
            self._runtime.relays = check_relays(relays)
        self._serve_health(health)

    def _serve_health(self, address: str | None) -> None:
        if address is not None:
            # Programs that do not ask for it do not wait for a web server to be imported.
            from tenure.observe.server import serve

            serve(self._runtime.observers, address)

    @property
    def running(self) -> bool:
        return self._runtime.node is not None and not self._runtime.thread.forked

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, at this instant."""
        node = self._runtime.node
        return self.running and node is not None and node.is_leader

    @property
    def node(self) -> str | None:
        """This process's id in the cluster, while it runs."""
        node = self._runtime.node
        return node.id if self.running and node is not None else None

    def include(self, tasks: Tasks) -> None:
        """Include tasks that were declared without a scheduler."""
        self.tasks.include(tasks)

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        """Call `listener` with facts, such as "run.failed" or "lease.*", from the next start on.

        It runs on a separate thread; what it raises is logged and does no harm.
        """
        self._runtime.on(pattern, listener)

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage of your own start: `with scheduler.stage("models"): load()`.

        It is told like Tenure's stages (`start.stage`, `start.failed`). What is raised inside says
        at which stage the start stopped, and a Tenure error has it as `error.stage`.
        """
        return self._runtime.stage(name)

    def around(self, *wrappers: Wrapper) -> None:
        """Execute every task through `wrapper(call, run)`, such as for an application context.

        A wrapper returns what `call()` returns. The first is the outermost, and those that are
        given later are inside of those that were given before. From the next start on.
        """
        for wrapper in wrappers:
            if not callable(wrapper):
                raise ConfigError(
                    f"around({wrapper!r}): a wrapper is a function that takes `call` and `run`."
                )
            if is_generator(wrapper):
                raise ConfigError(
                    f"around(): {place(wrapper)} is a generator: it would never call the task."
                    " Write `return call()` in place of `yield`; for a context manager there is"
                    " tenure.contrib.contexts.inside."
                )
        for wrapper in wrappers:
            self._runtime.wrap(wrapper)
