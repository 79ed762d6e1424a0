-- Rows outside of the bound of their partition.

== a leaf that is named directly
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1, 2)
    k int, id int, v text;
@table t3 ON s2 OF t FOR VALUES IN (3)
    v text, id int, k int;
INSERT INTO t1 VALUES (1, 1, 'a'), (2, 2, 'b');
INSERT INTO t3 (k, id, v) VALUES (3, 3, 'c');
@error 23514
INSERT INTO t1 VALUES (1, 4, 'd'), (3, 5, 'e');
@error 23514
INSERT INTO t3 (k, id, v) SELECT g, g, 'x' FROM generate_series(3, 5) g;
@error 23514
INSERT INTO t3 (id) VALUES (6);
@error 23514
UPDATE t1 SET k = 3 WHERE id = 1;
@error 23514
UPDATE t1 SET k = k + 1 WHERE random() < 2;
@error 23514
UPDATE t1 SET k = NULL, v = 'n' WHERE id = 2 AND random() < 2 RETURNING *;
UPDATE t1 SET k = 3 - k, v = v || '!' WHERE random() < 2;
UPDATE t3 SET id = id + 1, v = 'new' WHERE random() < 2;
UPDATE t1 SET k = 3 WHERE false;
SELECT tableoid::regclass, k, id, v FROM t ORDER BY id;

== copy into a leaf
CREATE TABLE t (k int, id int) PARTITION BY RANGE (k);
@table t1 ON s1 OF t FOR VALUES FROM (0) TO (10)
    id int, k int;
COPY t1 (k, id) FROM STDIN;
1	1
9	2
\.
@error 23514 loose
COPY t1 (k, id) FROM STDIN;
2	3
10	4
3	5
\.
@error 23514 loose
COPY t1 (id) FROM STDIN;
6
\.
SELECT * FROM t ORDER BY id;

== leaves below several levels
CREATE TABLE t (a int, b text, c int, v int) PARTITION BY LIST (a);
CREATE TABLE t1 (b text, a int, v int, c int) PARTITION BY RANGE (c);
ALTER TABLE t ATTACH PARTITION t1 FOR VALUES IN (1);
CREATE TABLE t11 (v int, c int, a int, b text) PARTITION BY LIST (b);
ALTER TABLE t1 ATTACH PARTITION t11 FOR VALUES FROM (0) TO (100);
@table leaf ON s1 OF t11 FOR VALUES IN ('x', 'y')
    c int, a int, b text, v int;
INSERT INTO t VALUES (1, 'x', 5, 1), (1, 'y', 6, 2);
INSERT INTO leaf (a, b, c, v) VALUES (1, 'x', 99, 3);
@error 23514
INSERT INTO leaf (a, b, c, v) VALUES (2, 'x', 5, 4);
@error 23514
INSERT INTO leaf (a, b, c, v) VALUES (1, 'z', 5, 4);
@error 23514
INSERT INTO leaf (a, b, c, v) VALUES (1, 'x', 100, 4);
@error 23514
INSERT INTO t11 (a, b, c, v) VALUES (1, 'x', 100, 4);
@error 23514
UPDATE leaf SET a = 2 WHERE v = 1 AND random() < 2;
@error 23514
UPDATE leaf SET c = c + 94 WHERE random() < 2;
@error 23514
UPDATE leaf SET b = 'z' WHERE v = 2;
@error 23514 loose
UPDATE t SET a = 7 WHERE v = 2;
UPDATE leaf SET b = 'x', c = c - 1, v = v + 10 WHERE random() < 2;
COPY leaf (a, b, c, v) FROM STDIN;
1	y	50	7
\.
@error 23514 loose
COPY leaf (a, b, c, v) FROM STDIN;
1	y	50	8
1	y	-1	9
\.
SELECT * FROM t ORDER BY v;

== rows that triggers change
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int;
INSERT INTO t VALUES (1, 1), (1, 2), (2, 3);
CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 10 = 0 THEN NEW.k := NEW.k % 2 + 1; END IF; NEW.id := NEW.id + 1000; RETURN NEW; END $$;
CREATE TRIGGER shift BEFORE INSERT OR UPDATE ON t1 FOR EACH ROW EXECUTE FUNCTION shift();
CREATE TRIGGER shift BEFORE INSERT OR UPDATE ON t2 FOR EACH ROW EXECUTE FUNCTION shift();
INSERT INTO t VALUES (1, 4), (2, 5);
@error 23514 loose
INSERT INTO t VALUES (1, 6), (2, 10);
@error 23514 loose
INSERT INTO t1 VALUES (1, 20);
UPDATE t1 SET id = 7 WHERE id = 1;
@error 23514 loose
UPDATE t1 SET id = 30 WHERE id = 2;
INSERT INTO t2 VALUES (1, 40);
@error 23514 loose
COPY t FROM STDIN;
1	8
1	50
\.
SELECT * FROM t ORDER BY id;

== other kinds of bounds
CREATE TABLE h (id int, v int) PARTITION BY HASH (id);
@table h0 ON s1 OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0)
    id int, v int;
@table h1 ON s2 OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1)
    id int, v int;
INSERT INTO h SELECT g, g FROM generate_series(1, 20) g;
@error 23514
INSERT INTO h0 SELECT g, g FROM generate_series(21, 40) g;
@error 23514
UPDATE h1 SET id = id + 1 WHERE random() < 2;
UPDATE h0 SET v = id WHERE random() < 2;
CREATE TABLE e (a int, b int, v int) PARTITION BY RANGE ((a + b));
@table e0 ON s1 OF e FOR VALUES FROM (MINVALUE) TO (10)
    a int, b int, v int;
@table ed ON s2 OF e DEFAULT
    a int, b int, v int;
INSERT INTO e VALUES (1, 2, 0), (4, 5, 0), (6, 6, 0), (NULL, 1, 0);
UPDATE e0 SET a = b, b = a, v = 1 WHERE random() < 2;
@error 23514
UPDATE e0 SET b = b + 7 WHERE random() < 2;
@error 23514
UPDATE ed SET a = 1, b = 1 WHERE v = 0 AND random() < 2;
@error 23514
INSERT INTO ed VALUES (1, 1, 5);
SELECT * FROM e ORDER BY 1, 2;

== an error is caught and the rest goes on
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
INSERT INTO t SELECT 1, g FROM generate_series(1, 20) g;
BEGIN;
UPDATE t1 SET id = id + 100 WHERE random() < 2;
SAVEPOINT s;
@error 23514
UPDATE t1 SET k = 1 + (id > 115)::int WHERE random() < 2;
ROLLBACK TO s;
@error 23514
INSERT INTO t1 SELECT 1 + (g > 8)::int, g FROM generate_series(1, 9) g;
ROLLBACK TO s;
INSERT INTO t1 VALUES (1, 500);
COMMIT;
SELECT count(*), sum(id), max(k) FROM t;
