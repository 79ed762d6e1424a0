-- Columns that are not where, what or how they are called on the shard.

== stored generated columns
@table t ON s1
    id int, twice int GENERATED ALWAYS AS (id * 2) STORED, v text, upper text GENERATED ALWAYS AS (upper(v)) STORED;
INSERT INTO t (id, v) VALUES (1, 'a'), (2, NULL), (3, 'c');
INSERT INTO t (id, v) SELECT g, 'g' || g FROM generate_series(10, 40) g;
INSERT INTO t (v, id) VALUES ('r', 50), ('s', 51) RETURNING *;
UPDATE t SET id = id + 100, v = v || '!' WHERE id < 3;
UPDATE t SET id = id + 100 WHERE id = 3 AND random() < 2 RETURNING id, twice;
@error 428C9
INSERT INTO t (id, twice) VALUES (1, 2);
SELECT * FROM t ORDER BY id;

== generated columns in a partition
CREATE TABLE t (k int, v int, sum int GENERATED ALWAYS AS (k + v) STORED) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v int, k int, sum int GENERATED ALWAYS AS (k + v) STORED;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t (k, v) SELECT 1 + g % 2, g FROM generate_series(1, 30) g;
COPY t (v, k) FROM STDIN;
100	1
101	2
102	1
\.
SELECT k, count(*), sum(v), sum(sum) FROM t GROUP BY k ORDER BY k;

== dropped columns
@table t ON s1
    gone int, a text, gone2 bytea, b int, gone3 text, c timestamptz;
ALTER TABLE t DROP COLUMN gone, DROP COLUMN gone2, DROP COLUMN gone3;
@remote s1
ALTER TABLE t DROP COLUMN gone2;
INSERT INTO t VALUES ('x', 1, '2024-01-01 00:00+00'), ('y', 2, NULL), (NULL, NULL, NULL);
INSERT INTO t SELECT 'g' || g, g FROM generate_series(10, 40) g;
COPY t FROM STDIN;
c	100	2024-05-05 00:00:00+00
d	101	\N
\.
UPDATE t SET a = a || '!', b = b + 1 WHERE b < 20 AND random() < 2 RETURNING *;
DELETE FROM t WHERE b = 101 RETURNING *;
SELECT a, b, c FROM t ORDER BY b, a;

== dropped and added columns in a partition and its parent
CREATE TABLE t (x int, a text, y int, b int) PARTITION BY LIST (b);
ALTER TABLE t DROP COLUMN x, DROP COLUMN y;
ALTER TABLE t ADD COLUMN late text DEFAULT 'l';
@table t1 ON s1
    p int, late text, b int, q text, a text;
ALTER TABLE t1 DROP COLUMN p, DROP COLUMN q;
ALTER TABLE t ATTACH PARTITION t1 FOR VALUES IN (1, 2, 3);
@table rest ON s2 OF t DEFAULT
    b int, a text, late text;
INSERT INTO t SELECT 'a' || g, g % 5, 'late' || g FROM generate_series(1, 25) g;
INSERT INTO t (b, a) VALUES (1, 'default'), (9, 'default') RETURNING *;
COPY t (b, a) FROM STDIN;
2	copied
7	copied
\.
SELECT * FROM t ORDER BY b, a;

== columns with other names
@local
CREATE TABLE t (id int PRIMARY KEY, label text, amount numeric);
@remote s1
CREATE TABLE far (n_amount numeric, "n Id" int PRIMARY KEY, n_label text, extra text DEFAULT 'x');
@foreign
CREATE FOREIGN TABLE t (id int OPTIONS (column_name 'n Id'), label text OPTIONS (column_name 'n_label'), amount numeric OPTIONS (column_name 'n_amount')) SERVER s1 OPTIONS (schema_name 'w', table_name 'far');
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, NULL);
INSERT INTO t SELECT g, 'g' || g, g / 3.0 FROM generate_series(10, 40) g;
COPY t (amount, id) FROM STDIN;
7	100
8	101
\.
UPDATE t SET amount = amount * 2 WHERE id < 3;
UPDATE t SET label = label || '!' WHERE id < 3 AND random() < 2 RETURNING *;
DELETE FROM t WHERE id = 12;
@error 23505 loose
INSERT INTO t VALUES (1, 'again', 0);
SELECT * FROM t ORDER BY id;

== more and fewer columns than on the shard
@local
CREATE TABLE t (a int, c text);
@remote s1
CREATE TABLE t (z int DEFAULT 1, a int, b int, c text, d text DEFAULT 'd');
@foreign
CREATE FOREIGN TABLE t (a int, c text) SERVER s1 OPTIONS (schema_name 'w');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
INSERT INTO t (c) SELECT 'c' || g FROM generate_series(1, 20) g;
COPY t FROM STDIN;
3	x
4	y
\.
SELECT * FROM t ORDER BY a, c;

== many columns
@local
DO $$ BEGIN EXECUTE 'CREATE TABLE t (id int' || (SELECT string_agg(format(', c%s int', g), '' ORDER BY g) FROM generate_series(1, 900) g) || ')'; END $$;
@remote s1
DO $$ BEGIN EXECUTE 'CREATE TABLE t (id int' || (SELECT string_agg(format(', c%s int', g), '' ORDER BY g) FROM generate_series(1, 900) g) || ')'; END $$;
@foreign
DO $$ BEGIN EXECUTE 'CREATE FOREIGN TABLE t (id int' || (SELECT string_agg(format(', c%s int', g), '' ORDER BY g) FROM generate_series(1, 900) g) || ') SERVER s1 OPTIONS (schema_name ''w'')'; END $$;
INSERT INTO t (id, c1, c450, c900) SELECT g, g, g, g FROM generate_series(1, 25) g;
UPDATE t SET c2 = id, c899 = id WHERE id < 20 AND random() < 2;
SELECT count(*), sum(c1), sum(c2), sum(c450), sum(c899), sum(c900) FROM t;

== system columns and the row as a whole
@table t ON s1
    id int, v text;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT t, tableoid::regclass FROM t ORDER BY id;
SELECT (t).v, row_to_json(t) FROM t ORDER BY id;
INSERT INTO t SELECT (t).* FROM t RETURNING t, tableoid::regclass;
SELECT count(*) FROM t WHERE t = ROW(1, 'a')::t;
