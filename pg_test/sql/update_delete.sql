-- UPDATE, DELETE and TRUNCATE of foreign tables.
SET client_min_messages = warning;
\pset format unaligned
CREATE SCHEMA ud_remote;
CREATE SCHEMA ud_test;
SET search_path = ud_test;
CREATE TABLE ud_remote.t (id int PRIMARY KEY, name text, "Num" numeric, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FOREIGN TABLE t (
    gone int, name text, id int, num numeric OPTIONS (column_name 'Num'), twice int GENERATED ALWAYS AS (id * 2) STORED)
    SERVER loopback OPTIONS (schema_name 'ud_remote', fetch_size '3');
ALTER FOREIGN TABLE t DROP COLUMN gone;
CREATE PROCEDURE fill(n int) LANGUAGE sql AS $$
    DELETE FROM ud_remote.t;
    INSERT INTO ud_remote.t SELECT i, 'name ' || i, i FROM generate_series(1, n) AS i;
$$;
CALL fill(10);

-- What is sent.
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET name = 'x', num = num + 1 WHERE id < 3;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET id = 99 WHERE id = 1 RETURNING name, twice;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET num = DEFAULT WHERE id = 1 RETURNING 1;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t WHERE name IS NULL AND num < random();
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t RETURNING *;

-- Tags, what is returned, what is stored.
\set QUIET off
UPDATE t SET name = upper(name), num = num + 0.5 WHERE id <= 4;
UPDATE t SET name = 'nobody' WHERE id > 100;
UPDATE t SET id = id + 1000, name = NULL WHERE id IN (1, 2) RETURNING id, name, num, twice;
UPDATE t SET num = DEFAULT, twice = DEFAULT WHERE id = 3 RETURNING t, ctid IS NULL AS lost, tableoid::regclass;
DELETE FROM t WHERE id = 1001 RETURNING *;
DELETE FROM t WHERE name IS NULL;
DELETE FROM t WHERE false;
SELECT * FROM ud_remote.t ORDER BY id;
CALL fill(10);
UPDATE t SET num = s.n * 10 FROM generate_series(1, 3) AS s(n) WHERE t.id = s.n RETURNING t.id, t.num, s.n;
UPDATE t SET num = o.num FROM t AS o WHERE o.id = t.id + 1;
DELETE FROM t USING t AS o WHERE o.id = t.id + 5 RETURNING t.id, o.id;
WITH gone AS (DELETE FROM t WHERE id > 8 RETURNING id), changed AS (UPDATE t SET num = 0 WHERE id = 7 RETURNING id)
    SELECT 'gone' AS what, id FROM gone UNION ALL SELECT 'changed', id FROM changed ORDER BY 1, 2;
\set QUIET on
SELECT id, "Num" FROM ud_remote.t ORDER BY id;
SET client_min_messages = notice;
DO $$
DECLARE
    n bigint;
BEGIN
    UPDATE t SET num = 1 WHERE id > 5;
    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE 'updated %', n;
    DELETE FROM t WHERE id > 7;
    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE 'deleted %', n;
END $$;

-- The scan of a statement does not see what the statement writes, in whatever order it runs, and however often.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
CALL fill(10);
UPDATE t SET id = id + 10;
SELECT count(*), min(id), max(id) FROM ud_remote.t;
UPDATE t SET num = o.num + 100 FROM t AS o WHERE t.id = o.id;
SELECT count(*), min("Num"), max("Num") FROM ud_remote.t;
UPDATE t SET num = (SELECT count(*) FROM t AS o WHERE o.num > 100);
SELECT count(*), min("Num"), max("Num") FROM ud_remote.t;
DELETE FROM t WHERE (SELECT count(*) FROM t AS o WHERE o.id <= t.id) % 2 = 0;
SELECT string_agg(id::text, ',' ORDER BY id) FROM ud_remote.t;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;

-- A cursor shows the rows of the time when it was opened; a later scan shows what was written since.
CALL fill(8);
BEGIN;
DECLARE before CURSOR FOR SELECT id FROM t;
DECLARE begun CURSOR FOR SELECT id FROM t;
FETCH 1 FROM begun;
DELETE FROM t WHERE id < 7;
SELECT id FROM t ORDER BY id;
FETCH ALL FROM before;
FETCH ALL FROM begun;
ROLLBACK;
SELECT count(*) FROM t;

-- Savepoints and exception blocks.
BEGIN;
DELETE FROM t WHERE id = 1;
SAVEPOINT s;
DELETE FROM t;
SELECT count(*) FROM t;
ROLLBACK TO s;
SELECT count(*) FROM t;
COMMIT;
DO $$
BEGIN
    UPDATE t SET num = -1 WHERE id = 2;
    BEGIN
        UPDATE t SET id = 3 WHERE id IN (2, 4);
        RAISE NOTICE 'not reached';
    EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE '%', SQLERRM;
    END;
    UPDATE t SET num = -1 WHERE id = 5;
END $$;
SELECT id, num FROM t WHERE num < 0 ORDER BY id;

-- Errors of the shard.
DO $$
DECLARE
    code text; message text; detail text; context text; con text; tab text; sch text;
BEGIN
    UPDATE t SET id = 3 WHERE id = 2;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        context = PG_EXCEPTION_CONTEXT, con = CONSTRAINT_NAME, tab = TABLE_NAME, sch = SCHEMA_NAME;
    RAISE NOTICE E'% %\n%\n% % %\n%', code, message, detail, con, tab, sch, split_part(context, E'\nSQL statement', 1);
END $$;

-- Rows that a trigger of the shard changes or refuses.
CREATE FUNCTION ud_remote.guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.id % 2 = 0 THEN
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.name := 'changed there';
    RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON ud_remote.t FOR EACH ROW EXECUTE FUNCTION ud_remote.guard();
\set QUIET off
UPDATE t SET num = 7 WHERE id < 6 RETURNING id, name;
DELETE FROM t WHERE id > 5;
\set QUIET on
DROP TRIGGER guard ON ud_remote.t;

-- Local triggers.
CALL fill(3);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        RAISE NOTICE '% % %: % rows', TG_WHEN, TG_OP, TG_LEVEL, (SELECT count(*) FROM t);
        RETURN NULL;
    END IF;
    RAISE NOTICE '% % %: % -> %', TG_WHEN, TG_OP, TG_LEVEL, OLD, CASE TG_OP WHEN 'UPDATE' THEN NEW END;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    ELSIF TG_WHEN = 'BEFORE' THEN
        IF NEW.id = 2 THEN
            RETURN NULL;
        END IF;
        NEW.name := NEW.name || '!';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER before_row BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_row AFTER UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER before_statement BEFORE UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER after_statement AFTER UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET num = 5 WHERE id < 3;
\set QUIET off
UPDATE t SET num = 5 WHERE id < 3;
DELETE FROM t WHERE id > 1 RETURNING id;
\set QUIET on
DROP TRIGGER before_row ON t;
DROP TRIGGER after_row ON t;
DROP TRIGGER before_statement ON t;
DROP TRIGGER after_statement ON t;

SET client_min_messages = warning;

-- Views with a check.
CALL fill(5);
CREATE VIEW low AS SELECT id, name, num FROM t WHERE num < 5 WITH CHECK OPTION;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE low SET num = num + 1;
UPDATE low SET num = num + 1;
UPDATE low SET num = num - 1 RETURNING *;
DELETE FROM low WHERE id = 1;

-- A partitioned table with a foreign and a local partition.
CREATE TABLE part (name text, id int, num numeric, twice int) PARTITION BY LIST (id);
CREATE TABLE ud_remote.part_one (id int, name text, num numeric, twice int);
INSERT INTO ud_remote.part_one VALUES (1, 'there', 1, 2), (1, 'there', 2, 2);
CREATE FOREIGN TABLE part_one PARTITION OF part FOR VALUES IN (1) SERVER loopback OPTIONS (schema_name 'ud_remote');
CREATE TABLE part_two PARTITION OF part FOR VALUES IN (2);
INSERT INTO part VALUES ('here', 2, 1, 2);
\set QUIET off
UPDATE part SET num = num * 10 RETURNING tableoid::regclass, *;
PREPARE dotted(int) AS UPDATE part SET name = name || '.' WHERE id = $1 RETURNING *;
SET plan_cache_mode = force_generic_plan;
EXECUTE dotted(1);
EXECUTE dotted(2);
EXECUTE dotted(3);
RESET plan_cache_mode;
DELETE FROM part WHERE num = 10;
\set QUIET on

-- A ctid need not be unique on the shard.
CREATE TABLE ud_remote.split (id int) PARTITION BY LIST (id);
CREATE TABLE ud_remote.split_one PARTITION OF ud_remote.split FOR VALUES IN (1);
CREATE TABLE ud_remote.split_two PARTITION OF ud_remote.split FOR VALUES IN (2);
INSERT INTO ud_remote.split VALUES (1), (2);
CREATE FOREIGN TABLE split (id int) SERVER loopback OPTIONS (schema_name 'ud_remote');
UPDATE split SET id = id WHERE id = 1 OR random() > 2 RETURNING id;
DELETE FROM split WHERE id = 1 OR random() > 2;
SELECT * FROM split;

-- Rows are locked on the shard.
BEGIN;
SELECT id FROM t WHERE id = 3 FOR UPDATE;
SELECT id FROM ud_remote.t ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM ud_remote.t WHERE id = 3 FOR SHARE NOWAIT;
ROLLBACK;
BEGIN;
SELECT id FROM t WHERE id = 3 FOR SHARE;
SELECT id FROM ud_remote.t WHERE id = 3 FOR SHARE NOWAIT;
ROLLBACK;
BEGIN;
SELECT id FROM ud_remote.t WHERE id = 3 FOR UPDATE;
SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM t WHERE id = 3 FOR UPDATE NOWAIT;
ROLLBACK;

-- TRUNCATE.
CREATE TABLE ud_remote.u (id serial PRIMARY KEY);
CREATE TABLE ud_remote.v (id int REFERENCES ud_remote.u);
CREATE FOREIGN TABLE u (id int) SERVER loopback OPTIONS (schema_name 'ud_remote');
CREATE FOREIGN TABLE v (id int) SERVER loopback OPTIONS (schema_name 'ud_remote');
INSERT INTO ud_remote.u DEFAULT VALUES;
INSERT INTO ud_remote.v VALUES (1);
TRUNCATE u;
TRUNCATE u, v;
SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM v);
INSERT INTO ud_remote.u DEFAULT VALUES;
INSERT INTO ud_remote.v VALUES (2);
BEGIN;
TRUNCATE u RESTART IDENTITY CASCADE;
SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM v);
ROLLBACK;
SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM v);
TRUNCATE u RESTART IDENTITY CASCADE;
INSERT INTO ud_remote.u DEFAULT VALUES RETURNING id;
TRUNCATE part;
SELECT count(*) FROM part;

