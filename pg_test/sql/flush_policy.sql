-- When rows have to be on the shard: the option flush_policy, the setting of the session, and what EXPLAIN says.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA flush_policy;
SET search_path = flush_policy, public;
CREATE TABLE r (a int, b text);
CREATE FOREIGN TABLE f (a int, b text) SERVER loopback OPTIONS (table_name 'r');
CREATE TABLE source AS SELECT i AS a, 'x' || i AS b FROM generate_series(1, 20) AS i;
ANALYZE source;
CREATE FUNCTION slow(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN i; END';
CREATE FUNCTION slow(i int, j int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN i + j; END';
CREATE FUNCTION slow(x text) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN length(x); END';
CREATE FUNCTION inlined(i int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE FUNCTION called(i int) RETURNS int LANGUAGE sql AS 'SELECT $1 LIMIT 1';
CREATE FUNCTION three() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT generate_series(1, 3); END';
CREATE OPERATOR @+ (LEFTARG = int, RIGHTARG = int, FUNCTION = slow);
CREATE AGGREGATE slow_sum(int) (SFUNC = slow, STYPE = int, INITCOND = '0');
CREATE FUNCTION slow_final(i int8) RETURNS int8 LANGUAGE plpgsql AS 'BEGIN RETURN i; END';
CREATE AGGREGATE slow_end(int) (SFUNC = int4_sum, STYPE = int8, FINALFUNC = slow_final);
CREATE TYPE pair AS (x int, y int);
CREATE FUNCTION slow_cast(pair) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1.x; END';
CREATE CAST (pair AS int) WITH FUNCTION slow_cast(pair);

-- What EXPLAIN says of the policy.
CREATE FUNCTION policy(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    found text[];
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        IF line ~ 'Batching|Flush' THEN
            found := found || btrim(line);
        END IF;
    END LOOP;
    RETURN array_to_string(found, '; ');
END $$;

SELECT policy('INSERT INTO f SELECT slow(a) FROM source');
SET shard_fdw.flush_policy = row;
SELECT policy('INSERT INTO f SELECT a FROM source');
SELECT policy('INSERT INTO f VALUES (1) RETURNING a');
SET shard_fdw.flush_policy = statement;
ALTER FOREIGN TABLE f OPTIONS (ADD flush_policy 'row');
SELECT policy('INSERT INTO f SELECT a FROM source');
RESET shard_fdw.flush_policy;
SELECT policy('INSERT INTO f SELECT a FROM source');
ALTER SERVER loopback OPTIONS (ADD flush_policy 'call');
SELECT policy('INSERT INTO f SELECT a FROM source');
ALTER FOREIGN TABLE f OPTIONS (DROP flush_policy);
SELECT policy('INSERT INTO f SELECT a FROM source');
SELECT policy('INSERT INTO f SELECT slow(a) FROM source');
SET shard_fdw.flush_policy = sometimes;
ALTER SERVER loopback OPTIONS (SET flush_policy 'sometimes');

-- Functions that are called while rows are written, wherever they stand.
SELECT query, policy(query) FROM unnest(ARRAY[
    'INSERT INTO f VALUES (slow(1))',
    'INSERT INTO f SELECT called(a) FROM source',
    'INSERT INTO f SELECT a @+ 1 FROM source',
    'INSERT INTO f SELECT ROW(a, 1)::pair::int FROM source',
    'INSERT INTO f SELECT a FROM source WHERE slow(a) > 3',
    'INSERT INTO f SELECT * FROM three()',
    'INSERT INTO f SELECT a FROM source LIMIT slow(3)',
    'INSERT INTO f SELECT (SELECT slow(s.a)) FROM source s',
    'INSERT INTO f SELECT a FROM source WHERE a > (SELECT max(slow(a)) FROM source)',
    'WITH c AS MATERIALIZED (SELECT slow(a) AS x FROM source) INSERT INTO f SELECT x FROM c',
    'WITH c AS (INSERT INTO f SELECT slow(a) FROM source) SELECT count(*) FROM source',
    'WITH c AS (INSERT INTO f SELECT a FROM source) SELECT slow(a) FROM source ORDER BY 1',
    'INSERT INTO f SELECT slow(a) FROM (SELECT a FROM source ORDER BY b) s',
    'INSERT INTO f SELECT slow(sum(a)::int) FROM source',
    'INSERT INTO f SELECT slow_end(a) FROM source',
    'INSERT INTO f SELECT slow_sum(a) OVER (ORDER BY a) FROM source',
    'INSERT INTO f SELECT a FROM source UNION ALL (SELECT slow(a) FROM source ORDER BY 1)',
    'INSERT INTO f SELECT a FROM source, LATERAL (SELECT slow(a) AS x ORDER BY 1 OFFSET 0) s'
]) AS query;

-- Those that are not called then: inlined, built in, or over before the first row is written.
SET enable_sort = off;
SET enable_hashagg = on;
SELECT query, policy(query) FROM unnest(ARRAY[
    'INSERT INTO f SELECT inlined(a) FROM source',
    'INSERT INTO f SELECT abs(a) FROM source',
    'INSERT INTO f SELECT slow(a) FROM source ORDER BY 1',
    'INSERT INTO f SELECT slow(a) FROM source ORDER BY 1 LIMIT 3',
    'INSERT INTO f SELECT sum(slow(a)) FROM source',
    'INSERT INTO f SELECT slow_sum(a) FROM source',
    'INSERT INTO f SELECT max(x) FROM (SELECT slow(a) AS x, b FROM source OFFSET 0) s GROUP BY b',
    'INSERT INTO f SELECT sum(a) OVER (ORDER BY slow(a)) FROM (SELECT a FROM source OFFSET 0) s',
    'INSERT INTO f SELECT s.a FROM source s LEFT JOIN (SELECT slow(a) AS x FROM source LIMIT 2) t ON t.x = s.a'
]) AS query;
-- A hashed aggregate that writes rows to disk evaluates its arguments for them later.
SELECT policy('INSERT INTO f SELECT sum(slow(a)) FROM source GROUP BY b');
SET enable_hashagg = off;
RESET enable_sort;
SELECT policy('INSERT INTO f SELECT slow_sum(a) FROM source GROUP BY b');
RESET enable_hashagg;

-- The policy shows in what is sent: statements with rows, and rows.
CREATE FUNCTION sent(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    before record;
    after record;
BEGIN
    SELECT sum(batches) AS batches, sum(rows) AS rows INTO before FROM shard_fdw_stats() WHERE server_name = 'loopback';
    EXECUTE query;
    SELECT sum(batches) AS batches, sum(rows) AS rows INTO after FROM shard_fdw_stats() WHERE server_name = 'loopback';
    RETURN format('%s batches, %s rows', after.batches - coalesce(before.batches, 0), after.rows - coalesce(before.rows, 0));
END $$;
SELECT shard_fdw_disconnect_all() IS NOT NULL AS done;
SELECT count(*) FROM f;
SELECT query, sent(query) FROM unnest(ARRAY[
    'INSERT INTO f SELECT a FROM source',
    'INSERT INTO f SELECT slow(a) FROM source',
    'INSERT INTO f SELECT slow(a) FROM source ORDER BY 1'
]) AS query;
SET shard_fdw.flush_policy = row;
SELECT sent('INSERT INTO f SELECT a FROM source');
SET shard_fdw.flush_policy = statement;
SELECT sent('INSERT INTO f SELECT slow(a) FROM source');
SELECT count(*), sum(a) FROM r;

-- UPDATE and DELETE.
SET shard_fdw.flush_policy = row;
SELECT query, policy(query), sent(query) FROM unnest(ARRAY[
    'UPDATE f SET b = b || ''.'' WHERE random() < 2 AND a <= 5',
    'UPDATE f SET b = s.b FROM source s WHERE s.a = f.a AND s.a <= 3',
    'DELETE FROM f WHERE random() < 2 AND a = 20',
    'UPDATE f SET b = ''whole'' WHERE a = 19'
]) AS query;
SET shard_fdw.flush_policy = call;
SELECT query, policy(query), sent(query) FROM unnest(ARRAY[
    'UPDATE f SET b = slow(a)::text WHERE a <= 2',
    'UPDATE f SET b = b || ''!'' WHERE slow(a) = 3',
    'UPDATE f SET b = s.b FROM (SELECT slow(a) AS x, b FROM source ORDER BY 1) s WHERE s.x = f.a AND s.x <= 4',
    'UPDATE f SET b = b || ''?'' WHERE random() < 2 AND a <= 6',
    'DELETE FROM f WHERE slow(a) >= 18',
    'DELETE FROM f WHERE random() < 2 AND a = 17'
]) AS query;
SET shard_fdw.flush_policy = transaction;
SELECT sent('DELETE FROM f WHERE slow(a) >= 16');
SELECT count(*), a, min(b), max(b) FROM r GROUP BY a ORDER BY a;

-- Decided once per statement and target, but for each statement anew.
SET shard_fdw.flush_policy = call;
PREPARE p AS INSERT INTO f SELECT slow(a) FROM source LIMIT 2;
SELECT sent('EXECUTE p');
CREATE OR REPLACE FUNCTION slow(i int) RETURNS int LANGUAGE internal AS 'int4abs';
SELECT sent('EXECUTE p');

-- Rows that wait for the end of the transaction, and statements whose rows do not.
SET shard_fdw.flush_policy = transaction;
SELECT query, policy(query) FROM unnest(ARRAY[
    'INSERT INTO f VALUES (1)',
    'INSERT INTO f VALUES (1) ON CONFLICT DO NOTHING',
    'INSERT INTO f VALUES (1) RETURNING a'
]) AS query;
TRUNCATE r;
BEGIN;
SELECT sent('INSERT INTO f VALUES (1)'), sent('INSERT INTO f VALUES (2), (3)'), sent('INSERT INTO f SELECT a FROM source');
SELECT buffered_bytes > 0 AS waiting FROM shard_fdw_stats() WHERE server_name = 'loopback';
SELECT shard_fdw_flush(), shard_fdw_flush() AS again;
SELECT sent('INSERT INTO f VALUES (4)'), sent('INSERT INTO f VALUES (5) ON CONFLICT DO NOTHING');
SELECT sent('INSERT INTO f VALUES (6)'), sent('SELECT count(*) FROM f');
INSERT INTO f VALUES (27);
UPDATE f SET b = 'u' WHERE a = 27;
INSERT INTO f VALUES (28);
DELETE FROM f WHERE a = 28;
SELECT sent('INSERT INTO f VALUES (8)');
COMMIT;
SELECT count(*), sum(a) FROM r;
SELECT shard_fdw_flush();
-- The shard may drop rows of this one.
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE dropping (a int);
CREATE TRIGGER t BEFORE INSERT ON dropping FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE FOREIGN TABLE g (a int) SERVER loopback OPTIONS (table_name 'dropping');
BEGIN;
SELECT sent('INSERT INTO g VALUES (1)');
COMMIT;
-- One that begins to do so is noticed.
BEGIN;
INSERT INTO f VALUES (10);
SELECT shard_fdw_flush();
COMMIT;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER t BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO f VALUES (11), (12);
INSERT INTO f VALUES (11), (12);
DROP TRIGGER t ON r;
RESET shard_fdw.flush_policy;
ALTER SERVER loopback OPTIONS (DROP flush_policy);
DROP SCHEMA flush_policy CASCADE;
