-- UPDATE and DELETE that a shard can do whole, and those that only look like it.

== values of every kind
@table t ON s1
    id int, v text, c varchar(5), f char(4), n int, b bigint, m numeric(8,2), x float8, d date, ts timestamptz, y bytea, a int[], o boolean
    PRIMARY KEY (id);
INSERT INTO t SELECT g, 'v' || g, 'c', 'f', g, g, g, g, '2024-02-29', '2024-02-29 12:00+00', '\x00', ARRAY[g, g + 1], true FROM generate_series(1, 40) g;
UPDATE t SET v = 'it''s \', c = 'abc', f = 'ab', n = -5, b = 5, m = 1.005, x = 'NaN', d = '2023-01-01', y = '\x5c27', a = '{}', o = false WHERE id = 1;
UPDATE t SET v = NULL, c = NULL, f = NULL, n = NULL, b = NULL, m = NULL, x = NULL, d = NULL, ts = NULL, y = NULL, a = NULL, o = NULL WHERE id = 2;
UPDATE t SET b = n, m = n, x = b, v = c, f = c, n = id WHERE id = 3;
UPDATE t SET n = m * 3, b = x / 7, m = x / 7, c = v, v = id WHERE id = 4;
UPDATE t SET a = ARRAY[n, id, NULL], n = a[1] + a[2], o = n > 3 AND v IS NOT NULL WHERE id = 5;
UPDATE t SET a[1] = 7, n = CASE WHEN id % 2 = 0 THEN 1 ELSE NULL END WHERE id IN (6, 7);
UPDATE t SET n = DEFAULT, v = upper(v) || '.' || coalesce(c, 'none') WHERE id = 8;
UPDATE t SET (n, v) = (b + 1, 'pair'), m = -m WHERE id = 9;
UPDATE t SET n = id, id = n + 100, b = n WHERE id = 10;
UPDATE t SET d = d + 1, v = v WHERE id = 11;
UPDATE t SET d = now(), ts = now() - interval '1 day' WHERE id = 12 RETURNING d = current_date, ts < now();
UPDATE t SET d = '2020-01-01', ts = '2020-01-01 12:00+00' WHERE id = 12;
UPDATE t SET ts = ts + interval '1 month' WHERE id = 13;
@error 22001
UPDATE t SET c = v || 'too long' WHERE id = 14;
@error 22001
UPDATE t SET c = 'too long' WHERE id = 14;
@error 22003
UPDATE t SET n = b * 3000000000 WHERE id = 14;
@error 22003
UPDATE t SET m = x * 10000000 WHERE id = 14;
@error 22012
UPDATE t SET n = n / (n - 14) WHERE id = 14;
UPDATE t SET c = 'ab   ' || '   ' WHERE id = 15;
UPDATE t SET f = v WHERE id < 10 AND length(v) < 4;
UPDATE t SET x = 1e300 * x, m = round(m / 3, 1) WHERE id = 16;
UPDATE t SET n = 10 / (n - 16) WHERE id = 17 RETURNING id, n;
UPDATE t SET n = 16 WHERE id = 18 RETURNING n, id, n - 16;
UPDATE t SET n = 10 / (n - 6) WHERE id = 16 RETURNING n, id;
SELECT * FROM t ORDER BY id;

== returned rows
@table t ON s1
    id int, v text, n int;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 2500) g;
UPDATE t SET n = n + 1 WHERE id % 5 = 0 RETURNING *;
UPDATE t SET n = n + 1 WHERE id < 4 RETURNING 1;
UPDATE t SET n = n + 1 WHERE id < 4 RETURNING tableoid::regclass, t, n * 2;
DELETE FROM t WHERE id % 2 = 0 RETURNING id;
DELETE FROM t WHERE id < 0 RETURNING *;
UPDATE t SET v = 'w' WHERE id = 5 RETURNING (SELECT count(*) FROM t), (SELECT max(o.v) FROM t o WHERE o.id = t.id);
WITH d AS (DELETE FROM t WHERE id < 20 RETURNING id) SELECT sum(id), count(*) FROM d;
WITH u AS (UPDATE t SET n = 0 WHERE id = 21 RETURNING *), d AS (DELETE FROM t WHERE id = 21 OR id = 23 RETURNING id) SELECT (SELECT n FROM u), (SELECT count(*) >= 1 FROM d);
WITH i AS (INSERT INTO t VALUES (9999, 'new', 0) RETURNING id) UPDATE t SET v = 'cte' WHERE id > 2490 RETURNING id;
WITH s AS (SELECT max(id) AS m FROM t) UPDATE t SET n = (SELECT m FROM s) WHERE id = (SELECT m FROM s) RETURNING id, n;
DO $$ DECLARE r record; total bigint; BEGIN UPDATE t SET n = 5 WHERE id = 25 RETURNING * INTO r; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '% %', r, total; DELETE FROM t WHERE id > 2400; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '%', total; FOR r IN UPDATE t SET n = n + 1 WHERE id BETWEEN 31 AND 35 RETURNING id LOOP RAISE NOTICE '%', r.id; END LOOP; END $$;
SELECT count(*), sum(n), min(v), max(v) FROM t;

