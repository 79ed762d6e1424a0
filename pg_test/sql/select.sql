-- Reading foreign tables: columns, batches, settings, prepared statements, errors.
SET client_min_messages = warning;
\pset format unaligned
CREATE SCHEMA select_remote;
CREATE SCHEMA select_test;
SET search_path = select_test;
CREATE TABLE select_remote.items (
    gone int, id int PRIMARY KEY, name text, price numeric(8,2), born date, stamp timestamptz, lasts interval,
    ratio float8, flags bit varying, parts int[], "Odd ""name" char(3));
ALTER TABLE select_remote.items DROP COLUMN gone;
INSERT INTO select_remote.items
    SELECT i, 'item ' || i, i * 1.25, date '2024-02-28' + i, timestamptz '2024-03-31 00:00:00+00' + i * interval '1 hour',
        (5 - i) * interval '1 day 1 minute', i / 3.0::float8, B'101' << (i % 3), ARRAY[i, NULL, -i], 'o' || i
    FROM generate_series(1, 10) AS i;
INSERT INTO select_remote.items (id) VALUES (11);
-- Another order than the remote one, dropped columns before, between and after, a renamed one.
CREATE FOREIGN TABLE items (
    first_gone int, odd char(3) OPTIONS (column_name 'Odd "name'), name text, gone text, id int,
    price numeric(8,2), born date, stamp timestamptz, lasts interval, ratio float8, flags bit varying, parts int[],
    last_gone int) SERVER loopback OPTIONS (schema_name 'select_remote');
ALTER FOREIGN TABLE items DROP COLUMN first_gone, DROP COLUMN gone, DROP COLUMN last_gone;

-- What is fetched.
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM items;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM items;
EXPLAIN (VERBOSE, COSTS OFF) SELECT odd FROM items WHERE born < now();
EXPLAIN (VERBOSE, COSTS OFF) SELECT items FROM items;
EXPLAIN (COSTS OFF) SELECT name FROM items;

SELECT * FROM items WHERE id IN (1, 7, 11) ORDER BY id;
SELECT count(*), sum(id), sum(price), max(odd) FROM items;
SELECT i FROM items AS i WHERE id = 2;
SELECT ctid, tableoid::regclass, id FROM items WHERE id = 3;
SELECT id FROM items WHERE ctid = '(0,4)';

-- A table without columns has rows, too.
CREATE TABLE select_remote.nothing ();
INSERT INTO select_remote.nothing DEFAULT VALUES;
INSERT INTO select_remote.nothing DEFAULT VALUES;
CREATE FOREIGN TABLE nothing () SERVER loopback OPTIONS (schema_name 'select_remote');
SELECT count(*) FROM nothing;
SELECT * FROM nothing;
SELECT ctid FROM nothing;

