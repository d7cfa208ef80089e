"""`tenure dashboard`: pages for people on call, of any store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.errors import Failed
from tenure.cli.notices import notice, of_log, set_up_logging
from tenure.cli.store import Store, of_store_and_leases
from tenure.errors import ConfigError
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.scheduler.base import BaseScheduler

if TYPE_CHECKING:
    from starlette.applications import Starlette

TOKEN = "TENURE_DASHBOARD_TOKEN"
BIND = "127.0.0.1:8642"


def token_of(file: str | None) -> str | None:
    """From the file, else from the variable."""
    if file is None:
        return os.environ.get("TENURE_DASHBOARD_TOKEN") or None
    try:
        found = Path(file).read_text().strip()
    except OSError as error:
        raise click.UsageError(f"--token-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--token-file {file} is not text.") from None
    if not found:
        raise click.UsageError(f"--token-file {file} is empty.")
    return found


def guarding(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who may come in, and what they may do."""
    for option in (
        click.option(
            "--https", is_flag=True, help="Browsers reach it by https, through your proxy."
        ),
        click.option(
            "--proxy",
            "proxies",
            multiple=True,
            metavar="NETWORK",
            help="From which addresses --user-header is believed. May be given several times.",
        ),
        click.option(
            "--user-header",
            metavar="HEADER",
            help="The header in which an authenticating proxy names the user.",
        ),
        click.option(
            "--host",
            "hosts",
            multiple=True,
            metavar="NAME",
            help="A name under which browsers reach it. May be given several times.",
        ),
        click.option(
            "--allow-changes",
            is_flag=True,
            help="Also pause, resume, run, retry, cancel and evict.  [default: only show]",
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            help="A file that contains the token to log in with; needed if other machines can"
            " reach it.  [default: $TENURE_DASHBOARD_TOKEN]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option(
    "--bind", default=BIND, show_default=True, metavar="HOST:PORT", help="Where to listen."
)
@guarding
@of_store_and_leases
@of_log
def dashboard(
    store: Store, bind: str, log_level: str | None, log_format: str | None, **guard: Any
) -> None:
    """Serve pages that show the cluster, its schedules, runs, leases and events.

    It needs no code of yours and no running node: it looks at the store. It only shows, unless
    --allow-changes is given, and only to this machine's users, unless there is a token.

    \b
    Examples:
      tenure dashboard
      tenure dashboard --url sqlite:////var/lib/shop/tenure.db --bind :9000
      tenure dashboard --bind 0.0.0.0:8642 --token-file token --allow-changes
    """
    access = AsyncScheduler(
        store.url, leases=store.leases, namespace=store.namespace, migrate=False
    )
    app, listener = prepared(access, bind, guard)
    from tenure.web.serving import address_of, serve, server

    set_up_logging(log_level, log_format)
    notice(
        f"Dashboard: {address_of(listener)}",
        "It may change things. Ctrl+C ends it."
        if guard["allow_changes"]
        else "It only shows; --allow-changes lets it act. Ctrl+C ends it.",
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(server(app), listener, access))


@contextmanager
def beside_node(scheduler: BaseScheduler, bind: str | None) -> Iterator[None]:
    """For `tenure run --dashboard`: read-only, with connections of its own."""
    if bind is None:
        yield
        return
    if scheduler.url.startswith("memory:"):
        raise click.UsageError("memory:// lives inside the scheduler: a dashboard cannot see it.")
    leases = scheduler._runtime.address.leases
    with served(scheduler.url, bind, leases=leases, namespace=scheduler.namespace) as address:
        notice(f"  dashboard  {address}")
        yield


@contextmanager
def served(url: str, bind: str, **options: Any) -> Iterator[str]:
    """Read-only, on a thread of its own; yields its address."""
    access = AsyncScheduler(url, migrate=False, **options)
    app, listener = prepared(access, bind, {"token_file": None, "user_header": None})
    from tenure.web.serving import address_of, beside

    with beside(app, listener, access):
        yield address_of(listener)


def prepared(access: AsyncScheduler, bind: str, guard: dict[str, Any]) -> tuple[Starlette, Any]:
    """The application, and the socket it is to be served on; both checked."""
    try:
        from tenure.web import dashboard as make
        from tenure.web.serving import check_bind, listen, read_bind
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tenure"):
            raise
        raise Failed(
            f"the dashboard needs {error.name}: install the extra, pip install 'tenure[web]'"
        ) from None
    token = token_of(guard.pop("token_file"))
    try:
        host, port = read_bind(bind)
        check_bind(host, guarded=token is not None or guard["user_header"] is not None)
        return make(access, token=token, **guard), listen(host, port)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
