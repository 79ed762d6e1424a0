-- COPY FROM into a foreign table and into a partitioned table: formats, counts, conditions, errors.

== text format
@table t ON s1
    id int, v text, n numeric;
COPY t FROM STDIN;
1	a	1.5
2	\N	\N
3		0
4	tab\there	-7
5	back\\slash	1e3
6	line\nbreak	2
\.
COPY t (v, id) FROM STDIN (DELIMITER ',', NULL 'none');
seven,7
none,8
nine,9
\.
COPY t FROM STDIN;
\.
SELECT * FROM t ORDER BY id;

== csv format
@table t ON s1
    id int, v text, d date;
COPY t FROM STDIN (FORMAT csv);
1,a,2024-02-29
2,"with, comma",
3,"quote "" inside",0001-01-01
4,"two
lines",infinity
5,,
6,"",2024-01-01
\.
COPY t FROM STDIN (FORMAT csv, HEADER, DELIMITER ';');
id;v;d
7;seven;2024-07-07
8;;
\.
COPY t (v, id) FROM STDIN (FORMAT csv, QUOTE '''', NULL 'nil', FORCE_NOT_NULL (v));
'it''s',9
nil,10
\.
COPY t FROM STDIN WITH CSV HEADER;
id,v,d
\.
SELECT * FROM t ORDER BY id;

== a header that must match
@table t ON s1
    id int, v text;
COPY t FROM STDIN (FORMAT csv, HEADER MATCH);
id,v
1,a
2,b
\.
@error 22P04
COPY t FROM STDIN (FORMAT csv, HEADER MATCH);
v,id
a,1
\.
SELECT count(*) FROM t;

== binary format
@table t ON s1
    id int, v text, n numeric, a int[], ts timestamptz;
@feed COPY t FROM STDIN (FORMAT binary)
COPY (SELECT g, 'v' || g, g / 7.0, ARRAY[g, NULL], timestamptz '2024-01-01 00:00+00' + g * interval '1 hour' FROM generate_series(1, 50) g) TO STDOUT (FORMAT binary);
@feed COPY t (n, id) FROM STDIN (FORMAT binary)
COPY (SELECT NULL::numeric, g FROM generate_series(100, 110) g) TO STDOUT (FORMAT binary);
@feed COPY t FROM STDIN (FORMAT binary)
COPY (SELECT 1, 'x', 1::numeric, ARRAY[1], now() WHERE false) TO STDOUT (FORMAT binary);
SELECT count(*), count(v), sum(n), sum(a[1]), max(ts) FROM t;

== many rows through a partitioned table
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t0 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text;
@table t1 ON s2 OF t FOR VALUES IN (1)
    v text, k int, id int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
@table t3 ON s1 OF t DEFAULT
    k int, id int, v text;
@feed COPY t FROM STDIN
COPY (SELECT g % 5, g, repeat('x', g % 50) FROM generate_series(1, 1203) g) TO STDOUT;
@feed COPY t (id, k) FROM STDIN (FORMAT csv)
COPY (SELECT g, g % 3 FROM generate_series(1, 1000) g) TO STDOUT (FORMAT csv);
@feed COPY t1 FROM STDIN
COPY (SELECT 'named', 1, g FROM generate_series(1, 999) g) TO STDOUT;
SELECT k, count(*), sum(id), sum(length(v)) FROM t GROUP BY k ORDER BY k;

== with a condition
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
@table u ON s1
    k int, v int;
COPY t FROM STDIN WHERE v > 2;
1	1
1	2
1	3
2	1
2	4
1	5
\.
COPY u FROM STDIN WHERE k = 1 AND v % 2 = 0;
1	1
1	2
2	2
1	4
\.
COPY u FROM STDIN WHERE false;
1	1
\.
SELECT * FROM t ORDER BY k, v;

== defaults and generated columns
CREATE SEQUENCE ids;
@table t ON s1
    id int, v text DEFAULT 'd', twice int GENERATED ALWAYS AS (id * 2) STORED;
ALTER TABLE t ALTER id SET DEFAULT nextval('w.ids');
COPY t (v) FROM STDIN;
a
b
c
\.
COPY t (id) FROM STDIN;
100
101
\.
SELECT * FROM t ORDER BY id;

== a broken line
@table t ON s1
    id int, v int;
CREATE TABLE p (k int, v int) PARTITION BY LIST (k);
@table p1 ON s1 OF p FOR VALUES IN (1)
    k int, v int;
INSERT INTO t VALUES (1, 1);
@error 22P02
COPY t FROM STDIN;
2	2
3	3
4	x
5	5
\.
@error 22P04
COPY t FROM STDIN;
2	2
3
\.
@error 23514
COPY p FROM STDIN;
1	1
1	2
2	3
\.
COPY p FROM STDIN;
1	1
\.
SELECT count(*) FROM t;

== inside a transaction with savepoints
@table t ON s1
    id int
    PRIMARY KEY (id);
BEGIN;
COPY t FROM STDIN;
1
2
\.
SAVEPOINT a;
COPY t FROM STDIN;
3
4
\.
SELECT count(*) FROM t;
ROLLBACK TO a;
COPY t FROM STDIN;
5
\.
SAVEPOINT b;
@error 23505 loose
COPY t FROM STDIN;
6
1
7
\.
ROLLBACK TO b;
SELECT count(*) FROM t;
COMMIT;
SELECT * FROM t ORDER BY id;

== as the first command of a connection
@table t ON s1
    id int, v text;
COPY t FROM STDIN;
1	a
2	b
3	c
\.

== copied out
CREATE TABLE t (k int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v text;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT 1 + g % 2, 'v' || g FROM generate_series(1, 50) g;
COPY (SELECT * FROM t ORDER BY v) TO STDOUT;
COPY (INSERT INTO t SELECT 1, 'r' || g FROM generate_series(1, 20) g RETURNING k, v) TO STDOUT;
COPY (SELECT k, count(*) FROM t GROUP BY k) TO STDOUT (FORMAT csv);