== subqueries
@table t ON s1
    id int, n int;
CREATE TABLE l (id int, n int);
INSERT INTO t SELECT g, g FROM generate_series(1, 50) g;
INSERT INTO l SELECT g, 100 + g FROM generate_series(1, 20) g;
UPDATE t SET n = (SELECT max(n) FROM l) WHERE id = (SELECT min(id) FROM l);
UPDATE t SET n = (SELECT max(n) FROM t) + 1 WHERE id > (SELECT avg(id) FROM t) AND id < 40;
UPDATE t SET n = (SELECT count(*) FROM t WHERE n > 0), id = (SELECT max(id) FROM t) + id WHERE id % 10 = 0;
DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY id DESC LIMIT 1);
DELETE FROM t WHERE id < (SELECT n FROM l WHERE false);
DELETE FROM t WHERE id = ANY (ARRAY(SELECT id FROM l WHERE id < 4));
UPDATE t SET n = 0 WHERE EXISTS (SELECT FROM l WHERE n > 110) AND id < 10;
UPDATE t SET (n) = (SELECT max(n) FROM l) WHERE id = 11;
@error 21000
UPDATE t SET n = (SELECT n FROM l) WHERE id = 12;
SELECT * FROM t ORDER BY id;

== rows written by a function that a subquery calls
@table t ON s1
    id int, n int;
INSERT INTO t VALUES (1, 0);
CREATE FUNCTION add(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i, 0); RETURN i; END $$;
CREATE FUNCTION seen() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(n) FROM t); END $$;
UPDATE t SET n = (SELECT add(2));
DELETE FROM t WHERE id >= (SELECT add(3) - 2);
SELECT * FROM t ORDER BY id;
INSERT INTO t VALUES (10, 0), (11, 0), (12, 0);
WITH u AS (UPDATE t SET n = 1 WHERE id >= 10 RETURNING seen()) SELECT count(*) FROM u;
UPDATE t SET n = 2 WHERE id >= 10 RETURNING seen() > 0;
SELECT * FROM t ORDER BY id;

== statement triggers that write to their table
@table t ON s1
    id int, n int;
INSERT INTO t VALUES (1, 0), (2, 0);
CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (10, 10); RAISE NOTICE '% rows', (SELECT count(*) FROM t); RETURN NULL; END $$;
CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'sum %', (SELECT sum(n) FROM t); RETURN NULL; END $$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION before();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION after();
UPDATE t SET n = n + 1;
DELETE FROM t WHERE id = 10;
SELECT * FROM t ORDER BY id, n;
DROP TRIGGER b ON t;
UPDATE t SET n = n + 1;
DELETE FROM t WHERE id = 2;
SELECT * FROM t ORDER BY id, n;

== row triggers
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % % %', TG_OP, TG_WHEN, OLD.id, (SELECT sum(n) FROM t); IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; NEW.n := NEW.n * 2; RETURN NEW; END $$;
CREATE TRIGGER r BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.id < 5) EXECUTE FUNCTION note();
UPDATE t SET n = n + 1 WHERE id IN (1, 9);
DELETE FROM t WHERE id = 2;
CREATE TRIGGER d AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
DELETE FROM t WHERE id = 3;
SELECT * FROM t ORDER BY id;

== partitions here and there
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    id int, v text, k int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
@table t3 ON s2 OF t FOR VALUES IN (3)
    k int, id int, v text;
CREATE TABLE t4 PARTITION OF t FOR VALUES IN (4) PARTITION BY RANGE (id);
@table t4a ON s1 OF t4 FOR VALUES FROM (0) TO (50)
    v text, k int, id int;
