-- What the code of apps declares, in the order in which it was first seen.
CREATE TABLE {schema}.release (
    number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,     -- greater is newer
    namespace    text NOT NULL,
    app          text NOT NULL,
    digest       text NOT NULL,
    definitions  text NOT NULL,                        -- of each schedule: a digest, as JSON
    announced_at timestamptz NOT NULL,                 -- when a node last started with it
    UNIQUE (namespace, app, digest)
);

CREATE INDEX schedule_app ON {schema}.schedule (namespace, app) WHERE app IS NOT NULL;
