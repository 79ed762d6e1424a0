-- requires: tsm_system_rows tsm_system_time
-- TABLESAMPLE over foreign partitions: what the shard gets, and what is refused.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET client_min_messages = warning;
\pset format unaligned
CREATE EXTENSION tsm_system_rows SCHEMA public;
CREATE EXTENSION tsm_system_time SCHEMA public;
CREATE SCHEMA sampling;
SET search_path = sampling, public;
CREATE TABLE r (k int, id int);
CREATE VIEW w AS SELECT * FROM r;
INSERT INTO r SELECT 1, g FROM generate_series(1, 1000) g;
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
CREATE FOREIGN TABLE t1 PARTITION OF t FOR VALUES IN (1) SERVER loopback OPTIONS (table_name 'r', fetch_size '3');
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);

EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (3) WHERE id > 5;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t TABLESAMPLE SYSTEM (random() * 100) WHERE k = 1 FOR UPDATE;
SET plan_cache_mode = force_generic_plan;
PREPARE g (int, real) AS SELECT * FROM t TABLESAMPLE SYSTEM ($2) WHERE k = 1 AND id < $1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE g (1, 2);
RESET plan_cache_mode;
-- Each execution of a plan takes another sample.
PREPARE p AS SELECT array_agg(id) AS ids FROM t TABLESAMPLE BERNOULLI (50);
CREATE TABLE seen AS EXECUTE p;
CREATE TABLE later AS EXECUTE p;
SELECT seen = later AS same FROM seen, later;
-- A statement that writes has to know its arguments when it begins.
INSERT INTO t1 SELECT 1, 0 FROM t TABLESAMPLE BERNOULLI ((SELECT 0 OFFSET 0));
INSERT INTO t1 SELECT 1, 0 FROM t TABLESAMPLE BERNOULLI (random() * 0);
-- What cannot be sampled is refused by the shard.
ALTER FOREIGN TABLE t1 OPTIONS (SET table_name 'w');
SELECT * FROM t TABLESAMPLE BERNOULLI (10);
SELECT * FROM t TABLESAMPLE BERNOULLI (10) WHERE k = 2;
ALTER FOREIGN TABLE t1 OPTIONS (SET table_name 'r');

SELECT * FROM t TABLESAMPLE SYSTEM_ROWS (10);
EXPLAIN (COSTS OFF) SELECT * FROM t TABLESAMPLE SYSTEM_ROWS (10) WHERE k = 2;
ALTER SERVER loopback OPTIONS (ADD extensions 'tsm_system_rows, tsm_system_time');
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t TABLESAMPLE SYSTEM_ROWS (10);
SELECT count(*) FROM t TABLESAMPLE SYSTEM_ROWS (10);
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t TABLESAMPLE SYSTEM_TIME (1000);
-- Such a sample stays the same in a statement, though no seed says it.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT min(n), max(n) FROM (
    SELECT t.id, count(*) AS n FROM generate_series(1, 3) g, t TABLESAMPLE SYSTEM_ROWS (10) WHERE g + t.id > random() * 0 GROUP BY t.id) s;
ALTER SERVER loopback OPTIONS (DROP extensions);
SET client_min_messages = warning;
DROP SCHEMA sampling CASCADE;
DROP EXTENSION tsm_system_rows;
DROP EXTENSION tsm_system_time;
