-- The greatest term of all leases that were forgotten: every new term is above it.
CREATE TABLE tenure_lease_floor (
    namespace TEXT PRIMARY KEY,
    term      INTEGER NOT NULL
) WITHOUT ROWID;

-- Old lines are looked for again and again, and the newest are shown.
CREATE INDEX tenure_lease_history_age ON tenure_lease_history (namespace, acquired_at);
