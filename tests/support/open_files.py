"""How many files a test may have open. A user's limit is often 1,024."""

from __future__ import annotations

import resource

ENOUGH = 4_096


def allow_many() -> None:
    """In this process, and in those that it starts from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
