-- The greatest term of all leases that were forgotten: every new term is above it.
CREATE TABLE {schema}.lease_floor (
    namespace text PRIMARY KEY,
    term      bigint NOT NULL
);

-- Code from before knows no floor, and begins every name that has no row with term 1. For a name that
-- was forgotten that is a term it had, and the key of its history would refuse it: no old node could
-- acquire it during a rollout. So such a row gets its term here. Newer code asks for greater ones. With
-- the rights of the owner: whoever runs old code has none on this table yet.
CREATE FUNCTION {schema}.first_term() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.term := 1 + coalesce(
        (SELECT f.term FROM {schema}.lease_floor f WHERE f.namespace = NEW.namespace), 0);
    RETURN NEW;
END $$;
CREATE TRIGGER lease_first_term BEFORE INSERT ON {schema}.lease
FOR EACH ROW WHEN (NEW.term = 1) EXECUTE FUNCTION {schema}.first_term();

-- The two indexes below do not begin with the namespace itself. Of a young table the server knows
-- nothing; to find one lease it might take either of them for as good as the key, and keep to that
-- plan when there are millions. Statements that mean these indexes say so.

-- Names are looked for by what they begin with. Only an index in the order of their bytes finds them
-- so, whatever the collation of the database is.
CREATE INDEX lease_name ON {schema}.lease ((namespace || '/'), (name COLLATE "C"));

-- Old lines are looked for again and again, and the newest are shown. By their beginning, which never
-- changes: an index on their end would make every release write to both indexes.
CREATE INDEX lease_history_age ON {schema}.lease_history ((namespace || '/'), acquired_at);
