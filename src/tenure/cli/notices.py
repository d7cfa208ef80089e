"""What a process that runs on says about itself and its log: for people, or for programs.

If its log is for programs, every line on stderr is in the format of the log: also what it says when
it starts and stops, warnings of Python, and the error that ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tenure.cli.errors import LOG_FORMAT
from tenure.cli.log_format import FOR_PROGRAMS, FORMATS, formatter
from tenure.cli.output import say

F = TypeVar("F", bound=Callable[..., Any])
LEVELS = ["debug", "info", "warning", "error", "critical"]


def of_log(command: F) -> F:
    """The options --log-level and --log-format."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS, case_sensitive=False),
        help="How much to log.  [default: info, or what the module sets up]",
    )
    form = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        callback=_noted,
        is_eager=True,  # so that an error in another option is told in this format, too
        help="For people, or as lines for programs.  [default: text, or what the module sets up]",
    )
    return level(form(command))


def _noted(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    if value in FOR_PROGRAMS:
        context.meta[LOG_FORMAT] = value
    return value


def notice(*lines: str, level: int = logging.INFO) -> None:
    """Say this on stderr."""
    if LOG_FORMAT in click.get_current_context().meta:
        text = "; ".join(" ".join(line.split()) for line in lines)
        logging.getLogger("tenure.cli").log(level, "%s", text)
    else:
        for line in lines:
            say(line, err=True)


def set_up_logging(level: str | None, form: str | None) -> None:
    """To stderr, unless the module has set up logging of its own: then that is left alone, but for
    what was asked for."""
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=(level or "info").upper())
        form = form or "text"
    elif level is not None:
        logging.getLogger("tenure").setLevel(level.upper())
    if form is not None:
        for handler in root.handlers:
            handler.setFormatter(formatter(form))
    if form in FOR_PROGRAMS:
        logging.captureWarnings(True)
