-- Prepared statements, generic plans and plans that must be made again.

== prepared statements with custom and generic plans
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (1)
    v text, k int, id int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
PREPARE one (int, text) AS INSERT INTO t VALUES ($1 % 3, $1, $2);
PREPARE many (int, int) AS INSERT INTO t SELECT g % 3, g, 'many' FROM generate_series($1, $2) g;
PREPARE back (int) AS INSERT INTO t SELECT g % 3, $1 + g, 'back' FROM generate_series(1, 5) g RETURNING *;
PREPARE look (int) AS SELECT * FROM t WHERE id = $1;
PREPARE change (text, int) AS UPDATE t SET v = $1 WHERE id = $2;
PREPARE gone (int) AS DELETE FROM t WHERE id < $1;
EXECUTE one (1, 'a');
EXECUTE one (2, 'b');
EXECUTE many (10, 30);
EXECUTE many (40, 39);
EXECUTE back (100);
SET plan_cache_mode = force_generic_plan;
EXECUTE one (3, NULL);
EXECUTE one (4, 'd');
EXECUTE many (50, 75);
EXECUTE back (200);
EXECUTE look (1);
EXECUTE look (4);
EXECUTE change ('changed', 2);
EXECUTE gone (2);
DISCARD PLANS;
EXECUTE one (5, 'e');
EXECUTE many (80, 85);
EXECUTE look (5);
ALTER TABLE t ADD COLUMN extra int DEFAULT 9;
@remote s1
ALTER TABLE t1 ADD COLUMN extra int DEFAULT 9;
@remote s2
ALTER TABLE t2 ADD COLUMN extra int DEFAULT 9;
EXECUTE one (6, 'f');
EXECUTE many (90, 95);
SELECT k, count(*), sum(id), sum(extra) FROM t GROUP BY k ORDER BY k;

== statements of a function, often enough to become generic
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
CREATE FUNCTION put(i int, s text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
    INSERT INTO t VALUES (i, s), (-i, s);
    UPDATE t SET v = v || '!' WHERE id = i RETURNING v INTO r;
    DELETE FROM t WHERE id = -i;
    RETURN r || (SELECT count(*) FROM t WHERE id <= i);
END $$;
SELECT put(g, 's' || g) FROM generate_series(1, 12) g;
@error 23505
SELECT put(5, 'again');
SELECT put(g, 't' || g) FROM generate_series(21, 23) g;
SELECT * FROM t ORDER BY id;

== a table that changes below a plan
@table t ON s1
    id int, v text;
PREPARE add (int) AS INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, $1) g;
SET plan_cache_mode = force_generic_plan;
EXECUTE add (9);
ALTER TABLE t ALTER v TYPE varchar(3);
@remote s1
ALTER TABLE t ALTER v TYPE varchar(3);
EXECUTE add (9);
@error 22001 loose
EXECUTE add (100);
ALTER TABLE t DROP COLUMN v;
ALTER TABLE t ADD COLUMN v text;
@remote s1
ALTER TABLE t DROP COLUMN v;
@remote s1
ALTER TABLE t ADD COLUMN v text;
EXECUTE add (100);
SELECT count(*), count(v) FROM t;

== pruned partitions
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, v int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 60) g;
PREPARE u (int, int) AS UPDATE t SET v = v + $2 WHERE k = $1;
PREPARE d (int) AS DELETE FROM t WHERE k = $1 AND v % 2 = 0 RETURNING *;
PREPARE s (int) AS SELECT count(*), sum(v) FROM t WHERE k = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE u (1, 1000);
EXECUTE u (2, 2000);
EXECUTE u (3, 3000);
EXECUTE u (4, 1);
EXECUTE d (2);
EXECUTE d (3);
EXECUTE s (1);
EXECUTE s (2);
EXECUTE s (3);

== explain does nothing
@table t ON s1
    id int;
@local
EXPLAIN (COSTS off) INSERT INTO t SELECT generate_series(1, 10);
@foreign
EXPLAIN (COSTS off) INSERT INTO t SELECT generate_series(1, 10);
SELECT count(*) FROM t;
@local
EXPLAIN (ANALYZE, COSTS off) INSERT INTO t SELECT generate_series(1, 10);
@foreign
EXPLAIN (ANALYZE, COSTS off) INSERT INTO t SELECT generate_series(1, 10);
SELECT count(*) FROM t;
