-- UPDATE and DELETE that the shard does whole: plans, and when a statement is none of them.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA direct_remote;
CREATE SCHEMA direct;
SET search_path = direct;
CREATE TABLE direct_remote.t (id int PRIMARY KEY, name text, "Num" numeric(8, 2), big bigint, code varchar(5), arr int[]);
CREATE FOREIGN TABLE t (id int, name text, num numeric(8, 2) OPTIONS (column_name 'Num'), big bigint, code varchar(5), arr int[])
    SERVER loopback OPTIONS (schema_name 'direct_remote');
CREATE TABLE local (id int, name text);
-- The foreign parts of a plan, with the statements that shards do whole: a scan says that rows are brought here.
CREATE FUNCTION remote(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        IF line ~ '-> .*Foreign (Update|Delete|Scan)|Remote SQL' AND line !~ 'ctid = |ctid, tableoid FROM|FOR UPDATE' THEN
            RETURN NEXT regexp_replace(btrim(line), '^-> +', '');
        END IF;
    END LOOP;
END $$;

-- Values and conditions.
SELECT remote('UPDATE t SET name = ''it''''s'', num = 5, big = 7, code = ''a'', arr = ''{1,2}'' WHERE id = 1');
SELECT remote('UPDATE t SET name = NULL, num = num + 1, big = id, code = name WHERE name LIKE ''a%'' AND num IS NOT NULL');
SELECT remote('UPDATE t SET num = big * 1.5, name = name || id, arr = ARRAY[id, NULL]');
SELECT remote('UPDATE t SET num = DEFAULT WHERE id IN (1, 2) RETURNING *');
SELECT remote('UPDATE t SET big = CASE WHEN id > 3 THEN 1 ELSE id END RETURNING 1');
SELECT remote('DELETE FROM t');
SELECT remote('DELETE FROM t WHERE id < 3 RETURNING num, ctid, tableoid');
PREPARE u (int, text) AS UPDATE t SET name = $2, big = $1 WHERE id = $1 AND name <> $2;
SET plan_cache_mode = force_generic_plan;
SELECT remote('EXECUTE u(1, ''x'')');
RESET plan_cache_mode;
SELECT remote('EXECUTE u(1, ''x'')');

-- Subqueries that are run once.
SELECT remote('UPDATE t SET big = (SELECT max(id) FROM local) WHERE id = (SELECT min(id) FROM local)');
SELECT remote('DELETE FROM t WHERE id = (SELECT max(id) FROM t)');
SELECT remote('UPDATE t SET big = (SELECT max(id) FROM local WHERE local.name <> t.name)');
SELECT remote('UPDATE t SET big = (SELECT max(id) FROM local WHERE random() < 2)');
SELECT remote('UPDATE t SET (big, name) = (SELECT id, local.name FROM local WHERE local.id = t.id)');

-- What stays here.
SELECT remote('UPDATE t SET big = random() * 10');
SELECT remote('UPDATE t SET name = current_user');
SELECT remote('UPDATE t SET arr[1] = 5');
SELECT remote('DELETE FROM t WHERE name = current_user');
SELECT remote('UPDATE t SET name = local.name FROM local WHERE local.id = t.id');
SELECT remote('DELETE FROM t WHERE id IN (SELECT id FROM local)');
SELECT remote('DELETE FROM t RETURNING random()');
SELECT remote('WITH i AS (INSERT INTO local VALUES (1)) DELETE FROM t');
SELECT remote('WITH d AS (DELETE FROM t) SELECT 1');
SELECT remote('WITH s AS (SELECT max(id) FROM local) DELETE FROM t WHERE id = (SELECT * FROM s)');
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION nothing();
SELECT remote('UPDATE t SET big = 1');
SELECT remote('DELETE FROM t');
DROP TRIGGER tr ON t;
CREATE TRIGGER tr AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION nothing();
SELECT remote('UPDATE t SET big = 1');
DROP TRIGGER tr ON t;
CREATE TRIGGER tr AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT remote('UPDATE t SET big = 1');
SELECT remote('DELETE FROM t');
DROP TRIGGER tr ON t;
ALTER FOREIGN TABLE t ADD twice int GENERATED ALWAYS AS (id * 2) STORED;
SELECT remote('UPDATE t SET big = 1');
ALTER FOREIGN TABLE t DROP twice;
CREATE VIEW v AS SELECT * FROM t WHERE id > 0;
SELECT remote('UPDATE v SET big = 1 WHERE num > 1 RETURNING *');
CREATE VIEW checked AS SELECT * FROM t WHERE id > 0 WITH CHECK OPTION;
SELECT remote('UPDATE checked SET big = 1');
SELECT remote('DELETE FROM checked');
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE id > 0;
SELECT remote('DELETE FROM barrier WHERE num / 2 > 1');
SELECT remote('DELETE FROM barrier WHERE id = 3');

-- Partitions.
CREATE TABLE p (k int, id int, name text) PARTITION BY LIST (k);
CREATE FOREIGN TABLE p1 (name text, k int, id int) SERVER loopback OPTIONS (schema_name 'direct_remote');
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1, 11);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE p3a PARTITION OF p3 FOR VALUES FROM (0) TO (10) SERVER loopback OPTIONS (schema_name 'direct_remote');
CREATE FOREIGN TABLE pd PARTITION OF p DEFAULT SERVER loopback OPTIONS (schema_name 'direct_remote');
SELECT remote('UPDATE p SET name = upper(name) WHERE id < 5 RETURNING *');
SELECT remote('DELETE FROM p WHERE k = 3');
SELECT remote('DELETE FROM p');
PREPARE up (int) AS UPDATE p SET name = 'x' WHERE k = $1;
SET plan_cache_mode = force_generic_plan;
-- Releases of 18 before 18.6 take targets for each other here.
SELECT count(*) > 0 AS plans FROM remote('EXECUTE up(1)');
RESET plan_cache_mode;
-- New keys, inside and not.
SELECT remote('UPDATE p1 SET k = 11');
SELECT remote('UPDATE p1 SET k = 2');
SELECT remote('UPDATE p1 SET k = NULL');
SELECT remote('UPDATE p1 SET k = k, id = 5');
SELECT remote('UPDATE p1 SET k = k + 0');
SELECT remote('UPDATE p SET k = 1 WHERE k = 11');
SELECT remote('UPDATE p SET k = 1');
SELECT remote('UPDATE p3a SET id = 9');
SELECT remote('UPDATE p3a SET id = 10');
SELECT remote('UPDATE p3a SET id = 0, k = 3');
SELECT remote('UPDATE p3a SET k = 4');
SELECT remote('UPDATE pd SET k = 4');
SELECT remote('UPDATE pd SET k = 2');
SELECT remote('UPDATE pd SET k = NULL');
CREATE TABLE h (a int, b text, c int) PARTITION BY HASH (a, b);
CREATE FOREIGN TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER loopback OPTIONS (schema_name 'direct_remote');
SELECT count(*) AS inside FROM generate_series(1, 20) AS g,
    remote(format('UPDATE h0 SET a = %s, b = ''x''', g)) AS line WHERE line LIKE 'Remote SQL: UPDATE % SET "a" = _%, "b" = ''x''';
