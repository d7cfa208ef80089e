-- What the code of apps declares, in the order in which it was first seen.
CREATE TABLE tenure_release (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,    -- greater is newer
    namespace    TEXT NOT NULL,
    app          TEXT NOT NULL,
    digest       TEXT NOT NULL,
    definitions  TEXT NOT NULL,                        -- {schedule: digest of its definition}
    announced_at INTEGER NOT NULL,                     -- when a node last started with it
    UNIQUE (namespace, app, digest)
);

CREATE INDEX tenure_schedule_app ON tenure_schedule (namespace, app) WHERE app IS NOT NULL;