-- A MERGE that inserts rows and moves others into one table, where the shard fills columns of the inserted ones.
CREATE TABLE ud_remote.merged (k int, id int, v text DEFAULT 'far');
CREATE TABLE m (k int, id int, v text) PARTITION BY LIST (k);
CREATE TABLE m0 PARTITION OF m FOR VALUES IN (0);
CREATE FOREIGN TABLE m1 PARTITION OF m FOR VALUES IN (1) SERVER loopback OPTIONS (schema_name 'ud_remote', table_name 'merged');
ALTER FOREIGN TABLE m1 ALTER v OPTIONS (ADD remote_default 'true');
INSERT INTO m VALUES (0, 1, 'near');
MERGE INTO m USING (VALUES (1), (2)) AS s (id) ON m.k = 0 AND m.id = s.id
    WHEN MATCHED THEN UPDATE SET k = 1 WHEN NOT MATCHED THEN INSERT (k, id) VALUES (1, s.id);
MERGE INTO m USING (VALUES (1), (2)) AS s (id) ON m.k = 0 AND m.id = s.id
    WHEN NOT MATCHED AND s.id = 2 THEN INSERT (k, id) VALUES (1, s.id);
MERGE INTO m USING (VALUES (1)) AS s (id) ON m.k = 0 AND m.id = s.id WHEN MATCHED THEN UPDATE SET k = 1;
SELECT * FROM ud_remote.merged ORDER BY id;
-- A remote view has no ctid. What the hint says is of no use where another column is missing.
CREATE VIEW ud_remote.seen AS SELECT id AS vid, name FROM ud_remote.t;
CREATE FOREIGN TABLE seen (vid int, name text) SERVER loopback OPTIONS (schema_name 'ud_remote');
UPDATE seen SET name = 'y' || random();
CREATE FOREIGN TABLE missing (id int, "names of ctids" text) SERVER loopback OPTIONS (schema_name 'ud_remote', table_name 't');
UPDATE missing SET id = id + (0 * random())::int WHERE "names of ctids" IS NULL;

