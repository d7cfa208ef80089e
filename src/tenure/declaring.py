"""What `Scheduler` and `AsyncScheduler` have in common for their users. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenure.clock import Clock
from tenure.core import Core
from tenure.errors import ConfigError
from tenure.execution import Wrapper
from tenure.facts import Fact
from tenure.settings import Settings
from tenure.tasks import Tasks

T = TypeVar("T")


class Declaring:
    """What both have: declaring tasks, listening to facts. Nothing here does I/O."""

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
        migrate: bool = True,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Say which store, and how this node behaves.

        Args:
            url: sqlite:///file.db; unless given $TENURE_URL (or the URL in the file
                $TENURE_URL_FILE), else sqlite:///tenure.db. Or an
                SQLAlchemy engine, or a pool of psycopg, whose settings are taken.
            leases: another store for leases alone, such as redis://host, or a Redis client.
            namespace: separates clusters that share a store.
            app: whose code-declared schedules these are.
            tz: the time zone of triggers about local time that name none; UTC unless given.
            ttl: seconds after which a silent node is taken for dead, where nothing tells sooner.
            concurrency: how many runs this node executes at a time; 0 only schedules.
            migrate: create and upgrade the tables at start; False leaves that to
                `tenure migrate`.
            settings: all numbers at once, instead of ttl and concurrency.
        """
        given = {"ttl": ttl, "concurrency": concurrency}
        given = {name: value for name, value in given.items() if value is not None}
        if settings is not None and given:
            raise ConfigError(
                f"{' and '.join(given)} and settings= were both given: put it into the Settings."
            )
        settings = settings or Settings(**given)  # type: ignore[arg-type]
        self._core = Core(
            url,
            leases=leases,
            namespace=namespace,
            app=app,
            tz=tz,
            migrate=migrate,
            settings=settings,
            clock=clock,
        )
        self.tasks: Tasks = self._core.tasks
        self.task = self.tasks.task
        """Declare a task: `@scheduler.task`, or `@scheduler.task(every(seconds=10))`."""

    @property
    def url(self) -> str:
        return self._core.url

    @property
    def namespace(self) -> str:
        return self._core.namespace

    @property
    def tz(self) -> str | None:
        return self._core.tz

    @property
    def settings(self) -> Settings:
        return self._core.settings

    @property
    def running(self) -> bool:
        return self._core.node is not None and not self._core.engine.forked

    @property
    def is_leader(self) -> bool:
        """Does this process lead, at this instant?"""
        node = self._core.node
        return self.running and node is not None and node.is_leader

    @property
    def node(self) -> str | None:
        """This process's id in the cluster, while it runs."""
        node = self._core.node
        return node.id if self.running and node is not None else None

    def include(self, tasks: Tasks) -> None:
        """Take over tasks that were declared without a scheduler at hand."""
        self.tasks.include(tasks)

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        """Call `listener` with facts, such as "run.failed" or "lease.*", from the next start on.

        It runs on a thread of its own; what it raises is logged and harms nothing.
        """
        self._core.on(pattern, listener)

    def around(self, wrapper: Wrapper) -> None:
        """Execute every task through `wrapper(call, run)`: for application contexts and the like.

        The wrapper returns what `call()` returns.
        """
        self._core.wrap(wrapper)
