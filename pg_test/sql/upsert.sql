-- The table option on_conflict: statements, counts, what COPY counts, why rows go one by one, what is refused.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA upsert_remote;
CREATE SCHEMA upsert;
SET search_path = upsert, public;
CREATE TABLE upsert_remote.t (a int, "B ""b" text, c int, d int DEFAULT 9, g int GENERATED ALWAYS AS (c * 2) STORED,
    PRIMARY KEY (a, "B ""b"), UNIQUE (d));
CREATE FOREIGN TABLE f (
    gone int, c int, b text OPTIONS (column_name 'B "b', key 'true'), a int OPTIONS (key 'true'), g int GENERATED ALWAYS AS (c * 2) STORED,
    d int OPTIONS (remote_default 'true'))
    SERVER loopback OPTIONS (schema_name 'upsert_remote', table_name 't', on_conflict 'update');
ALTER FOREIGN TABLE f DROP COLUMN gone;

-- Only columns that the statement names are changed.
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f VALUES (1, 'b', 1);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f (a, b, c, d) VALUES (1, 'b', 1, 1);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f (b, a) VALUES ('b', 1);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f (a, b) VALUES (1, 'b') RETURNING *;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f (a, b) VALUES (1, 'b') ON CONFLICT DO NOTHING;
ALTER FOREIGN TABLE f OPTIONS (SET on_conflict 'nothing');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f VALUES (1, 'b', 1);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f VALUES (1, 'b', 1) ON CONFLICT DO NOTHING;
ALTER FOREIGN TABLE f OPTIONS (SET on_conflict 'error');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO f VALUES (1, 'b', 1);
ALTER FOREIGN TABLE f OPTIONS (SET on_conflict 'update');

-- Batches, and counts.
DO $$
DECLARE line text;
BEGIN
    FOR line IN EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF)
        INSERT INTO f (c, b, a, d) SELECT i, 'x', i % 4, i % 4 FROM generate_series(1, 10) AS i
    LOOP
        IF line ~ 'Remote|Flushes|Batch' THEN RAISE WARNING '%', trim(line); END IF;
    END LOOP;
END $$;
\set QUIET off
INSERT INTO f (c, b, a) VALUES (7, 'x', 1), (8, 'x', 1), (9, 'x', 9);
COPY f (c, b, a) FROM STDIN;
70	x	1
71	x	1
72	x	2
\.
INSERT INTO f (c, b, a, d) VALUES (7, 'y', 1, 1);
ALTER FOREIGN TABLE f OPTIONS (SET on_conflict 'nothing');
INSERT INTO f (c, b, a, d) VALUES (7, 'x', 1, 50), (8, 'y', 1, 51), (9, 'y', 1, 52);
COPY f (c, b, a, d) FROM STDIN;
70	x	1	60
71	z	1	61
72	z	1	62
73	z	2	63
\.
INSERT INTO f (c, b, a, d) VALUES (1, 'x', 1, 50), (2, 'z', 9, 70) RETURNING a, b, c, d, g;
INSERT INTO f (c, b, a, d) VALUES (7, 'x', 1000, 1);
INSERT INTO f (c, b, a, d) VALUES (7, 'x', 1000, 1), (7, 'x', 1001, 1001) ON CONFLICT DO NOTHING;
\set QUIET on
SELECT a, b, c, d, g FROM f ORDER BY a, b;

