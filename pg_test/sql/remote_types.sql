-- Values that the shard's columns are too short for are refused as in a direct INSERT, never cut to size.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
CREATE SCHEMA rt_remote;
CREATE SCHEMA rt_test;
SET search_path = rt_test;
CREATE DOMAIN rt_remote.short AS varchar(3);
CREATE DOMAIN rt_remote.shorter AS rt_remote.short CHECK (length(VALUE) < 3) NOT NULL;
CREATE DOMAIN rt_remote.padded AS char(3);
CREATE DOMAIN rt_remote.bits AS bit(3);
CREATE DOMAIN rt_remote.few AS varchar(3)[];
CREATE DOMAIN rt_remote.class AS regclass;
CREATE TABLE rt_remote.t (id int, plain varchar(3), plains varchar(3)[], short rt_remote.short,
    shorter rt_remote.shorter DEFAULT 'd', padded rt_remote.padded, bits rt_remote.bits, few rt_remote.few,
    shorts rt_remote.short[]);
CREATE FUNCTION try(col text, value text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE FOREIGN TABLE one (id int, %I text) SERVER loopback
        OPTIONS (schema_name ''rt_remote'', table_name ''t'')', col);
    BEGIN
        -- More than one row: a single one might travel in another way.
        EXECUTE format('INSERT INTO one SELECT 1, %L FROM generate_series(1, 2)', value);
    EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
        DROP FOREIGN TABLE one;
        RETURN sqlerrm;
    END;
    DROP FOREIGN TABLE one;
    RETURN 'stored';
END $$;
SELECT col, value, try(col, value) FROM (VALUES
    ('plain', 'abc'), ('plain', 'abcd'), ('plain', 'abc  '),
    ('plains', '{abc,NULL}'), ('plains', '{abcd}'),
    ('short', 'abc'), ('short', 'abcd'), ('short', NULL),
    ('shorter', 'ab'), ('shorter', 'abc'), ('shorter', 'abcd'), ('shorter', NULL),
    ('padded', 'a'), ('padded', 'abcd'),
    ('bits', '101'), ('bits', '1011'), ('bits', '10'),
    ('few', '{a,abc}'), ('few', '{abcd}'),
    ('shorts', '{a,abc}'), ('shorts', '{abcd}')) AS v (col, value);
SELECT * FROM rt_remote.t;

-- The cast from text to regclass is not the type's input function: rows travel as VALUES, also for a domain over it.
CREATE TABLE rt_remote.classes (id int, class rt_remote.class);
CREATE FOREIGN TABLE classes (id int, class text) SERVER loopback OPTIONS (schema_name 'rt_remote');
INSERT INTO classes SELECT i, 'pg_class' FROM generate_series(1, 2) AS i;
SELECT * FROM rt_remote.classes;

SET client_min_messages = error;
DROP SCHEMA rt_remote, rt_test CASCADE;
