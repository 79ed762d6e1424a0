-- Reading a table while it is written: a scan sees what its snapshot says, whatever the batch size.

== a table grows from itself
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s1 OF t FOR VALUES IN (2)
    k int, v int;
@table t3 ON s2 OF t FOR VALUES IN (3)
    k int, v int;
INSERT INTO t SELECT 1, g FROM generate_series(1, 250) g;
INSERT INTO t SELECT 3 - k, v + 1000 FROM t;
INSERT INTO t SELECT 1 + v % 3, v + 10000 FROM t;
INSERT INTO t SELECT 1 + (v + 1) % 3, v + 100000 FROM t WHERE v % 7 = 0;
INSERT INTO t1 SELECT 1, v FROM t2;
INSERT INTO t1 SELECT * FROM t1;
SELECT k, count(*), sum(v), max(v) FROM t GROUP BY k ORDER BY k;

== more rows than a fetch brings
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 1234);
INSERT INTO t SELECT id + 10000 FROM t;
INSERT INTO t SELECT id + 100000 FROM t WHERE id < 5000 RETURNING id % 2;
SELECT count(*), sum(id) FROM t;

== joins and subqueries of the target
@table t ON s1
    id int, v int;
CREATE TABLE l (id int);
INSERT INTO l SELECT generate_series(1, 60);
INSERT INTO t SELECT g, g FROM generate_series(1, 40, 3) g;
INSERT INTO t SELECT l.id, -1 FROM l WHERE NOT EXISTS (SELECT FROM t WHERE t.id = l.id);
INSERT INTO t SELECT l.id + 100, t.v FROM l JOIN t ON t.id = l.id;
INSERT INTO t SELECT a.id + b.id, 0 FROM t a, t b WHERE a.id = b.id AND a.v > 0;
INSERT INTO t SELECT (SELECT max(id) FROM t) + g, (SELECT count(*) FROM t) FROM generate_series(1, 15) g;
SELECT count(*), sum(id), sum(v) FROM t;

== nested loops that scan the target again and again
@table t ON s1
    id int, v int;
CREATE TABLE l (id int);
INSERT INTO l SELECT generate_series(1, 25);
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
INSERT INTO t SELECT l.id + 100, t.id FROM l JOIN t ON t.id <= l.id;
INSERT INTO t SELECT l.id, (SELECT count(*) FROM t WHERE t.id < l.id) FROM l;
INSERT INTO t SELECT l.id, x.n FROM l, LATERAL (SELECT count(*) AS n FROM t WHERE t.v = l.id) x;
SELECT count(*), sum(id), sum(v) FROM t;

== a cursor keeps to its snapshot
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 30);
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 5 FROM c;
INSERT INTO t SELECT generate_series(101, 140);
FETCH 5 FROM c;
DELETE FROM t WHERE id > 25;
FETCH ALL FROM c;
SELECT count(*) FROM t;
CLOSE c;
DECLARE late CURSOR FOR SELECT id FROM t;
INSERT INTO t SELECT generate_series(201, 210);
FETCH ALL FROM late;
COMMIT;
SELECT count(*) FROM t;

== cursors and savepoints
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 300);
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 3 FROM c;
SAVEPOINT a;
FETCH 2 FROM c;
INSERT INTO t SELECT generate_series(1001, 1020);
FETCH 2 FROM c;
ROLLBACK TO a;
FETCH 2 FROM c;
INSERT INTO t SELECT generate_series(2001, 2010);
SAVEPOINT b;
DECLARE d CURSOR FOR SELECT id FROM t WHERE id > 100;
FETCH 1 FROM d;
ROLLBACK TO b;
@error 34000
FETCH 1 FROM d;
ROLLBACK TO b;
FETCH ALL FROM c;
COMMIT;
SELECT count(*) FROM t;

== a cursor that outlives its transaction
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 20);
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t;
INSERT INTO t SELECT generate_series(101, 110);
COMMIT;
INSERT INTO t SELECT generate_series(201, 210);
FETCH ALL FROM c;
CLOSE c;

== a cursor that goes back
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 12);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t;
FETCH 4 FROM c;
INSERT INTO t SELECT generate_series(101, 110);
FETCH BACKWARD 2 FROM c;
FETCH ALL FROM c;
FETCH FIRST FROM c;
FETCH LAST FROM c;
MOVE ABSOLUTE 0 IN c;
FETCH ALL FROM c;
COMMIT;

