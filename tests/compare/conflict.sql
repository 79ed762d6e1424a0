-- ON CONFLICT DO NOTHING without a target, and rows that a shard does not store: exact counts.

== rows that are there already
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
INSERT INTO t VALUES (1, 'a'), (2, 'b') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'x'), (3, 'c'), (2, 'y'), (4, 'd') ON CONFLICT DO NOTHING;
INSERT INTO t SELECT g, 'g' FROM generate_series(1, 30) g ON CONFLICT DO NOTHING;
INSERT INTO t SELECT g, 'h' FROM generate_series(1, 30) g ON CONFLICT DO NOTHING;
SELECT * FROM t ORDER BY id;

== equal keys within one statement
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
INSERT INTO t VALUES (1, 1), (1, 2), (2, 3), (1, 4), (2, 5) ON CONFLICT DO NOTHING;
INSERT INTO t SELECT g % 10, g FROM generate_series(1, 100) g ON CONFLICT DO NOTHING;
SELECT id, v FROM t ORDER BY id;

== returned are the stored rows only
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
INSERT INTO t VALUES (1, 1), (2, 2) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t VALUES (1, 10), (3, 30), (2, 20), (4, 40) ON CONFLICT DO NOTHING RETURNING id, v;
WITH x AS (INSERT INTO t SELECT g, g FROM generate_series(1, 9) g ON CONFLICT DO NOTHING RETURNING id) SELECT count(*), sum(id) FROM x;

== through a partitioned table with a local leaf
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v int
    PRIMARY KEY (id);
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v int
    PRIMARY KEY (id), UNIQUE (v);
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
ALTER TABLE t3 ADD PRIMARY KEY (id);
INSERT INTO t SELECT 1 + g % 3, g, g FROM generate_series(1, 30) g ON CONFLICT DO NOTHING;
INSERT INTO t SELECT 1 + g % 3, g, g + 15 FROM generate_series(1, 45) g ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 1000, 1), (2, 1000, 1000), (3, 1000, 1), (2, 1000, 1) ON CONFLICT DO NOTHING;
SELECT k, count(*), sum(id), sum(v) FROM t GROUP BY k ORDER BY k;

== other errors are errors all the same
@table t ON s1
    id int, v int
    PRIMARY KEY (id), CHECK (v > 0);
INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING;
@error 23514
INSERT INTO t VALUES (1, 2), (2, 2), (3, -1) ON CONFLICT DO NOTHING;
SELECT * FROM t;

== ROW_COUNT and FOUND
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
INSERT INTO t SELECT g, g FROM generate_series(2, 20, 2) g;
DO $$
DECLARE n bigint;
BEGIN
    INSERT INTO t SELECT g, -g FROM generate_series(1, 20) g ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE '% %', n, FOUND;
    INSERT INTO t SELECT g, -g FROM generate_series(1, 20) g ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE '% %', n, FOUND;
END $$;

== a trigger of the shard that drops rows
@table t ON s1
    id int, v int;
@on s1
CREATE FUNCTION w.odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 3 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;
@on s1
CREATE TRIGGER odd BEFORE INSERT ON w.t FOR EACH ROW EXECUTE FUNCTION w.odd();
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4);
INSERT INTO t VALUES (3, 3), (6, 3);
INSERT INTO t SELECT g, g FROM generate_series(1, 100) g;
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g RETURNING id;
INSERT INTO t SELECT g, g FROM generate_series(3, 30, 3) g RETURNING id;
DO $$ DECLARE n int; BEGIN INSERT INTO t SELECT g, g FROM generate_series(1, 10) g; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n; END $$;
COPY t FROM STDIN;
1	1
2	2
3	3
4	4
6	5
\.
COPY t FROM STDIN;
3	3
6	6
\.
SELECT count(*), sum(id) FROM t;

== a trigger of the shard that drops rows of one leaf
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
@on s2
CREATE FUNCTION w.few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;
@on s2
CREATE TRIGGER few BEFORE INSERT ON w.t2 FOR EACH ROW EXECUTE FUNCTION w.few();
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 100) g;
WITH x AS (INSERT INTO t SELECT 2, g FROM generate_series(1, 10) g) INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 20) g;
COPY t FROM STDIN;
1	1
2	2
2	3
3	4
2	6
\.
SELECT k, count(*), sum(id) FROM t GROUP BY k ORDER BY k;

== a rule of the shard that redirects rows
@table t ON s1
    id int, v int;
@on s1
CREATE TABLE w.aside (id int, v int);
@on s1
CREATE RULE redirect AS ON INSERT TO w.t WHERE NEW.v < 0 DO INSTEAD INSERT INTO w.aside VALUES (NEW.id, NEW.v);
@foreign
CREATE FOREIGN TABLE aside (id int, v int) SERVER s1 OPTIONS (schema_name 'w');
INSERT INTO t VALUES (1, 1), (2, -2), (3, 3), (4, -4);
INSERT INTO t SELECT g, g - 10 FROM generate_series(1, 20) g;
SELECT count(*), sum(id) FROM t;
SELECT count(*), sum(id) FROM aside;
