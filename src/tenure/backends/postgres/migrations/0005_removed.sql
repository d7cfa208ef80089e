-- What was removed is looked for once a minute, and there may be a million that were not.
CREATE INDEX schedule_removed ON {schema}.schedule (namespace, updated_at) WHERE removed <> 0;
