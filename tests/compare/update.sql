-- UPDATE, DELETE and TRUNCATE, and UPDATE that moves rows into foreign partitions.

== update and delete by condition
@table t ON s1
    id int, v text, n int
    PRIMARY KEY (id);
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 100) g;
UPDATE t SET n = n + 1000 WHERE id <= 10;
UPDATE t SET v = NULL, n = DEFAULT WHERE id BETWEEN 11 AND 20;
UPDATE t SET v = v || '!' WHERE random() < 2 AND id > 90;
UPDATE t SET n = 0 WHERE false;
DELETE FROM t WHERE id % 7 = 0;
DELETE FROM t WHERE id = 50 AND random() < 2;
DELETE FROM t WHERE v = 'nothing';
SELECT * FROM t ORDER BY id;

== returned rows
@table t ON s1
    id int, v text, n int;
INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 30) g;
UPDATE t SET n = n * 2 WHERE id < 5 RETURNING id, n, v;
UPDATE t SET n = n * 2 WHERE id < 5 AND random() < 2 RETURNING *, tableoid::regclass;
DELETE FROM t WHERE id > 25 RETURNING id, n * 10 AS tens;
DELETE FROM t WHERE id > 20 AND random() < 2 RETURNING t;
WITH u AS (UPDATE t SET v = 'u' WHERE id <= 3 RETURNING id), d AS (DELETE FROM t WHERE id IN (10, 11) RETURNING id) SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM d);
SELECT * FROM t ORDER BY id;

== joined with a local table
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
CREATE TABLE change (id int, v int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 200) g;
INSERT INTO change SELECT g, g * 10 FROM generate_series(1, 200, 2) g;
UPDATE t SET v = c.v FROM change c WHERE c.id = t.id;
UPDATE t SET v = t.v + 1 FROM change c WHERE c.id = t.id AND c.v < 100 RETURNING t.id, t.v, c.v AS new;
DELETE FROM t USING change c WHERE c.id = t.id AND c.v % 30 = 0;
DELETE FROM t USING change c WHERE c.id = t.id AND c.v % 50 = 0 RETURNING t.id, c.v;
UPDATE t SET v = (SELECT max(v) FROM change c WHERE c.id < t.id) WHERE id > 190;
DELETE FROM t WHERE EXISTS (SELECT FROM change c WHERE c.id = t.id + 1) AND id < 30;
DELETE FROM t WHERE id NOT IN (SELECT id FROM change) AND id > 150;
SELECT count(*), sum(v), sum(id) FROM t;

== a target matched twice is changed once
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 20) g;
CREATE TABLE twice AS SELECT g AS id FROM generate_series(1, 10) g, generate_series(1, 2);
UPDATE t SET n = n + 1 FROM twice w WHERE w.id = t.id;
WITH d AS (DELETE FROM t USING twice w WHERE w.id = t.id AND t.id < 6 RETURNING t.id) SELECT count(*), count(DISTINCT id) FROM d;
SELECT * FROM t ORDER BY id;

== joined with another foreign table, of the same shard and of another
@table t ON s1
    id int, v int;
@table u ON s1
    id int, v int;
@table w2 ON s2
    id int, v int;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 50) g;
INSERT INTO u SELECT g, g * 2 FROM generate_series(1, 50, 3) g;
INSERT INTO w2 SELECT g, g * 3 FROM generate_series(1, 50, 5) g;
UPDATE t SET v = u.v FROM u WHERE u.id = t.id;
UPDATE t SET v = t.v + w2.v FROM w2 WHERE w2.id = t.id;
DELETE FROM t USING u, w2 WHERE u.id = t.id AND w2.id = t.id;
UPDATE t SET v = -1 WHERE id IN (SELECT id FROM u WHERE v > 60);
SELECT * FROM t ORDER BY id;

== over the partitions of a table
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    id int, v text, k int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t SELECT 1 + g % 3, g, 'v' || g FROM generate_series(1, 90) g;
UPDATE t SET v = 'few' WHERE id < 10;
UPDATE t SET v = v || '+' WHERE id > 80 AND random() < 2;
UPDATE t SET v = 'one' WHERE k = 1 AND id < 20;
DELETE FROM t WHERE id % 10 = 0;
DELETE FROM t WHERE k = 2 AND id > 70 RETURNING *;
UPDATE t SET id = id + 1000 WHERE id BETWEEN 40 AND 50 RETURNING k, id, tableoid::regclass;
SELECT k, count(*), sum(id), string_agg(v, ',' ORDER BY id) FROM t GROUP BY k ORDER BY k;

== a constraint of the shard
@table t ON s1
    id int, v int
    PRIMARY KEY (id), CHECK (v < 100);
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
@error 23514
UPDATE t SET v = v + 90;
@error 23514
UPDATE t SET v = v + 90 WHERE random() < 2;
@error 23505
UPDATE t SET id = 1 WHERE id = 2;
UPDATE t SET v = v + 79;
SELECT sum(v) FROM t;

== rows move from a local leaf into foreign ones
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    v int, k int;
INSERT INTO t SELECT 0, g FROM generate_series(1, 60) g;
INSERT INTO t VALUES (1, 1000), (2, 2000);
UPDATE t SET k = 1 WHERE k = 0 AND v <= 10;
UPDATE t SET k = 1 + v % 2, v = v + 100 WHERE k = 0 AND v <= 20;
UPDATE t SET k = 2 WHERE k = 0 AND v <= 25 RETURNING *;
UPDATE t0 SET v = v + 1 WHERE v > 55;
UPDATE t SET k = v % 2 WHERE k = 0 AND v > 50;
SELECT k, count(*), sum(v) FROM t GROUP BY k ORDER BY k;

== a foreign leaf as source and destination
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
INSERT INTO t VALUES (0, 10), (0, 11), (0, 12), (1, 20), (1, 21);
UPDATE t SET k = 1, v = v + 1;
SELECT * FROM t ORDER BY v;
INSERT INTO t SELECT 0, 100 + g FROM generate_series(1, 30) g;
UPDATE t SET k = 1, v = v + 1 WHERE v > 11 AND random() < 2;
SELECT * FROM t ORDER BY v;

== moved rows that a shard refuses
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int
    PRIMARY KEY (v);
INSERT INTO t SELECT 0, g FROM generate_series(1, 10) g;
INSERT INTO t VALUES (1, 5);
@error 23505
UPDATE t SET k = 1 WHERE k = 0;
UPDATE t SET k = 1 WHERE k = 0 AND v <> 5;
SELECT * FROM t ORDER BY k, v;

== truncate
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, v int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
@table u ON s1
    k int;
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 30) g;
INSERT INTO u SELECT generate_series(1, 10);
TRUNCATE t1;
SELECT count(*) FROM t;
BEGIN;
INSERT INTO t VALUES (1, 1), (2, 2);
TRUNCATE t, u;
SELECT count(*) FROM t;
SELECT count(*) FROM u;
ROLLBACK;
SELECT count(*) FROM t;
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 30) g;
TRUNCATE t, u;
SELECT count(*) FROM t;
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 30) g;

== locking clauses
@table t ON s1
    id int, v int;
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
BEGIN;
SELECT * FROM t WHERE id < 4 FOR UPDATE;
SELECT * FROM t WHERE id > 8 FOR SHARE;
SELECT * FROM t WHERE id = 5 FOR NO KEY UPDATE;
UPDATE t SET v = v + 1 WHERE id < 4;
COMMIT;
SELECT * FROM t ORDER BY id;
