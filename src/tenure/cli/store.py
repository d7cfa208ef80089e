"""The store that a command is about: its options, and how it is asked.

Commands look at the store from outside. They open it without migrating, so that nothing is
created by looking, and every question has a time limit.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from tenure.backends.base import Backend
from tenure.clock import SystemClock
from tenure.errors import ConfigError, StoreUnavailable
from tenure.stores import parse, resolve

T = TypeVar("T")
ANSWER_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Store:
    """A store and a namespace in it, not yet connected."""

    url: str
    namespace: str
    make: Callable[[], Backend]

    @classmethod
    def parse(cls, url: str | None, namespace: str) -> Store:
        if url == "":
            raise click.UsageError(
                "--url is empty: perhaps a variable is not set? Leave it out for $TENURE_URL,"
                " else sqlite:///tenure.db."
            )
        meant = resolve(url)
        if meant.startswith("memory:"):
            raise click.UsageError(
                "memory:// lives inside one process; there is nothing to see from outside."
            )
        try:
            return cls(meant, namespace, parse(meant, namespace, SystemClock()))
        except ConfigError as error:
            raise click.UsageError(str(error)) from error

    def ask(
        self,
        question: Callable[[Backend], Awaitable[T]],
        *,
        migrate: bool = False,
        within: float | None = ANSWER_WITHIN,
    ) -> T:
        """Connect, ask, disconnect."""

        async def asking() -> T:
            backend = self.make()
            async with asyncio.timeout(within):
                await backend.open(migrate=migrate)
                try:
                    return await question(backend)
                finally:
                    await backend.close()

        try:
            return asyncio.run(asking())
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self.url} did not answer within {within:g} s. `tenure doctor` may say why."
            ) from error


def of_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options --url and --namespace, as one argument `store`."""

    @click.option(
        "--url",
        envvar="TENURE_URL",
        metavar="URL",
        help="The store, such as sqlite:///tenure.db.  [default: $TENURE_URL, else that file]",
    )
    @click.option(
        "--namespace",
        default="default",
        show_default=True,
        help="Which of the clusters that share the store.",
    )
    @functools.wraps(command)
    def wrapper(*args: Any, url: str | None, namespace: str, **kwargs: Any) -> Any:
        return command(*args, store=Store.parse(url, namespace), **kwargs)

    return wrapper


as_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
