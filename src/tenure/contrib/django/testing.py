"""For the tests of a project: nothing is started, and what is added stays in memory.

class OrderTests(InWorld, TestCase):
    def test_order(self) -> None:
        self.client.post("/orders/")
        self.world.run_due()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tenure.contrib.django.project import ProjectScheduler, made
from tenure.errors import ConfigError
from tenure.testing import testing
from tenure.testing.world import World


class InWorld:
    """For a test case, before Django's own class: each test has a world, `self.world`, of its own.

    What the code under test adds, puts and enqueues, with `using=` or without, is in that world.
    Nothing is executed before the test says so, with `run_due` or `advance`; then it is, on the
    test's own thread and in its transaction.
    """

    world: World
    world_options: dict[str, Any] = {}  # noqa: RUF012 - what `testing` takes, such as its start

    def setUp(self) -> None:
        stack = ExitStack()
        self.world = stack.enter_context(testing(made(), **self.world_options))
        self.addCleanup(stack.close)  # type: ignore[attr-defined]
        super().setUp()  # type: ignore[misc]


@contextmanager
def on_test_database() -> Iterator[ProjectScheduler]:
    """The project's scheduler on the test database itself, which has Tenure's tables.

    For tests that want to see real rows, or a real node: `scheduler.start()` inside. At the end of
    the block it is stopped, and no connection is left that would keep the database from being
    dropped.
    """
    scheduler = made()
    if scheduler.may_use_test_database:
        raise ConfigError("on_test_database() is in use already: use that one.")
    scheduler.may_use_test_database = True
    try:
        yield scheduler
    finally:
        scheduler.may_use_test_database = False
        scheduler.stop()