CREATE TABLE t4b PARTITION OF t4 FOR VALUES FROM (50) TO (1000);
CREATE VIEW odd AS SELECT * FROM t WHERE id % 2 = 1;
INSERT INTO t SELECT 1 + g % 4, g, 'v' || g FROM generate_series(1, 100) g;
UPDATE t SET v = v || '+' WHERE id < 30;
UPDATE t SET v = v || '*' WHERE k = 3 AND id > 20 RETURNING k, id, v, tableoid::regclass;
UPDATE t SET v = v || id WHERE id BETWEEN 40 AND 60 RETURNING *;
UPDATE t SET v = (SELECT max(v) FROM t) WHERE id = 7 OR id = 8;
UPDATE odd SET v = 'odd' WHERE id < 20 RETURNING *;
DELETE FROM odd WHERE id > 90;
DELETE FROM t WHERE id % 7 = 0 RETURNING tableoid::regclass, id;
DELETE FROM t4 WHERE id < 70;
PREPARE u(int, text) AS UPDATE t SET v = $2 WHERE k = $1 AND id < 25 RETURNING tableoid::regclass, *;
SET plan_cache_mode = force_generic_plan;
EXECUTE u(1, 'one');
EXECUTE u(2, 'two');
EXECUTE u(3, 'three');
EXECUTE u(4, NULL);
EXECUTE u(5, 'none');
RESET plan_cache_mode;
EXECUTE u(1, 'again');
UPDATE t SET k = k, v = 'same key' WHERE id < 12;
UPDATE t SET k = 3 WHERE k = 3 AND id < 24;
UPDATE t1 SET k = 1, v = 'one' WHERE id < 20;
UPDATE t4 SET k = 4, v = 'four';
DELETE FROM t3 WHERE id < 15;
SELECT * FROM t ORDER BY id;

== a row trigger of one partition writes to another
CREATE TABLE t (k int, id int, n int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, n int;
INSERT INTO t VALUES (0, 1, 0), (0, 2, 0), (1, 3, 0);
CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t1 VALUES (1, 100 + OLD.id, 100); RETURN NEW; END $$;
CREATE TRIGGER more BEFORE UPDATE ON t0 FOR EACH ROW EXECUTE FUNCTION more();
UPDATE t SET n = n + 1;
SELECT * FROM t ORDER BY id;

== savepoints, cursors and what they see
@table t ON s1
    id int, n int
    PRIMARY KEY (id), CHECK (n < 100);
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
BEGIN;
DECLARE before CURSOR FOR SELECT * FROM t ORDER BY id;
UPDATE t SET n = n + 1 WHERE id < 5;
DECLARE between CURSOR FOR SELECT * FROM t WHERE id < 8 ORDER BY id;
FETCH 2 FROM between;
SAVEPOINT s;
DELETE FROM t WHERE id < 4;
SELECT count(*), sum(n) FROM t;
FETCH 3 FROM before;
ROLLBACK TO s;
UPDATE t SET n = -n WHERE id > 15 RETURNING *;
FETCH ALL FROM between;
SAVEPOINT x;
@error 23514
UPDATE t SET n = 100 WHERE id = 6;
ROLLBACK TO x;
SELECT count(*), sum(n) FROM t;
COMMIT;
DO $$ BEGIN INSERT INTO t VALUES (30, 1), (31, 1); UPDATE t SET n = n + 1 WHERE id >= 30; BEGIN UPDATE t SET id = 1 WHERE id = 30; EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', SQLSTATE; END; DELETE FROM t WHERE id = 31; END $$;
DO $$ DECLARE r record; BEGIN FOR r IN SELECT id FROM t ORDER BY id LOOP UPDATE t SET n = n + 1 WHERE id = r.id + 1; DELETE FROM t WHERE id = r.id AND r.id % 4 = 0; END LOOP; END $$;
SELECT * FROM t ORDER BY id;

== rows that wait are written first
@table t ON s1
    id int, n int;
CREATE FUNCTION change(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE total bigint; BEGIN UPDATE t SET n = n + 1 WHERE id < 1000; GET DIAGNOSTICS total = ROW_COUNT; RETURN total; END $$;
INSERT INTO t SELECT g, change(g) FROM generate_series(1, 12) g;
SELECT * FROM t ORDER BY id;

== row security and security barriers
CREATE TABLE t (k int, owner text, n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, owner text, n int;
CREATE FUNCTION leak(n int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'seen %', n; RETURN true; END $$;
INSERT INTO t VALUES (1, 'alice', 1), (1, 'bob', 2), (1, 'alice', 3);
CREATE POLICY own ON t USING (owner = current_user);
CREATE POLICY low ON t AS RESTRICTIVE USING (n < 50);
CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM t1 WHERE owner = 'bob';
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
GRANT ALL ON t, guarded TO alice;
UPDATE guarded SET n = n + 10 WHERE leak(n);
UPDATE guarded SET n = n + 10 WHERE n * 2 > 4;
DELETE FROM guarded WHERE n / 0 > 1 AND owner = 'nobody';
SET ROLE alice;
UPDATE t SET n = n + 1;
@error 42501
UPDATE t SET n = 60 WHERE n = 2;
DELETE FROM t WHERE n = 4 RETURNING *;
RESET ROLE;
SELECT * FROM t ORDER BY n;