SELECT count(*) AS inside FROM generate_series(1, 20) AS g WHERE satisfies_hash_partition('h'::regclass, 2, 0, g, 'x'::text);
SELECT remote('UPDATE h0 SET a = 1');
CREATE TRIGGER tt AFTER UPDATE ON h REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION nothing();
SELECT remote('UPDATE h SET c = 1');
SELECT remote('DELETE FROM h');
SELECT remote('UPDATE h0 SET c = 1');
-- Row triggers of another partition, which may write to this one.
CREATE TRIGGER tr BEFORE DELETE ON p2 FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT remote('DELETE FROM p WHERE k < 3');
SELECT remote('DELETE FROM p WHERE k = 1');
-- Inheritance: the new values are computed above the scans.
CREATE TABLE parent (id int, name text);
CREATE FOREIGN TABLE child () INHERITS (parent) SERVER loopback OPTIONS (schema_name 'direct_remote');
SELECT remote('UPDATE parent SET name = ''x''');
SELECT remote('DELETE FROM parent WHERE id = 1 RETURNING *');

-- Counts, and what EXPLAIN ANALYZE shows.
INSERT INTO direct_remote.t SELECT g, 'name ' || g, g FROM generate_series(1, 10) AS g;
\set QUIET off
UPDATE t SET num = num * 2 WHERE id < 4;
UPDATE t SET num = num * 2 WHERE id < 4 RETURNING id, num;
DELETE FROM t WHERE id > 8;
\set QUIET on
CREATE FUNCTION run(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, ' || query LOOP
        RETURN NEXT regexp_replace(line, '(actual rows=\d+)(\.00)?', '\1');
    END LOOP;
END $$;
BEGIN;
SELECT count(*) FROM t;
SELECT run('VERBOSE) UPDATE t SET num = 0 WHERE id < 4');
SELECT run('VERBOSE OFF) DELETE FROM t WHERE id < 4 RETURNING id');
COMMIT;
\pset tuples_only off
-- Errors name the table and the statement; a returned value that the type here does not take names its column.
\set VERBOSITY default
UPDATE t SET id = 5 WHERE id = 6;
UPDATE t SET num = 1 / (id - 6) WHERE id = 6;
CREATE FOREIGN TABLE narrow (id int, name int) SERVER loopback OPTIONS (schema_name 'direct_remote', table_name 't');
DELETE FROM narrow WHERE id = 6 RETURNING *;
DELETE FROM narrow WHERE id = 6 RETURNING id;
DROP SCHEMA direct, direct_remote CASCADE;