-- Why rows go one by one.
CREATE FUNCTION why(columns text, remote text, clause text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    EXECUTE 'CREATE TABLE upsert_remote.w (' || remote || ')';
    EXECUTE 'CREATE FOREIGN TABLE w (' || columns || ') SERVER loopback OPTIONS (schema_name ''upsert_remote'', on_conflict ''update'')';
    IF clause <> '' THEN EXECUTE clause; END IF;
    FOR line IN EXPLAIN (COSTS OFF) INSERT INTO w (v) VALUES (1) LOOP
        IF line ~ 'Batching' THEN RETURN NEXT 'before: ' || trim(line); END IF;
    END LOOP;
END $$;
CREATE FUNCTION ran(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || statement LOOP
        IF line ~ 'Batching|Flushes' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
    DROP FOREIGN TABLE w;
END $$;
CREATE TYPE upsert.mood AS ENUM ('fine', 'bad');
CREATE DOMAIN upsert.small AS int;
SELECT why('k int OPTIONS (key ''true''), v int', 'k int PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (1, 1), (2, 2), (1, 3)');
DROP TABLE upsert_remote.w;
SELECT why('k int OPTIONS (key ''true'', remote_default ''true''), v int', 'k serial PRIMARY KEY, v int');
SELECT ran('INSERT INTO w (v) VALUES (1), (2), (3)');
DROP TABLE upsert_remote.w;
SELECT why('k upsert.mood OPTIONS (key ''true''), v int', 'k upsert.mood PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (''fine'', 1), (''fine'', 2)');
DROP TABLE upsert_remote.w;
SELECT why('k bit(2) OPTIONS (key ''true''), v int', 'k bit(2) PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (B''10'', 1), (B''10'', 2)');
DROP TABLE upsert_remote.w;
SELECT why('k int OPTIONS (key ''true''), v int', 'k upsert.small PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (1, 1), (1, 2)');
DROP TABLE upsert_remote.w;
SELECT why('k numeric(5, 2) OPTIONS (key ''true''), v int', 'k numeric(5, 1) PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (1.01, 1), (1.02, 2)');
DROP TABLE upsert_remote.w;
SELECT why('k numeric(5, 2) OPTIONS (key ''true''), v int', 'k numeric PRIMARY KEY, v int');
SELECT ran('INSERT INTO w VALUES (1.01, 1), (1.02, 2)');
DROP TABLE upsert_remote.w;
SELECT why('k text OPTIONS (key ''true''), v int', 'k text, v int', 'CREATE UNIQUE INDEX ON upsert_remote.w (k varchar_pattern_ops)');
SELECT ran('INSERT INTO w VALUES (''a'', 1), (''a'', 2)');
DROP TABLE upsert_remote.w;
SELECT why('k int OPTIONS (key ''true''), v int', 'k int PRIMARY KEY, v int',
    'CREATE TRIGGER same BEFORE UPDATE ON upsert_remote.w FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()');
SELECT ran('INSERT INTO w VALUES (1, 1), (1, 1)');
DROP TABLE upsert_remote.w;

-- What is refused.
CREATE FOREIGN TABLE keyless (a int, c int) SERVER loopback OPTIONS (schema_name 'upsert_remote', table_name 't', on_conflict 'nothing');
\set VERBOSITY default
EXPLAIN (COSTS OFF) INSERT INTO keyless VALUES (1);
INSERT INTO keyless VALUES (1);
COPY keyless FROM STDIN;
\.
\set VERBOSITY terse
DO $$ BEGIN INSERT INTO keyless VALUES (1); EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING '%', SQLERRM; END $$;
SELECT count(*) FROM keyless;
CREATE TABLE parted (a int, c int) PARTITION BY LIST (a);
ALTER TABLE parted ATTACH PARTITION keyless DEFAULT;
INSERT INTO parted VALUES (1, 1);
ALTER FOREIGN TABLE keyless OPTIONS (SET on_conflict 'always');
\set VERBOSITY default
ALTER FOREIGN TABLE f OPTIONS (ADD transport 'copy');
INSERT INTO f (c, b, a) VALUES (1, 'x', 1);
INSERT INTO f (c, b, a) VALUES (1, 'q', 1) ON CONFLICT (a, b) DO NOTHING;
\set VERBOSITY terse
ALTER FOREIGN TABLE f OPTIONS (DROP transport, SET on_conflict 'update');
-- No unique index has these columns.
ALTER FOREIGN TABLE f ALTER b OPTIONS (DROP key);
INSERT INTO f (c, b, a) VALUES (1, 'x', 1);
DROP SCHEMA upsert_remote, upsert CASCADE;
