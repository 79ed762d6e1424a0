-- INSERT without triggers: every form of its source, named targets and routing.

== rows of VALUES into a named table
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (2, 'b'), (3, NULL), (4, ''), (5, 'e');
INSERT INTO t (v, id) VALUES ('f', 6);
INSERT INTO t (id) VALUES (7), (8), (9), (10), (11), (12), (13), (14);
INSERT INTO t SELECT FROM t WHERE false;
SELECT count(*), count(v), min(id), max(id) FROM t;

== rows of a query
@table t ON s1
    id int, v text;
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 2500) g;
INSERT INTO t SELECT g, repeat('x', g) FROM generate_series(2501, 2507) g;
INSERT INTO t SELECT g, NULL FROM generate_series(1, 0) g;
INSERT INTO t (SELECT 3000, 'first') UNION ALL (SELECT 3001, 'second');
INSERT INTO t TABLE t;
SELECT count(*), sum(id), sum(length(v)) FROM t;

== around the borders of a batch
@table t ON s1
    id int;
INSERT INTO t SELECT generate_series(1, 1);
INSERT INTO t SELECT generate_series(1, 2);
INSERT INTO t SELECT generate_series(1, 3);
INSERT INTO t SELECT generate_series(1, 6);
INSERT INTO t SELECT generate_series(1, 7);
INSERT INTO t SELECT generate_series(1, 8);
INSERT INTO t SELECT generate_series(1, 14);
INSERT INTO t SELECT generate_series(1, 15);
INSERT INTO t SELECT generate_series(1, 999);
INSERT INTO t SELECT generate_series(1, 1000);
INSERT INTO t SELECT generate_series(1, 1001);

== defaults
@table t ON s1
    id int DEFAULT 7, v text DEFAULT 'd', w int;
INSERT INTO t DEFAULT VALUES;
INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT), (1, DEFAULT, NULL), (DEFAULT, 'x', 3);
INSERT INTO t (w) SELECT generate_series(1, 9);
SELECT * FROM t ORDER BY id, v, w;

== a table without columns
@table t ON s1
    ;
INSERT INTO t DEFAULT VALUES;
INSERT INTO t SELECT FROM generate_series(1, 9);
COPY t FROM STDIN;


\.
SELECT count(*) FROM t;
SELECT FROM t;

== sequences and volatile expressions
CREATE SEQUENCE ids;
@table t ON s1
    id bigint, v text;
ALTER TABLE t ALTER id SET DEFAULT nextval('w.ids');
INSERT INTO t (v) SELECT 'r' || g FROM generate_series(1, 20) g;
INSERT INTO t (v) VALUES ('a'), ('b');
SELECT id, v FROM t ORDER BY id;
SELECT nextval('ids');

== common table expressions
@table t ON s1
    id int, v text;
@table u ON s2
    id int, v text;
CREATE TABLE l (id int, v text);
WITH x AS (SELECT g, g::text AS v FROM generate_series(1, 10) g) INSERT INTO t SELECT * FROM x;
WITH x AS (INSERT INTO u SELECT g, 'u' FROM generate_series(1, 10) g) INSERT INTO t VALUES (11, 'eleven'), (12, 'twelve');
WITH x AS (INSERT INTO u SELECT g, 'u' FROM generate_series(1, 10) g RETURNING id) INSERT INTO t SELECT id, 'again' FROM x;
WITH x AS (INSERT INTO t SELECT g, 'only' FROM generate_series(1, 10) g) SELECT 1;
WITH x AS (INSERT INTO t VALUES (50, 'a'), (51, 'b')), y AS (INSERT INTO t VALUES (52, 'c')) INSERT INTO l VALUES (1, 'l'), (2, 'l'), (3, 'l');
WITH x AS (INSERT INTO l VALUES (4, 'l')) INSERT INTO u VALUES (50, 'a'), (51, 'b');
WITH x AS (INSERT INTO t SELECT g, 'x' FROM generate_series(60, 70) g RETURNING *), y AS (INSERT INTO u SELECT id, v FROM x WHERE id > 65 RETURNING *) INSERT INTO l SELECT * FROM y;
SELECT count(*) FROM t;
SELECT count(*) FROM u;

== returned rows
@table t ON s1
    id int, v text;
INSERT INTO t VALUES (1, 'a') RETURNING *;
INSERT INTO t VALUES (2, 'b'), (3, 'c'), (4, NULL) RETURNING id * 10 AS tens, v;
INSERT INTO t SELECT g, 'r' || g FROM generate_series(5, 20) g RETURNING id, tableoid::regclass;
WITH i AS (INSERT INTO t SELECT g, 's' FROM generate_series(30, 40) g RETURNING id) SELECT count(*), sum(id) FROM i;
INSERT INTO t VALUES (50, 'z') RETURNING t;

== NULL in every column
@table t ON s1
    a int, b text, c numeric, d int[], e timestamptz;
INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL);
INSERT INTO t SELECT NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 20);
INSERT INTO t SELECT CASE WHEN g % 2 = 0 THEN g END, CASE WHEN g % 3 = 0 THEN 't' END, CASE WHEN g % 5 = 0 THEN g END, CASE WHEN g % 7 = 0 THEN ARRAY[g, NULL] END FROM generate_series(1, 40) g;
SELECT count(*), count(a), count(b), count(c), count(d), count(e) FROM t;

== names that need quotes
@table "Order" ON s1
    "Select" int, "a b" text, "é""x" int, "a'b" text;
INSERT INTO "Order" VALUES (1, 'x', 2, 'y'), (3, 'z', 4, 'w');
INSERT INTO "Order" ("a'b", "é""x") VALUES ('q', 5);
SELECT "Select", "a b", "é""x", "a'b" FROM "Order" ORDER BY 3;

== select with INTO and tables made from foreign ones
@table t ON s1
    id int, v text;
INSERT INTO t SELECT g, 'v' || g % 3 FROM generate_series(1, 50) g;
CREATE TABLE made AS SELECT v, count(*) FROM t GROUP BY v;
SELECT * FROM made ORDER BY v;
