"""Options that say which events are delivered where: `tenure relay`, and `tenure run --relay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from tenure.backends.registry import read_url
from tenure.cli.numbers import Whole
from tenure.errors import ConfigError, InvalidEvent
from tenure.events.relay import BATCH, BATCH_MOST, TRIES_MOST, Relay

_HOW = (
    click.option(
        "--topic", "topics", multiple=True, help="Only this topic; may be given several times."
    ),
    click.option(
        "--name",
        help="The name under which its progress is stored.  [default: the scheme of the URL]",
    ),
    click.option(
        "--tries",
        type=Whole(min=1, max=TRIES_MOST),
        default=10,
        show_default=True,
        help="How often an event is sent before it is parked.",
    ),
    click.option(
        "--skip", is_flag=True, help="When an event is parked, go on with later ones of its key."
    ),
    click.option("--from-now", is_flag=True, help="If it is new, begin with the events to come."),
    click.option(
        "--batch",
        type=Whole(min=1, max=BATCH_MOST),
        default=BATCH,
        show_default=True,
        help="How many events are sent at a time.",
    ),
    click.option("--allow-http", is_flag=True, help="Allow a webhook without encryption."),
    click.option(
        "--allow-private", is_flag=True, help="Allow a webhook in a private network or here."
    ),
)


def how(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of one relay; `relay_of` makes it from them."""
    for option in reversed(_HOW):
        command = option(command)
    return command


def sinks(
    urls: Sequence[str], files: Sequence[str], option: str, *, one: bool = False
) -> list[str]:
    """The URLs of --OPTION, and those in the files of --OPTION-file."""
    try:
        found = [*urls, *(read_url(file, f"--{option}-file") for file in files)]
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if one and len(found) != 1:
        raise click.UsageError(f"give one sink: --{option} URL, or --{option}-file FILE.")
    return found


def relay_of(url: str, **options: Any) -> Relay:
    try:
        return Relay(url, **{name: given for name, given in options.items() if given is not None})
    except (ConfigError, InvalidEvent) as error:
        raise click.UsageError(str(error)) from error