-- Around the borders of a fetch.
CREATE TABLE select_remote.counted (id int);
CREATE FOREIGN TABLE counted (id int) SERVER loopback OPTIONS (schema_name 'select_remote', fetch_size '3');
CREATE FUNCTION fetched(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM FROM counted LIMIT 1;
    SELECT count(*) INTO found FROM counted WHERE id <= n;
    RETURN found;
END $$;
INSERT INTO select_remote.counted SELECT generate_series(1, 7);
SELECT n, fetched(n) FROM generate_series(0, 7) AS n;
SELECT id FROM counted ORDER BY id LIMIT 1 OFFSET 4;
SELECT (SELECT id FROM counted LIMIT 1) AS one, count(*) FROM counted;

-- Scans that are repeated: with the same rows, with other parameters, halfway.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT count(*), sum(a.id * b.id) FROM counted AS a JOIN counted AS b ON a.id >= b.id;
SELECT a.id, (SELECT string_agg(b.id::text, ',' ORDER BY b.id) FROM counted AS b WHERE b.id < a.id) AS below
    FROM counted AS a ORDER BY 1;
SELECT a.id, EXISTS (SELECT FROM counted AS b WHERE b.id > a.id + 2 AND b.id::text > '') AS more
    FROM (VALUES (1), (5)) AS a(id);
SELECT a.id, (SELECT b.id FROM counted AS b WHERE b.id % 4 = a.id % 4 LIMIT 1) FROM (VALUES (1), (2), (3), (7)) AS a(id);
SELECT a, b.id FROM generate_series(1, 2) AS a, LATERAL (SELECT id FROM counted WHERE id < 5 + a LIMIT 4 + a) AS b ORDER BY 1, 2;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;

-- Cursors: several at a time, forwards and back, also held beyond the transaction.
BEGIN;
DECLARE one CURSOR FOR SELECT id FROM counted ORDER BY ctid;
DECLARE two SCROLL CURSOR FOR SELECT id FROM counted;
FETCH 4 FROM one;
FETCH 5 FROM two;
FETCH BACKWARD 3 FROM two;
FETCH 4 FROM one;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM counted;
COMMIT;
FETCH 2 FROM held;
CLOSE held;

-- Local settings change how values look, never which they are.
SET datestyle = 'German, DMY';
SET intervalstyle = sql_standard;
SET timezone = 'America/St_Johns';
SET extra_float_digits = -10;
SET bytea_output = escape;
SET xmloption = document;
SELECT id, born, stamp, lasts, ratio FROM items WHERE id IN (1, 2, 9);
SELECT id FROM items WHERE born = '01.03.2024' OR lasts = '-1 0:01' OR stamp = '31.03.2024 04:30 America/St_Johns';
SELECT id FROM items WHERE ratio = 10 / 3.0::float8;
PREPARE by_values AS SELECT id FROM items WHERE born = $1::date OR lasts = $2::interval OR stamp = $3::timestamptz OR ratio = $4::float8;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_values('01.03.2024', '-1 0:01', '31.03.2024 04:30 America/St_Johns', 10 / 3.0::float8);
RESET ALL;
SET client_min_messages = warning;
SET search_path = select_test;
-- Names of objects: the local search path must not matter.
CREATE TABLE pg_class (wrong int);
CREATE TABLE select_remote.named (class regclass, type regtype, proc regprocedure);
INSERT INTO select_remote.named VALUES ('pg_catalog.pg_class', 'pg_catalog.int4', 'pg_catalog.lower(text)'), ('select_test.pg_class', 'xml', NULL);
CREATE FOREIGN TABLE named (class regclass, type regtype, proc regprocedure) SERVER loopback OPTIONS (schema_name 'select_remote');
SET search_path = select_test, pg_catalog;
SELECT n.class::oid = r.class::oid AS same, n.* FROM named AS n JOIN select_remote.named AS r USING (type) ORDER BY 1, 2;
SELECT type FROM named WHERE class = 'pg_catalog.pg_class'::regclass;
SELECT type FROM named WHERE class = 'pg_class'::regclass;
SET search_path = select_test;
DROP TABLE select_test.pg_class;

-- Prepared statements and functions, with plans of both kinds.
PREPARE by_id(int) AS SELECT id, name FROM items WHERE id = $1;
EXECUTE by_id(1);
EXECUTE by_id(2);
EXECUTE by_id(3);
EXECUTE by_id(4);
EXECUTE by_id(5);
EXECUTE by_id(6);
EXECUTE by_id(NULL);
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_id(7);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE by_id(7);
EXECUTE by_id(7);
DISCARD PLANS;
EXECUTE by_id(8);
CREATE SCHEMA select_other;
CREATE TABLE select_other.items (LIKE select_remote.items);
INSERT INTO select_other.items (id, name) VALUES (9, 'the other nine');
ALTER FOREIGN TABLE items OPTIONS (SET schema_name 'select_other');
EXECUTE by_id(9);
ALTER FOREIGN TABLE items OPTIONS (SET schema_name 'select_remote');
EXECUTE by_id(9);
CREATE FUNCTION name_of(wanted int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    FOR i IN wanted .. wanted + 1 LOOP
        SELECT concat_ws(', ', found, name) INTO found FROM items WHERE id = i AND price > 0;
    END LOOP;
    RETURN found;
END $$;
SELECT i, name_of(i) FROM generate_series(1, 8) AS i;
RESET plan_cache_mode;

-- Errors: values that the local type refuses, what the shard refuses, and what the row does not say.
CREATE FUNCTION attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    code text; message text; detail text; context text;
BEGIN
    EXECUTE command;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        context = PG_EXCEPTION_CONTEXT;
    RETURN code || ' ' || message || coalesce(E'\n  DETAIL: ' || nullif(detail, ''), '')
        || E'\n  CONTEXT: ' || split_part(context, E'\nSQL statement', 1);
END $$;
ALTER FOREIGN TABLE items ALTER COLUMN name TYPE int;
SELECT attempt('SELECT name FROM items WHERE id = 1');
SELECT attempt('SELECT i FROM items AS i WHERE id = 1');
SELECT attempt('SELECT id FROM items WHERE name = 1');
ALTER FOREIGN TABLE items ALTER COLUMN name TYPE varchar(3);
SELECT name FROM items WHERE id = 1;
ALTER FOREIGN TABLE items ALTER COLUMN name TYPE text;
CREATE DOMAIN never_null AS text NOT NULL;
ALTER FOREIGN TABLE items ALTER COLUMN name TYPE never_null;
SELECT attempt('SELECT name FROM items WHERE id = 11');
ALTER FOREIGN TABLE items ALTER COLUMN name TYPE text;
ALTER FOREIGN TABLE items ADD COLUMN missing int;
SELECT attempt('SELECT missing FROM items');
SELECT attempt('SELECT id / 0 FROM items');
SELECT attempt('SELECT id FROM items WHERE 1 / (id - 5) > 0');
SELECT id FROM items WHERE id < 3 ORDER BY id;

-- A view reads with its owner's mapping. Without one there is nothing to read with.
CREATE ROLE select_owner;
CREATE ROLE select_reader;
GRANT USAGE ON SCHEMA select_test TO select_owner, select_reader;
GRANT SELECT ON counted TO select_owner, select_reader;
CREATE VIEW seen AS SELECT id FROM counted;
GRANT SELECT ON seen TO select_reader;
SET ROLE select_reader;
SELECT count(*) FROM seen;
SELECT left(attempt('SELECT count(*) FROM counted'), 28);
RESET ROLE;
ALTER VIEW seen OWNER TO select_owner;
SET ROLE select_reader;
SELECT left(attempt('SELECT count(*) FROM seen'), 28);
RESET ROLE;
CREATE USER MAPPING FOR select_owner SERVER loopback OPTIONS (user 'postgres', password_required 'false');
SET ROLE select_reader;
SELECT count(*) FROM seen;
SELECT left(attempt('SELECT count(*) FROM counted'), 28);
RESET ROLE;

DROP USER MAPPING FOR select_owner SERVER loopback;
DROP SCHEMA select_test, select_remote, select_other CASCADE;
DROP ROLE select_owner, select_reader;
