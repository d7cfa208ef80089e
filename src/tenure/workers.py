"""A fast check on the variables by which servers are told how many workers to start."""

from __future__ import annotations

import os

from tenure.errors import ConfigError

USUAL = "WEB_CONCURRENCY"


def check_workers(*names: str, supported: int = 1) -> None:
    """Stop a program that supports `supported` workers when a variable asks for more.

    Looks at WEB_CONCURRENCY (uvicorn, gunicorn, hosting platforms) unless names are given. It says
    so early and plainly; it guards nothing. A server may be told by other means, and a second
    container is no worker: what guards is the lease.
    """
    for name in names or (USUAL,):
        value = os.environ.get(name, "").strip()
        if value.isdecimal() and int(value) > supported:
            workers = "1 worker" if supported == 1 else f"{supported} workers"
            raise ConfigError(
                f"the environment variable {name} is {value}, but this program supports {workers}."
                f" Set {name}={supported}, or unset it and start {workers}. If many are meant to"
                " run, let them, and let the lease choose: single_instance(when_held='skip') or"
                " 'standby', or a Scheduler in each of them."
            )
