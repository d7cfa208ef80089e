-- How many late occurrences are fired (catch_up=all), and how late one may be (catch_up=none).
ALTER TABLE {schema}.schedule ADD COLUMN catch_up_limit integer NOT NULL DEFAULT 100;
ALTER TABLE {schema}.schedule ADD COLUMN catch_up_grace double precision NOT NULL DEFAULT 60;

CREATE INDEX schedule_tenant ON {schema}.schedule (namespace, tenant, name)
    WHERE tenant IS NOT NULL AND removed = 0;
