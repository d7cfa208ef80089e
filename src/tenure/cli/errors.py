"""From an exception to one clear line on stderr and an exit code: 1 if it failed, 2 for usage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from tenure.errors import TenureError
from tenure.printable import one_line
from tenure.urls import HIDDEN, is_public


class Failed(click.ClickException):
    """What was asked about is not so, or failed: exit code 1."""

    exit_code = 1


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