== a loop over a table that it writes
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s1 OF t FOR VALUES IN (2)
    k int, v int;
INSERT INTO t SELECT 1 + g % 2, g FROM generate_series(1, 130) g;
DO $$
DECLARE r record; n int := 0;
BEGIN
    FOR r IN SELECT * FROM t LOOP
        n := n + 1;
        INSERT INTO t VALUES (3 - r.k, r.v + 1000), (r.k, r.v + 2000);
        IF r.v % 10 = 0 THEN DELETE FROM t WHERE v = r.v; END IF;
    END LOOP;
    RAISE NOTICE '% rows read, % there', n, (SELECT count(*) FROM t);
    n := 0;
    FOR r IN SELECT * FROM t1 WHERE v < 1000 LOOP
        n := n + 1;
        UPDATE t SET v = v + 1 WHERE k = 1 AND v = r.v;
    END LOOP;
    RAISE NOTICE '% rows changed', n;
END $$;
SELECT k, count(*), sum(v) FROM t GROUP BY k ORDER BY k;

== a loop with a block for each row it reads
@table t ON s1
    id int
    PRIMARY KEY (id);
INSERT INTO t SELECT generate_series(1, 120);
DO $$
DECLARE r record; n int := 0;
BEGIN
    FOR r IN SELECT id FROM t LOOP
        BEGIN
            INSERT INTO t VALUES (r.id + 1000), (r.id % 30 + 1200);
        EXCEPTION WHEN unique_violation THEN
            n := n + 1;
        END;
    END LOOP;
    RAISE NOTICE '% caught', n;
END $$;
SELECT count(*), sum(id) FROM t;

== parts of one statement do not see each other
@table t ON s1
    id int, v int;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g;
WITH x AS (INSERT INTO t SELECT g, 1 FROM generate_series(11, 20) g) SELECT count(*) FROM t;
WITH x AS (INSERT INTO t SELECT g, 2 FROM generate_series(21, 30) g RETURNING *) SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM x);
WITH x AS (DELETE FROM t WHERE id <= 5 RETURNING *) INSERT INTO t SELECT id + 100, (SELECT count(*) FROM t) FROM x;
WITH x AS (UPDATE t SET v = v + 10 WHERE id > 15 RETURNING id) SELECT count(*), sum(t.v) FROM t JOIN x USING (id);
WITH x AS (INSERT INTO t SELECT g, 3 FROM generate_series(31, 35) g RETURNING id) UPDATE t SET v = -1 WHERE id IN (SELECT id FROM x) OR id = 6;
WITH x AS (INSERT INTO t SELECT g, 4 FROM generate_series(41, 45) g) DELETE FROM t WHERE id > 28;
SELECT * FROM t ORDER BY id;

== a portal run in steps
@table t ON s1
    id int;
BEGIN;
DECLARE c CURSOR FOR SELECT g, (SELECT count(*) FROM t) FROM generate_series(1, 6) g;
FETCH 2 FROM c;
INSERT INTO t SELECT generate_series(1, 10);
FETCH ALL FROM c;
COMMIT;

== update and delete of a table that is read as well
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s1 OF t FOR VALUES IN (2)
    k int, v int;
INSERT INTO t SELECT 1 + g % 2, g FROM generate_series(1, 120) g;
UPDATE t SET v = v + 1000 WHERE v < 60 AND random() < 2;
UPDATE t SET v = t.v + (SELECT count(*) FROM t x WHERE x.v > 1000) WHERE v > 1050;
DELETE FROM t WHERE v IN (SELECT x.v + 1 FROM t x WHERE x.v % 3 = 0);
UPDATE t SET v = 0 WHERE v = (SELECT max(v) FROM t);
SELECT k, count(*), sum(v) FROM t GROUP BY k ORDER BY k;

== an UPDATE goes on reading after savepoints of its functions have been undone
@table t ON s1
    id int, n int;
@table log ON s1
    id int;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 350) g;
CREATE FUNCTION refused(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (i);
    IF i % 50 = 0 THEN
        RAISE EXCEPTION 'refused';
    END IF;
    RETURN i;
EXCEPTION WHEN raise_exception THEN
    RETURN -i;
END $$;
UPDATE t SET n = refused(id);
SELECT count(*), sum(n) FROM t;
DELETE FROM t WHERE refused(id) < 0;
SELECT count(*), sum(n), (SELECT count(*) FROM log) FROM t;
