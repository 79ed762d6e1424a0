-- Scans that live on while savepoints come and go, and that are read inside them.
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA sp_remote;
CREATE SCHEMA sp_test;
SET search_path = sp_test;
CREATE TABLE sp_remote.t (id int PRIMARY KEY, v int);
INSERT INTO sp_remote.t SELECT i, i FROM generate_series(1, 7) AS i;
CREATE FOREIGN TABLE t (id int, v int) SERVER loopback OPTIONS (schema_name 'sp_remote', fetch_size '2');
CREATE TABLE bounds (id int);
INSERT INTO bounds VALUES (3), (5);

-- Opened before, first read inside a savepoint that is undone. As locally, the position stays.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
FETCH ALL FROM c;
COMMIT;

-- Read before, inside and after several.
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM t;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH 2 FROM c;
ROLLBACK TO s;
UPDATE t SET v = v * 10 WHERE id > 4;
SAVEPOINT s2;
DELETE FROM t;
FETCH 1 FROM c;
ROLLBACK TO s2;
FETCH ALL FROM c;
SELECT sum(v) FROM t;
ROLLBACK;

-- Opened in a savepoint that is released: from then on it belongs to the level above, read or not.
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 1 FROM c;
RELEASE s;
SAVEPOINT q;
FETCH 1 FROM c;
ROLLBACK TO q;
FETCH ALL FROM c;
COMMIT;
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id FROM t;
RELEASE s;
SAVEPOINT q;
FETCH 1 FROM c;
ROLLBACK TO q;
FETCH ALL FROM c;
COMMIT;

-- Opened in a savepoint that is undone.
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 1 FROM c;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;

-- With parameters that are known at the first read only, and that change.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id > (SELECT min(id) FROM bounds);
DECLARE d CURSOR FOR SELECT b.id, x.id FROM bounds AS b, LATERAL (SELECT id FROM t WHERE id >= b.id LIMIT 2) AS x;
SAVEPOINT s;
FETCH 1 FROM c;
FETCH 1 FROM d;
ROLLBACK TO s;
FETCH ALL FROM c;
FETCH ALL FROM d;
COMMIT;

-- The same, where the shard has the savepoint already: the cursor goes with it. Rows that have arrived can be read.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id > (SELECT min(id) FROM bounds);
DECLARE d CURSOR FOR SELECT b.id, x.id FROM bounds AS b, LATERAL (SELECT id FROM t WHERE id >= b.id LIMIT 2) AS x;
SAVEPOINT s;
SELECT count(*) FROM t;
FETCH 1 FROM c;
FETCH 1 FROM d;
ROLLBACK TO s;
FETCH ALL FROM d;
FETCH 1 FROM c;
FETCH 1 FROM c;
ROLLBACK;

-- A loop over the table whose body writes to it, in blocks of which every other one fails.
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT id FROM t LOOP
        BEGIN
            UPDATE t SET v = r.id * 100 WHERE id = r.id;
            PERFORM 1 / (r.id % 2);
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT * FROM t ORDER BY id;

-- Errors of a scan, caught; what was written before stays.
DO $$
BEGIN
    UPDATE t SET v = -1 WHERE id = 1;
    FOR i IN 1..3 LOOP
        BEGIN
            PERFORM id FROM t WHERE 10 / (id - i) > 100;
        EXCEPTION WHEN division_by_zero THEN
            UPDATE t SET v = v - 1 WHERE id = 1;
        END;
    END LOOP;
END $$;
SELECT v FROM t WHERE id = 1;

DROP SCHEMA sp_test, sp_remote CASCADE;
