"""A quick check of the variables that tell servers how many workers to start."""

from __future__ import annotations

import os

from tenure.errors import ConfigError, mark
from tenure.printable import brief

USUAL = "WEB_CONCURRENCY"
STAGE = "workers"
"""The stage of a start that this check is, in node/stages.py."""
_DIGITS = 1_000
"""Python reads no longer numbers."""


def check_workers(*names: str, supported: int = 1) -> None:
    """Stop a program that supports `supported` workers when a variable asks for more.

    Checks WEB_CONCURRENCY (uvicorn, gunicorn, hosting platforms) unless you give other names. A
    value that is not a number stops it too; a variable that is empty or not set does not. The check
    fails early and clearly, but guards nothing: a server may be told in other ways, and a second
    container is not a worker. The lease is the guard.
    """
    workers = "1 worker" if supported == 1 else f"{supported} workers"
    for name in names or (USUAL,):
        given: object = name  # perhaps True, or a list
        if not isinstance(given, str) or not given:
            raise _stopped(
                f"{brief(name)} is not the name of an environment variable, such as {USUAL!r}."
            )
        value = os.environ.get(name, "").strip()
        if value and not (value.isascii() and value.isdecimal()):
            raise _stopped(
                f"the environment variable {name} is {brief(value)}, which is not a number of"
                f" workers. Set {name}={supported}, or unset it and start {workers}."
            )
        if value and int(value[:_DIGITS]) > supported:
            raise _stopped(
                f"the environment variable {name} is {value[:20]}, but this program supports"
                f" {workers}. Set {name}={supported}, or unset it and start {workers}. If several"
                " should run, let the lease choose among them: single_instance(on_held='skip') or"
                " 'wait', or a Scheduler in each of them."
            )


def _stopped(message: str) -> ConfigError:
    error = ConfigError(message)
    mark(error, STAGE)
    return error