-- A row that a function has changed since the scan found it: an error, unless something on the shard may have left it out.
CALL fill(3);
CREATE FUNCTION change_next(before int) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET name = 'by the function' WHERE id = before + 1;
    RETURN 0;
END $$;
\set QUIET off
UPDATE t SET num = change_next(id), name = 'by the statement';
DELETE FROM t WHERE change_next(id) = 0;
CREATE FUNCTION ud_remote.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER look BEFORE UPDATE ON ud_remote.t FOR EACH ROW EXECUTE FUNCTION ud_remote.look();
UPDATE t SET num = change_next(id), name = 'by the statement';
DROP TRIGGER look ON ud_remote.t;
CREATE RULE look AS ON DELETE TO ud_remote.t WHERE OLD.id < 0 DO INSTEAD NOTHING;
DELETE FROM t WHERE change_next(id) = 0 AND id > 1;
DROP RULE look ON ud_remote.t;
UPDATE t SET num = change_next(s.n), name = 'by a join' FROM generate_series(0, 3) AS s(n) WHERE s.n + 1 = t.id;
\set QUIET on
SELECT id, name, "Num" FROM ud_remote.t ORDER BY id;
CALL fill(3);

-- The options that forbid it.
ALTER FOREIGN TABLE t OPTIONS (ADD updatable 'false', ADD truncatable 'false');
UPDATE t SET num = 0;
DELETE FROM t;
TRUNCATE t;
SELECT is_updatable FROM information_schema.views WHERE table_schema = 'ud_test';
ALTER FOREIGN TABLE t OPTIONS (DROP updatable, DROP truncatable);
ALTER SERVER loopback OPTIONS (ADD updatable 'false', ADD truncatable 'false');
UPDATE t SET num = 0;
TRUNCATE t, u;
ALTER SERVER loopback OPTIONS (DROP updatable, DROP truncatable);
TRUNCATE t, u CASCADE;

DROP SCHEMA ud_test, ud_remote CASCADE;
