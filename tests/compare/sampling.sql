-- TABLESAMPLE of partitioned tables and inheritance parents. Equal seeds give equal samples of tables with equal pages.

== methods, arguments and seeds
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int, v text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT g % 3, g, repeat('x', 200) FROM generate_series(1, 900) g;
SELECT k, count(*) FROM t TABLESAMPLE BERNOULLI (100) GROUP BY k ORDER BY k;
SELECT k, count(*) FROM t TABLESAMPLE SYSTEM (100) GROUP BY k ORDER BY k;
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0);
SELECT count(*) FROM t TABLESAMPLE SYSTEM (0);
SELECT k, id FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1) ORDER BY id;
SELECT k, id FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1) ORDER BY id;
SELECT k, id FROM t TABLESAMPLE SYSTEM (30) REPEATABLE (7.5) ORDER BY id;
SELECT k, id FROM t TABLESAMPLE pg_catalog.bernoulli (20) REPEATABLE (-2) WHERE id % 5 = 0 AND k < 2 ORDER BY id;
SELECT count(*) BETWEEN 300 AND 600 FROM t TABLESAMPLE BERNOULLI (50);
SELECT max(n) < 300 FROM (SELECT count(*) AS n FROM t TABLESAMPLE BERNOULLI (50) GROUP BY k) s;
SELECT k, id FROM t TABLESAMPLE BERNOULLI (least(length(current_setting('server_encoding')), 7)) REPEATABLE (1) ORDER BY id FOR UPDATE;
PREPARE p (real, float8) AS SELECT k, id FROM t TABLESAMPLE BERNOULLI ($1) REPEATABLE ($2 + 1) ORDER BY id;
EXECUTE p (5, 3);
EXECUTE p (5, 4);
SET plan_cache_mode = force_generic_plan;
EXECUTE p (5, 3);
EXECUTE p (100, 'NaN');
@error 2202H
EXECUTE p (NULL, 1);
@error 2202G
EXECUTE p (1, NULL);
@error 2202H
EXECUTE p (101, 1);
@error 2202H
SELECT count(*) FROM t TABLESAMPLE SYSTEM (-1);
@error 2202H
SELECT count(*) FROM t TABLESAMPLE SYSTEM ((SELECT NULL::real));
@error 22012 loose
SELECT count(*) FROM t TABLESAMPLE SYSTEM (1 / (SELECT 0 FROM t LIMIT 1));

== samples of inheritance trees
CREATE TABLE p (id int, v text);
@table c ON s1
    id int, v text;
ALTER TABLE c INHERIT p;
INSERT INTO p SELECT g, 'p' FROM generate_series(1, 100) g;
INSERT INTO c SELECT g, 'c' FROM generate_series(101, 300) g;
SELECT v, count(*) FROM p TABLESAMPLE BERNOULLI (100) GROUP BY v ORDER BY v;
SELECT id FROM p TABLESAMPLE BERNOULLI (10) REPEATABLE (3) ORDER BY id;
SELECT count(*) FROM p TABLESAMPLE SYSTEM (0);
SELECT count(*) FROM ONLY p TABLESAMPLE SYSTEM (100);

== samples that are read again
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int, v text;
INSERT INTO t SELECT g % 2, g, repeat('x', 100) FROM generate_series(1, 200) g;
CREATE TABLE f (k int, id int);
INSERT INTO f SELECT g % 2, g * 5 FROM generate_series(1, 8) g;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT min(n), max(n) FROM (SELECT t.id, count(*) AS n FROM f, t TABLESAMPLE BERNOULLI (40) WHERE f.id + t.id > random() * 0 GROUP BY t.id) s;
SELECT f.id, t.id FROM f, t TABLESAMPLE BERNOULLI (10) REPEATABLE (5) WHERE f.k = t.k AND f.id < t.id ORDER BY 1, 2;
SELECT count(DISTINCT n) FROM (SELECT (SELECT string_agg(t.id::text, ' ' ORDER BY t.id) FROM t TABLESAMPLE BERNOULLI (50) WHERE t.k >= f.k * 0) AS n FROM f) s;
SELECT f.id, (SELECT count(*) FROM t TABLESAMPLE BERNOULLI (f.id) REPEATABLE (f.k) WHERE t.k = f.k) FROM f ORDER BY id;
SELECT f.id, s.n FROM f, LATERAL (SELECT count(*) AS n FROM t TABLESAMPLE BERNOULLI (f.id) REPEATABLE (f.k)) s ORDER BY id;
SELECT f.id, s.* FROM f, LATERAL (SELECT t.id FROM t TABLESAMPLE BERNOULLI (f.id * 0.1) REPEATABLE (f.k)) s ORDER BY 1, 2;
SELECT (SELECT count(*) FROM t TABLESAMPLE BERNOULLI ((SELECT avg(id) FROM f)) REPEATABLE (2));

== samples in statements that write
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v int;
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int, v int;
INSERT INTO t SELECT g % 2, g, 0 FROM generate_series(1, 200) g;
UPDATE t SET v = 1 WHERE id IN (SELECT id FROM t TABLESAMPLE BERNOULLI (20) REPEATABLE (1));
SELECT v, count(*) FROM t GROUP BY v ORDER BY v;
UPDATE t SET v = t.v + s.v + 1 FROM t AS s TABLESAMPLE SYSTEM (100) REPEATABLE (1) WHERE s.id = t.id + 1;
DELETE FROM t USING t AS s TABLESAMPLE BERNOULLI (30) REPEATABLE (9) WHERE s.id = t.id AND t.v = 1 RETURNING t.id;
INSERT INTO t SELECT k, id + 1000, v FROM t TABLESAMPLE BERNOULLI (100);
SELECT * FROM t ORDER BY id;
DELETE FROM t WHERE id NOT IN (SELECT id FROM t TABLESAMPLE SYSTEM (0));
