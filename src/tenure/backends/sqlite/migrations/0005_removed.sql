-- What was removed is looked for once a minute, and there may be a million that were not.
CREATE INDEX tenure_schedule_removed ON tenure_schedule (namespace, updated_at) WHERE removed <> 0;
