"""Old snapshots: the server must keep every row that they may see, and scans pass over those."""

from __future__ import annotations

from psycopg.rows import DictRow

from tenure.backends.postgres.blockers import described
from tenure.backends.postgres.statements import literal
from tenure.model import Finding, Severity

OLD = 60.0
"""A snapshot is reported after so many seconds. Backups hold one as long as they take."""
OLDEST = """
SELECT a.pid, a.usename, a.state, a.application_name, NULL AS slot,
       extract(epoch FROM now() - a.xact_start)::double precision AS seconds
FROM pg_stat_activity a
WHERE a.backend_xmin IS NOT NULL AND a.xact_start IS NOT NULL AND a.datname = current_database()
  AND a.pid <> pg_backend_pid()
UNION ALL
SELECT 0, p.owner, 'prepared', p.gid, NULL,
       extract(epoch FROM now() - p.prepared)::double precision
FROM pg_prepared_xacts p WHERE p.database = current_database()
UNION ALL
SELECT 0, NULL, NULL, NULL, s.slot_name, age(s.xmin)
FROM pg_replication_slots s WHERE s.xmin IS NOT NULL AND NOT s.active
ORDER BY seconds DESC LIMIT 1
"""


def finding(oldest: list[DictRow]) -> list[Finding]:
    """What `tenure doctor` says about the oldest one; nothing if it is young."""
    if not oldest:
        return []
    [row] = oldest
    if row["slot"] is not None:
        who = f"the replication slot {row['slot']!r}, which nobody reads"
        slot = literal(row["slot"])
        end = f"`SELECT pg_drop_replication_slot({slot})` drops it, if it is not needed"
    elif row["seconds"] <= OLD:
        return []
    else:
        who = f"{described(row)}, for {row['seconds']:.0f} s"
        end = (
            f"`SELECT pg_terminate_backend({row['pid']})` ends it"
            if row["pid"]
            else f"`ROLLBACK PREPARED {literal(row['application_name'])}` ends it"
        )
    return [
        Finding(
            "snapshots",
            Severity.WARNING,
            f"the oldest snapshot of this database is held by {who}: the server keeps every row"
            " that was changed or deleted since, and each look at what is due passes over them",
            f"Let it commit or roll back; {end}. Set idle_in_transaction_session_timeout for its"
            " role.",
        )
    ]
