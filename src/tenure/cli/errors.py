"""From an exception to one clear line on stderr and an exit code: 1 if it failed, 2 for usage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from tenure.errors import TenureError


class Failed(click.ClickException):
    """What was asked about is not so, or failed: exit code 1."""

    exit_code = 1


@contextmanager
def told_plainly() -> Iterator[None]:
    """Errors of Tenure say what is wrong and what to do; a traceback would only hide that."""
    try:
        yield
    except TenureError as error:
        where = f"startup stopped at stage {error.stage!r}: " if error.stage else ""
        raise Failed(f"{where}{error}") from error
