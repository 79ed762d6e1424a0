-- Rows that an UPDATE moves out of foreign partitions.

== between foreign leaves and local ones
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    v text, id int, k int;
CREATE TABLE t3 (id int, k int, v text, n int GENERATED ALWAYS AS (id * 2) STORED);
ALTER TABLE t3 DROP COLUMN n;
ALTER TABLE t ATTACH PARTITION t3 FOR VALUES IN (3);
CREATE INDEX ON t3 (id);
@table t4 ON s1 OF t FOR VALUES IN (4)
    id int, v text, k int;
INSERT INTO t SELECT 1 + g % 4, g, 'v' || g FROM generate_series(1, 80) g;
UPDATE t SET k = 2 WHERE k = 1 AND id <= 20;
UPDATE t SET k = 3, v = v || '!' WHERE k = 2 AND random() < 2 AND id % 3 = 0;
UPDATE t SET k = 4 WHERE k = 1;
UPDATE t SET k = 1 WHERE k = 4 AND id > 40 AND random() < 2;
UPDATE t SET k = 1 + id % 4, id = id + 1000 WHERE id % 5 = 0;
UPDATE t SET k = 5 - k WHERE random() < 2;
@error 23514 loose
UPDATE t SET k = k + 10 WHERE id < 30;
@error 23514 loose
UPDATE t SET k = NULL WHERE k = 1 AND random() < 2;
UPDATE t SET k = 3 WHERE false;
SET enable_seqscan = off;
SELECT v FROM t3 WHERE id = 12;
RESET enable_seqscan;
SELECT tableoid::regclass, * FROM t ORDER BY id;

== by joins that match a row more than once
CREATE TABLE t (k int, id int, n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, n int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, n int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t SELECT 1 + g % 3, g, 0 FROM generate_series(1, 30) g;
CREATE TABLE m AS SELECT g AS id FROM generate_series(1, 30, 2) g, generate_series(1, 3);
UPDATE t SET k = t.k % 3 + 1, n = n + 1 FROM m WHERE m.id = t.id;
UPDATE t SET k = t.k % 2 + 1, n = n + 1 FROM m WHERE m.id = t.id AND t.k < 3;
SELECT * FROM t ORDER BY id;

== below several levels
CREATE TABLE t (a int, b int, v int) PARTITION BY LIST (a);
CREATE TABLE s1 (b int, v int, a int) PARTITION BY RANGE (b);
ALTER TABLE t ATTACH PARTITION s1 FOR VALUES IN (1);
@table s11 ON s1 OF s1 FOR VALUES FROM (0) TO (10)
    v int, a int, b int;
@table s12 ON s2 OF s1 FOR VALUES FROM (10) TO (20)
    a int, b int, v int;
CREATE TABLE s13 PARTITION OF s1 FOR VALUES FROM (20) TO (30);
@table t2 ON s2 OF t DEFAULT
    b int, a int, v int;
INSERT INTO t SELECT 1, g, g FROM generate_series(0, 29) g;
UPDATE t SET b = b + 10 WHERE b < 20;
UPDATE s1 SET b = b - 5 WHERE b % 3 = 0;
UPDATE t SET a = 7 WHERE v < 4;
@error 23514
UPDATE s1 SET a = 2 WHERE v = 6;
@error 23514 loose
UPDATE s1 SET b = 50 WHERE v = 7 AND random() < 2;
UPDATE t SET a = 1, b = v WHERE a = 7 AND random() < 2;
SELECT tableoid::regclass, * FROM t ORDER BY v;

== what a local leaf checks and computes
CREATE TABLE t (k int, id int, n int, d int GENERATED ALWAYS AS (n * 2) STORED) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, n int, d int GENERATED ALWAYS AS (n * 2) STORED;
CREATE TABLE t2 PARTITION OF t (n NOT NULL, CHECK (n < 100)) FOR VALUES IN (2);
CREATE UNIQUE INDEX ON t2 (id);
INSERT INTO t VALUES (1, 1, 1), (1, 2, NULL), (1, 3, 500), (2, 4, 4), (1, 4, 7), (1, 6, 8);
UPDATE t SET k = 2, n = n + 10 WHERE id = 1;
@error 23502
UPDATE t SET k = 2 WHERE id = 2;
@error 23514
UPDATE t SET k = 2 WHERE id = 3;
@error 23505
UPDATE t SET k = 2 WHERE k = 1 AND id = 4;
BEGIN;
UPDATE t SET k = 2 WHERE id = 6;
SAVEPOINT a;
@error 23505
UPDATE t SET k = 2, id = 1 WHERE k = 1 AND id = 4;
ROLLBACK TO a;
UPDATE t SET k = 1 WHERE id = 6 AND random() < 2;
COMMIT;
SELECT * FROM t ORDER BY id, k;

== refused by the shard, or not there any more
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int
    PRIMARY KEY (id), CHECK (id < 100);
INSERT INTO t SELECT 1, g FROM generate_series(1, 20) g;
INSERT INTO t VALUES (2, 10), (1, 100);
@on s1
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.id % 4 = 0 THEN RETURN NULL; END IF; RETURN OLD; END $$;
@on s1
CREATE TRIGGER keep BEFORE DELETE ON t1 FOR EACH ROW WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION keep();
@error 23505
UPDATE t SET k = 2 WHERE id < 12 AND k = 1;
@on s1
DROP TRIGGER keep ON t1;
@error 23514
UPDATE t SET k = 2, id = id + 1 WHERE id = 100 - 1 + 1;
UPDATE t SET k = 2 WHERE id BETWEEN 11 AND 14;
SELECT * FROM t ORDER BY id, k;

== counts, functions, row security
CREATE TABLE t (k int, id int, who text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, who text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, who text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t SELECT 1 + g % 3, g, CASE g % 2 WHEN 0 THEN 'alice' ELSE 'bob' END FROM generate_series(1, 36) g;
DO $$ DECLARE n bigint; BEGIN UPDATE t SET k = k % 3 + 1 WHERE id < 20; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n; END $$;
WITH m AS (UPDATE t SET k = 3 WHERE k = 1 AND random() < 2) UPDATE t SET id = id + 100 WHERE k = 2 AND random() < 2;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON t USING (who = 'alice') WITH CHECK (who = 'alice' AND id < 130);
GRANT ALL ON t TO alice;
SET ROLE alice;
UPDATE t SET k = 1 WHERE id < 20;
@error 42501
UPDATE t SET k = 2, id = 500 WHERE k = 3;
@error 42501
UPDATE t SET k = 3, id = 500 WHERE k = 1 AND random() < 2;
UPDATE t SET k = 2 WHERE k = 1;
RESET ROLE;
SELECT * FROM t ORDER BY id, k;

== rows found by key
CREATE TABLE t (k int, id int, n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, n int
    PRIMARY KEY (id);
@foreign
ALTER FOREIGN TABLE t1 ALTER id OPTIONS (ADD key 'true');
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, n int;
INSERT INTO t SELECT 1 + g % 2, g, g FROM generate_series(1, 30) g;
CREATE TABLE m AS SELECT g AS id FROM generate_series(1, 30, 3) g, generate_series(1, 3);
UPDATE t SET k = 2, n = n + 1 WHERE id <= 10 AND random() < 2;
UPDATE t SET k = 3 - t.k, n = n + 100 FROM m WHERE m.id = t.id;
UPDATE t SET k = 3 - k, id = id + 50 WHERE id > 20 AND random() < 2;
SELECT * FROM t ORDER BY id;
