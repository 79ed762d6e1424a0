-- Which rows of foreign tables a locking clause locks, and how that is planned. The session of the server is another one: what it has
-- locked can be seen here.
SET client_min_messages = warning;
\pset format unaligned
CREATE SCHEMA lock_remote;
CREATE SCHEMA lock_test;
SET search_path = lock_test;
CREATE TABLE lock_remote.t (id int PRIMARY KEY, k int, v text);
INSERT INTO lock_remote.t SELECT i, i % 3, 'v' || i FROM generate_series(1, 12) AS i;
CREATE FOREIGN TABLE t (id int, k int, v text) SERVER loopback OPTIONS (schema_name 'lock_remote');
CREATE TABLE lock_remote.p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE lock_remote.p1 PARTITION OF lock_remote.p FOR VALUES FROM (0) TO (10);
CREATE TABLE lock_remote.p2 PARTITION OF lock_remote.p FOR VALUES FROM (10) TO (20);
INSERT INTO lock_remote.p SELECT i, 'v' FROM generate_series(8, 11) AS i;
CREATE FOREIGN TABLE p (id int, v text) SERVER loopback OPTIONS (schema_name 'lock_remote');
CREATE VIEW lock_remote.seen AS SELECT id, v FROM lock_remote.t;
CREATE FOREIGN TABLE seen (id int, v text) SERVER loopback OPTIONS (schema_name 'lock_remote');
CREATE TABLE here (id int, n int);
INSERT INTO here SELECT i, i FROM generate_series(1, 12) AS i;
CREATE FUNCTION free(relation text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ids text;
BEGIN
    EXECUTE format('SELECT string_agg(id::text, '' '' ORDER BY id) FROM (SELECT id FROM lock_remote.%I FOR UPDATE SKIP LOCKED) AS s', relation)
        INTO ids;
    RETURN ids;
END $$;

-- The only relation of the query: the scan locks, in the order of the query.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t WHERE k = 1 ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t ORDER BY v COLLATE "C" NULLS FIRST, id % 2 DESC FOR NO KEY UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t FOR SHARE;
-- A sort or a condition that stays here, or a join: each row is locked when it is reached.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t ORDER BY id + (random() * 0)::int LIMIT 1 FOR UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) SELECT v FROM t WHERE k = 1 AND id > random() FOR KEY SHARE NOWAIT;
EXPLAIN (VERBOSE, COSTS OFF) SELECT t.v, n FROM t JOIN here USING (id) WHERE k = 1 FOR UPDATE OF t;
-- ctid does not identify a row.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM p ORDER BY id LIMIT 1 FOR UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM p ORDER BY id + (random() * 0)::int LIMIT 1 FOR UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) SELECT seen.id FROM seen JOIN here USING (id) FOR UPDATE OF seen;
-- Without a locking clause nothing changes.
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t ORDER BY id LIMIT 1;

BEGIN;
SELECT id FROM t WHERE k = 1 ORDER BY id DESC LIMIT 2 FOR UPDATE;
SELECT free('t');
ROLLBACK;
BEGIN;
SELECT t.id, n FROM t JOIN here USING (id) WHERE k = 1 AND n > 3 + random() ORDER BY id LIMIT 2 FOR UPDATE OF t;
SELECT free('t');
ROLLBACK;
BEGIN;
SELECT t.id, o.id FROM t LEFT JOIN t AS o ON o.id = t.id + 10 WHERE t.id < 4 ORDER BY t.id FOR UPDATE OF t;
SELECT free('t');
ROLLBACK;
BEGIN;
SELECT id FROM p ORDER BY id LIMIT 1 FOR UPDATE;
SELECT free('p');
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id LIMIT 10 FOR UPDATE;
FETCH 2 FROM c;
SELECT free('t');
ROLLBACK;
-- Below a savepoint, and undone with it.
BEGIN;
SELECT id FROM t WHERE id = 1 FOR UPDATE;
SAVEPOINT s;
SELECT t.id FROM t JOIN here USING (id) WHERE id = 2 FOR UPDATE OF t;
SELECT free('t');
ROLLBACK TO s;
SELECT free('t');
COMMIT;
-- The row as it is now takes part in the rest of the statement.
BEGIN;
UPDATE t SET v = 'changed' WHERE id = 3;
SELECT t.v, n FROM t JOIN here USING (id) WHERE id = 3 FOR UPDATE;
ROLLBACK;

-- The remote table gets a child after the statement was planned: one error, then a new plan.
PREPARE lock_one AS SELECT t.id FROM t JOIN here USING (id) WHERE t.id > 10 ORDER BY t.id FOR UPDATE OF t;
SET plan_cache_mode = force_generic_plan;
EXECUTE lock_one;
CREATE TABLE lock_remote.child () INHERITS (lock_remote.t);
INSERT INTO lock_remote.child SELECT 11 + i, 1, 'child' FROM generate_series(0, 1) AS i;
EXECUTE lock_one;
EXECUTE lock_one;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE lock_one;
DROP SCHEMA lock_remote, lock_test CASCADE;
