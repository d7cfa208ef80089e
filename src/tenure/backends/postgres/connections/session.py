"""The settings of our sessions and transactions, whatever the defaults are.

Server, database and role can each set defaults, mostly with other programs in mind. Some would
break a promise of ours, so our transactions do not rely on them:

- **isolation**: READ COMMITTED. A leader reads the fence after it has locked it. With a snapshot
  that is older than the lock, it would not see that its term is over.
- **search_path**: the system's own schema. Otherwise a function or operator in another schema,
  whose argument types match better, would run in place of the system's, with our rights.
- **synchronous_commit**: not off. A granted term or a fired occurrence must survive a crash of the
  server.
- **limits**: for a statement, a lock and an idle transaction. An idle session has none, since
  others see by it that its process lives.
- **TimeZone, DateStyle**: what the driver expects.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tenure.backends.postgres.statements import PACKAGE
from tenure.backends.shared import sql

PATH = "pg_catalog, pg_temp"
"""pg_temp is named last, because otherwise the server would search it first."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_SQL = sql.load(PACKAGE, "sql/session.sql")
PROCESS = _SQL["process"]
FROM_17 = 170000


@cache
def settings(server_version: int) -> str:
    """The statement that sets all of this, for a session or for one transaction."""
    more = _SQL["settings_from_17"] if server_version >= FROM_17 else ""
    return f"{_SQL['settings']}\n{more}"


def settings_of(longest: float, name: str, path: str, *, local: bool) -> dict[str, Any]:
    """The values for `settings`. `longest` is how many seconds a transaction may take."""
    milliseconds = max(2, int(longest * 1000))
    return {
        "path": path,
        "limit": f"{milliseconds}ms",
        "lock_limit": f"{milliseconds // 2}ms",
        # A little longer, since it ends the whole session; the others report a clear error.
        "whole_limit": f"{milliseconds * 21 // 20}ms",
        "name": name,
        "local": local,
    }
