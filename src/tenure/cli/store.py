"""The store that a command is about: its options, and how it is asked.

Commands look at the store from outside. They open it without migrating, so that nothing is
created by looking, and every question has a time limit. A scheduler may keep its leases elsewhere
(`leases=…`): then --leases names that place, and both are open.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tenure.backends.address import Address
from tenure.backends.base import (
    Backend,
    LeaseBackend,
)
from tenure.backends.registry import (
    from_environment,
    keeps_schedules,
    parse,
    parse_leases,
    read_url,
    resolve,
)
from tenure.cli.opened import Opened, no_schedules
from tenure.errors import ConfigError, StoreError, StoreUnavailable, TenureError
from tenure.process.clock import SystemClock

if TYPE_CHECKING:  # imported when they are used: commands that only look need no triggers
    pass

T = TypeVar("T")
ANSWER_WITHIN = 30.0
_FILES = "tenure.files"


@dataclass(frozen=True, slots=True)
class Store:
    """A store and a namespace in it, not yet connected."""

    url: str = field(repr=False)
    namespace: str
    make: Callable[[], Backend] | None
    """None: there is nothing but leases."""
    make_leases: Callable[[], LeaseBackend] | None = None
    """The place of the leases, if that is another."""
    leases: str | None = field(default=None, repr=False)
    files: Mapping[str, str] = field(default_factory=dict)
    """Those that have the URLs, by `url` and `leases`, if the command names them."""

    @property
    def has_schedules(self) -> bool:
        return self.make is not None

    @property
    def address(self) -> Address:
        files = self.files.get("url"), self.files.get("leases")
        return Address(self.url, self.namespace, self.leases, *files)

    @classmethod
    def parse(
        cls, url: str | None, namespace: str, leases: str | None = None, *, alone: bool = False
    ) -> Store:
        """`alone`: the command has something to say about leases alone."""
        clock, files = SystemClock(), _files()
        try:
            meant, leases = resolve(url), leases or from_environment("TENURE_LEASES")
            for each in (meant, leases or ""):
                if each.startswith("memory:"):
                    raise click.UsageError(
                        "memory:// lives inside one process; there is nothing to see from outside."
                    )
            elsewhere = parse_leases(leases, namespace, clock) if leases else None
            if keeps_schedules(meant):
                made = parse(meant, namespace, clock)
                return cls(meant, namespace, made, elsewhere, leases=leases, files=files)
            if not alone or elsewhere is not None:
                raise no_schedules(Address(meant, namespace, url_file=files.get("url")))
            return cls(meant, namespace, None, parse_leases(meant, namespace, clock), files=files)
        except ConfigError as error:
            raise click.UsageError(str(error)) from error

    def whole(self) -> Backend:
        """The store of the schedules, not open."""
        if self.make is None:
            raise no_schedules(self.address)
        return self.make()

    def backends(self) -> tuple[Backend | None, LeaseBackend | None]:
        """The store, and the place of the leases if that is another; neither open."""
        return (
            self.whole() if self.has_schedules else None,
            self.make_leases() if self.make_leases is not None else None,
        )

    def ask(
        self,
        question: Callable[[Opened], Awaitable[T]],
        *,
        migrate: bool = False,
        within: float | None = ANSWER_WITHIN,
    ) -> T:
        """Connect, ask, disconnect."""

        async def asking() -> T:
            opened = Opened(*self.backends(), self.address)
            async with asyncio.timeout(within):
                try:
                    await opened.open(migrate=migrate)
                    return await question(opened)
                finally:
                    await opened.close()

        try:
            return asyncio.run(asking())
        except (TenureError, click.ClickException, click.exceptions.Exit):
            raise
        except TimeoutError as error:
            limit = ANSWER_WITHIN if within is None else within  # or the question has its own
            raise StoreUnavailable(
                f"{self.address} did not answer within {limit:g} s."
                f" `{self.address.command('doctor')}` may say why."
            ) from error
        except Exception as error:
            raise StoreError(
                f"{self.address} has something that this command cannot read"
                f" ({type(error).__name__}: {error}). `{self.address.command('doctor')}` names the"
                " row, and says what to do."
            ) from error


def of_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options --url and --namespace, as one argument `store`."""
    return _with_store(command, leases=False)


def of_store_or_leases(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same; but the store may have nothing but leases, as Redis has."""
    return _with_store(command, leases=False, alone=True)


def of_store_and_leases(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same, and --leases."""
    return _with_store(command, leases=True)


def of_leases(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same; but the store may have nothing but leases."""
    return _with_store(command, leases=True, alone=True)


def _with_store(
    command: Callable[..., Any], *, leases: bool, alone: bool = False
) -> Callable[..., Any]:
    @functools.wraps(command)
    def wrapper(*args: Any, namespace: str, **kwargs: Any) -> Any:
        url, elsewhere = chosen("url", kwargs), chosen("leases", kwargs) if leases else None
        store = Store.parse(url, namespace, elsewhere, alone=alone)
        return command(*args, store=store, **kwargs)

    for option in (namespace_option, *((leases_option,) if leases else ()), url_option):
        wrapper = option(wrapper)
    return wrapper


def chosen(name: str, given: dict[str, Any]) -> str | None:
    """Take --url and --url-file, or those of leases, out of what a command was given."""
    url, file = given.pop(name), given.pop(f"{name}_file")
    if url is not None and file is not None:
        raise click.UsageError(f"--{name} and --{name}-file: give one of them.")
    if url == "":
        raise click.UsageError(
            f"--{name} is empty: perhaps a variable is not set? Leave it out for"
            f" $TENURE_{name.upper()}, else {_OTHERWISE[name]}."
        )
    if file is not None:
        try:
            url = read_url(file, f"--{name}-file")
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        _files()[name] = file
    found: str | None = url
    return found


def _files() -> dict[str, str]:
    """What this command was given as --url-file and --leases-file."""
    context = click.get_current_context(silent=True)
    files: dict[str, str] = {} if context is None else context.meta.setdefault(_FILES, {})
    return files


def chosen_for_code(given: dict[str, Any]) -> str | None:
    """The same of --url, for code that is about to be imported and names no URL itself."""
    file: str | None = given["url_file"]
    url = chosen("url", given)
    if url is not None:
        values = {
            "TENURE_URL": None if file else url,
            "TENURE_URL_FILE": file and Path(file).absolute(),
        }
        for variable, value in values.items():
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = str(value)
    return url


_OTHERWISE = {"url": "sqlite:///tenure.db", "leases": "the store itself"}


def both(name: str, help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options for a URL, and for a file that has it: all users can see the arguments."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            f"--{name}-file",
            metavar="FILE",
            help=f"A file that contains the URL of --{name}, for one with a password."
            f"  [default: $TENURE_{name.upper()}_FILE]",
        )(command)
        return click.option(f"--{name}", metavar="URL", help=help_text)(command)

    return give


url_option = both(
    "url",
    "The store, such as sqlite:///tenure.db. Not for a password: every user of the machine can"
    " read the arguments of a process.  [default: $TENURE_URL, else that file]",
)
leases_option = both(
    "leases",
    "Where the leases are, for a scheduler with leases=…  [default: $TENURE_LEASES, else the"
    " store]",
)
namespace_option = click.option(
    "--namespace",
    default="default",
    show_default=True,
    help="The cluster, if several share the store.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
