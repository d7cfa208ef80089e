"""What our sessions and transactions state for themselves, whatever the defaults are.

Defaults are set by server, database and role, and mostly for other programs. Some would break a
promise of ours, so no transaction of ours relies on them:

- **isolation**: READ COMMITTED. A leader reads the fence after it has its lock. With a snapshot
  that is older than the lock it would not see that its term is over.
- **search_path**: the system's own schema. A function or operator in another one whose argument
  types fit better would be called in place of the system's, with our rights.
- **synchronous_commit**: not off. A term that was granted, or an occurrence that was fired, must
  not be forgotten because the server crashed.
- **limits**: how long a statement, a lock and an idle transaction may take; an idle session has no
  limit, since others see by it that its process lives.
- **TimeZone, DateStyle**: what the driver reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tenure.backends import sql
from tenure.backends.postgres.statements import PACKAGE

PATH = "pg_catalog, pg_temp"
"""Temporary tables and types last: the server would look there first otherwise."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_SQL = sql.load(PACKAGE, "sql/session.sql")
PROCESS = _SQL["process"]
_FROM_17 = 170000


@cache
def settings(server_version: int) -> str:
    """The statement that sets all of it, for a session or for one transaction."""
    more = _SQL["settings_from_17"] if server_version >= _FROM_17 else ""
    return f"{_SQL['settings']}\n{more}"


def settings_of(longest: float, name: str, path: str, *, local: bool) -> dict[str, Any]:
    """Its values. `longest`: how many seconds a transaction may take."""
    milliseconds = max(2, int(longest * 1000))
    return {
        "path": path,
        "limit": f"{milliseconds}ms",
        "lock_limit": f"{milliseconds // 2}ms",
        # That ends the session, without a word. A statement that is too long is told so.
        "whole_limit": f"{milliseconds * 21 // 20}ms",
        "name": name,
        "local": local,
    }
