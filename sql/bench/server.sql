-- Helpers, on every cluster that holds rows of a candidate, for all tables of a schema without those below them.
CREATE SCHEMA bench;

CREATE FUNCTION bench.tables(schema text) RETURNS SETOF regclass LANGUAGE sql AS $$
    SELECT oid::regclass FROM pg_class WHERE relnamespace = schema::regnamespace AND relkind = 'r'
$$;

CREATE FUNCTION bench.empty(schema text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(t::text, ', ') FROM bench.tables(schema) AS t);
END
$$;

CREATE FUNCTION bench.stored(schema text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    part regclass;
    rows bigint;
    total bigint := 0;
BEGIN
    FOR part IN SELECT * FROM bench.tables(schema) LOOP
        EXECUTE format('SELECT count(*) FROM %s', part) INTO rows;
        total := total + rows;
    END LOOP;
    RETURN total;
END
$$;
