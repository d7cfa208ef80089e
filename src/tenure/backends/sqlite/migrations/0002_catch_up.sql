-- How many late occurrences are fired (catch_up=all), and how late one may be (catch_up=none).
ALTER TABLE tenure_schedule ADD COLUMN catch_up_limit INTEGER NOT NULL DEFAULT 100;
ALTER TABLE tenure_schedule ADD COLUMN catch_up_grace REAL NOT NULL DEFAULT 60;

CREATE INDEX tenure_schedule_tenant ON tenure_schedule (namespace, tenant, name)
    WHERE tenant IS NOT NULL AND removed = 0;
