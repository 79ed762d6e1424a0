-- Functions that run within a writing statement and read or write the same shards.

== a volatile function counts the target
@table t ON s1
    id int, n bigint;
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT count(*) FROM w.t $$;
CREATE FUNCTION seen_pl() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
INSERT INTO t SELECT g, seen() FROM generate_series(1, 20) g;
INSERT INTO t SELECT g, seen_pl() FROM generate_series(21, 40) g;
INSERT INTO t VALUES (41, seen()), (42, seen()), (43, seen_pl());
INSERT INTO t SELECT g, seen() FROM generate_series(51, 55) g RETURNING id, n, seen();
ALTER TABLE t ALTER n SET DEFAULT seen();
INSERT INTO t (id) SELECT generate_series(61, 70);
COPY t (id) FROM STDIN;
71
72
73
\.
SELECT * FROM t ORDER BY id;

== a volatile function reads one leaf of several
CREATE TABLE t (k int, id int, n bigint) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, n bigint;
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int, n bigint;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
CREATE FUNCTION of_leaf(which int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE k = which); END $$;
INSERT INTO t SELECT g % 3, g, of_leaf(g % 3) FROM generate_series(1, 30) g;
INSERT INTO t SELECT g % 3, g, of_leaf((g + 1) % 3) FROM generate_series(31, 60) g;
SELECT * FROM t ORDER BY id;

== a volatile function writes another table of the shard
@table t ON s1
    id int, n bigint;
@table log ON s1
    id int;
CREATE FUNCTION logged(i int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT i FROM generate_series(1, 3);
    RETURN (SELECT count(*) FROM log);
END $$;
INSERT INTO t SELECT g, logged(g) FROM generate_series(1, 20) g;
UPDATE t SET n = logged(id) WHERE id <= 3;
DELETE FROM t WHERE logged(id) % 2 = 0 AND id BETWEEN 4 AND 8;
SELECT * FROM t ORDER BY id;
SELECT count(*) FROM log;

== a volatile function writes the target itself
@table t ON s1
    id int, v text;
CREATE FUNCTION extra(i int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i + 1000, 'extra'), (i + 2000, 'extra'); RETURN (SELECT count(*) FROM t)::text; END $$;
INSERT INTO t SELECT g, extra(g) FROM generate_series(1, 12) g;
SELECT * FROM t ORDER BY id;

== rows inserted by functions called in a query
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int;
CREATE FUNCTION add(i int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN INSERT INTO t SELECT g % 2, i * 10 + g FROM generate_series(1, i) g; GET DIAGNOSTICS n = ROW_COUNT; RETURN n; END $$;
CREATE FUNCTION add_sql(i int) RETURNS SETOF int LANGUAGE sql AS $$ INSERT INTO w.t SELECT g % 2, i * 100 + g FROM generate_series(1, i) g RETURNING id $$;
SELECT add(g) FROM generate_series(1, 9) g;
SELECT g, add_sql(g) FROM generate_series(1, 5) g;
SELECT sum(x) FROM generate_series(1, 3) g, add_sql(g) x;
SELECT k, count(*), sum(id) FROM t GROUP BY k ORDER BY k;

== diagnostics
@table t ON s1
    id int
    PRIMARY KEY (id);
CREATE TABLE p (k int, id int) PARTITION BY LIST (k);
@table p1 ON s1 OF p FOR VALUES IN (0)
    k int, id int;
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (1);
DO $$
DECLARE n bigint; i int;
BEGIN
    INSERT INTO t SELECT generate_series(1, 25);
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'insert % %', n, FOUND;
    INSERT INTO t SELECT 1 WHERE false;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'nothing % %', n, FOUND;
    INSERT INTO p SELECT g % 2, g FROM generate_series(1, 25) g;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'routed % %', n, FOUND;
    EXECUTE 'INSERT INTO p SELECT 0, g FROM generate_series(1, $1) g' USING 13;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'dynamic %', n;
    INSERT INTO t VALUES (100) RETURNING id INTO STRICT i;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'returning % %', i, n;
    WITH x AS (INSERT INTO t SELECT generate_series(200, 210)) INSERT INTO p SELECT g % 2, g FROM generate_series(1, 5) g;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'with %', n;
    WITH x AS (INSERT INTO t SELECT generate_series(300, 310)) SELECT count(*) INTO i FROM generate_series(1, 4);
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'select %', n;
    UPDATE t SET id = id + 1000 WHERE id < 10;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'update % %', n, FOUND;
    UPDATE t SET id = -id WHERE id > 1000 AND random() < 2;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'update by row % %', n, FOUND;
    DELETE FROM t WHERE id = 12345;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'delete % %', n, FOUND;
    DELETE FROM p WHERE id < 3;
    GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE 'delete % %', n, FOUND;
END $$;
SELECT count(*), sum(id) FROM t;
SELECT count(*), sum(id) FROM p;

== more than one row where one was asked for
@table t ON s1
    id int;
@error P0003
DO $$ DECLARE i int; BEGIN INSERT INTO t VALUES (1), (2) RETURNING id INTO STRICT i; END $$;
SELECT count(*) FROM t;
