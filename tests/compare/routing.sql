-- Rows find their leaves: several levels, local and foreign leaves mixed, several shards.

== list partitions on two shards and here
CREATE TABLE t (k int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1, 11)
    k int, v text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, v text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
@table rest ON s1 OF t DEFAULT
    k int, v text;
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (11, 'd'), (2, 'e'), (NULL, 'f'), (99, 'g');
INSERT INTO t SELECT g % 15, 'g' || g FROM generate_series(1, 500) g;
INSERT INTO t1 VALUES (1, 'direct'), (11, 'direct');
SELECT tableoid::regclass, count(*) FROM t GROUP BY 1;

== hash partitions
CREATE TABLE t (id int, v text) PARTITION BY HASH (id);
@table h0 ON s1 OF t FOR VALUES WITH (MODULUS 4, REMAINDER 0)
    id int, v text;
@table h1 ON s2 OF t FOR VALUES WITH (MODULUS 4, REMAINDER 1)
    id int, v text;
@table h2 ON s1 OF t FOR VALUES WITH (MODULUS 4, REMAINDER 2)
    id int, v text;
@table h3 ON s2 OF t FOR VALUES WITH (MODULUS 4, REMAINDER 3)
    id int, v text;
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 3000) g;
INSERT INTO t SELECT g, NULL FROM generate_series(1, 40) g RETURNING id, tableoid::regclass;
SELECT tableoid::regclass, count(*), sum(id) FROM t GROUP BY 1;

== three levels with every kind of partition
CREATE TABLE t (day date, region text, id int) PARTITION BY RANGE (day);
CREATE TABLE y24 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY LIST (region);
CREATE TABLE y24_eu PARTITION OF y24 FOR VALUES IN ('eu') PARTITION BY HASH (id);
@table y24_eu_0 ON s1 OF y24_eu FOR VALUES WITH (MODULUS 2, REMAINDER 0)
    day date, region text, id int;
@table y24_eu_1 ON s2 OF y24_eu FOR VALUES WITH (MODULUS 2, REMAINDER 1)
    day date, region text, id int;
CREATE TABLE y24_us PARTITION OF y24 FOR VALUES IN ('us');
@table y24_rest ON s2 OF y24 DEFAULT
    day date, region text, id int;
@table y25 ON s1 OF t FOR VALUES FROM ('2025-01-01') TO (MAXVALUE)
    day date, region text, id int;
CREATE TABLE old PARTITION OF t FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
INSERT INTO t SELECT date '2023-11-01' + g, (ARRAY['eu', 'us', 'asia'])[1 + g % 3], g FROM generate_series(1, 600) g;
INSERT INTO y24 SELECT date '2024-03-01' + g, (ARRAY['eu', 'us', NULL])[1 + g % 3], g FROM generate_series(1, 50) g;
INSERT INTO y24_eu VALUES ('2024-05-05', 'eu', 1000), ('2024-05-06', 'eu', 1001), ('2024-05-07', 'eu', 1002);
@error 23514
INSERT INTO y24 VALUES ('2024-06-01', 'eu', 1), ('2026-01-01', 'eu', 2);
SELECT tableoid::regclass, count(*), min(day), max(day) FROM t GROUP BY 1;

== a row without a partition takes its statement with it
CREATE TABLE t (k int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v text;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t VALUES (1, 'before');
@error 23514
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (1, 'c'), (3, 'nowhere');
@error 23514
INSERT INTO t SELECT CASE WHEN g < 1500 THEN 1 ELSE 4 END, 'x' FROM generate_series(1, 1500) g;
INSERT INTO t VALUES (1, 'after'), (2, 'after');

== leaves with other column orders than their parent
CREATE TABLE t (a int, b text, c date) PARTITION BY LIST (a);
@table t1 ON s1 OF t FOR VALUES IN (1)
    c date, a int, b text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    b text, c date, a int;
INSERT INTO t SELECT 1 + g % 2, 'b' || g, date '2024-01-01' + g FROM generate_series(1, 30) g;
INSERT INTO t (c, a) VALUES ('2025-01-01', 1), ('2025-01-02', 2) RETURNING *;
SELECT * FROM t ORDER BY c;

== one expression as the key
CREATE TABLE t (id int, v text) PARTITION BY LIST ((id % 3));
@table t0 ON s1 OF t FOR VALUES IN (0)
    id int, v text;
@table t1 ON s2 OF t FOR VALUES IN (1)
    id int, v text;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT g, g::text FROM generate_series(1, 100) g;

== two trees in one statement
CREATE TABLE a (k int, v int) PARTITION BY LIST (k);
@table a1 ON s1 OF a FOR VALUES IN (1)
    k int, v int;
@table a2 ON s2 OF a FOR VALUES IN (2)
    k int, v int;
CREATE TABLE b (k int, v int) PARTITION BY LIST (k);
@table b1 ON s2 OF b FOR VALUES IN (1)
    k int, v int;
@table b2 ON s1 OF b FOR VALUES IN (2)
    k int, v int;
WITH x AS (INSERT INTO a SELECT 1 + g % 2, g FROM generate_series(1, 40) g RETURNING *) INSERT INTO b SELECT * FROM x;
WITH x AS (INSERT INTO a SELECT 1 + g % 2, g FROM generate_series(1, 40) g) INSERT INTO b SELECT 1 + g % 2, g FROM generate_series(1, 17) g;
SELECT count(*), sum(v) FROM a;
SELECT count(*), sum(v) FROM b;

== the same leaf named and reached by routing in one statement
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, v int;
WITH x AS (INSERT INTO t1 SELECT 1, g FROM generate_series(1, 10) g) INSERT INTO t SELECT 1 + g % 2, 100 + g FROM generate_series(1, 10) g;
SELECT count(*), sum(v) FROM t;

== many leaves of one shard
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@local
DO $$ BEGIN FOR i IN 0..39 LOOP EXECUTE format('CREATE TABLE t%s PARTITION OF t FOR VALUES IN (%s)', i, i); END LOOP; END $$;
@remote s1
DO $$ BEGIN FOR i IN 0..39 LOOP EXECUTE format('CREATE TABLE t%s (k int, v int)', i); END LOOP; END $$;
@foreign
DO $$ BEGIN FOR i IN 0..39 LOOP EXECUTE format('CREATE FOREIGN TABLE t%s PARTITION OF t FOR VALUES IN (%s) SERVER s1 OPTIONS (schema_name %L)', i, i, 'w'); END LOOP; END $$;
INSERT INTO t SELECT g % 40, g FROM generate_series(1, 400) g;
INSERT INTO t SELECT g / 25, g FROM generate_series(1, 999) g;
COPY t FROM STDIN;
1	1
2	2
39	3
2	4
\.
SELECT tableoid::regclass, count(*), sum(v) FROM t GROUP BY 1;
