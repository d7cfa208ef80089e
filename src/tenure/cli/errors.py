"""From an exception to one clear line on stderr and an exit code: 1 if it failed, 2 for usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeVar

import click

from tenure.backends.urls import HIDDEN, is_public
from tenure.errors import ConfigError, TenureError
from tenure.printable import one_line

T = TypeVar("T")
GIVEN = "tenure.given"
"""Where a context keeps the arguments of the whole command."""
LOG_FORMAT = "tenure.log_format"
"""Where a context keeps the format of the log, if that is for programs."""


class Failed(click.ClickException):
    """What was asked about is not so, or failed: exit code 1."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        context = click.get_current_context(silent=True)
        self._log_format = context.meta.get(LOG_FORMAT) if context is not None else None

    def show(self, file: IO[Any] | None = None) -> None:
        if self._log_format is None:
            super().show(file)
            return
        import logging

        from tenure.cli.log_format import formatter

        where = ("tenure.cli", logging.ERROR, __file__, 0)
        line = logging.LogRecord(*where, self.format_message(), None, None)
        click.echo(formatter(self._log_format).format(line), file=file, err=file is None)


def of_usage(work: Callable[[], T]) -> T:
    """What this gives. What is wrong in it was given wrongly: exit code 2."""
    try:
        return work()
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def told_plainly(args: Sequence[str]) -> Iterator[None]:
    """Errors of Tenure say what is wrong and what to do; a traceback would only hide that.

    They are one line, whatever came into them from outside. And a URL among `args` that was given
    in a wrong place is not repeated with its password.
    """
    try:
        yield
    except TenureError as error:
        where = f"startup stopped at stage {error.stage!r}: " if error.stage else ""
        raise Failed(_safe(f"{where}{error}", args)) from error
    except click.ClickException as error:
        vars(error)["message"] = _safe(error.message, args)  # to click's types it is final
        raise


def _safe(message: str, args: Sequence[str]) -> str:
    for argument in args:
        for given in (argument, argument.partition("=")[2]):
            if "://" in given and not is_public(given):
                # Told as it is, as its repr, by the word, or in capitals, as rules are.
                for form in (given, repr(given)[1:-1], *(w for w in given.split() if len(w) > 3)):
                    message = re.sub(
                        re.escape(form), lambda _: HIDDEN, message, flags=re.IGNORECASE
                    )
    return one_line(message)
