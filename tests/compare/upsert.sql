-- The table option on_conflict, and the clause that it stands for on local tables.

== keys that are there, and keys that come twice
@table t ON s1
    k int, v int, w text
    PRIMARY KEY (k);
@upsert t KEY k SET v, w
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b');
INSERT INTO t VALUES (2, 20, 'c'), (3, 30, 'd'), (2, 21, 'e'), (1, 10, 'f'), (2, 22, 'g');
INSERT INTO t SELECT g % 10, g, 'x' || g FROM generate_series(1, 100) g;
INSERT INTO t SELECT g * 7919 % 53, g, 'y' || g FROM generate_series(1, 300) g;
INSERT INTO t SELECT 5, g, NULL FROM generate_series(1, 12) g;
INSERT INTO t SELECT g, g, NULL FROM generate_series(50, 1100) g;
SELECT count(*), sum(v), min(w), max(w) FROM t;
INSERT INTO t VALUES (1, 7, 'r'), (2000, 8, 's'), (1, 9, 't') RETURNING k, v, w;
WITH x AS (INSERT INTO t SELECT g % 3, g, 'z' FROM generate_series(1, 7) g RETURNING k) SELECT count(*) FROM x;
PREPARE p (int, int) AS INSERT INTO t VALUES ($1, $2, 'p'), ($1, $2 + 1, 'q');
EXECUTE p (1, 1);
EXECUTE p (3000, 1);

== rows that are there stay
@table t ON s1
    k int, v int
    PRIMARY KEY (k);
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'nothing'), ALTER k OPTIONS (ADD key 'true');
@clause ON CONFLICT (k) DO NOTHING
INSERT INTO t VALUES (1, 1), (2, 2), (1, 3) /**/;
INSERT INTO t SELECT g % 10, g FROM generate_series(1, 100) g /**/;
INSERT INTO t SELECT g * 7919 % 53, g FROM generate_series(1, 300) g /**/;
INSERT INTO t VALUES (1, 7), (2000, 8), (1, 9), (2000, 10) /**/ RETURNING k, v;
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g /**/;

== the clause of a statement goes first
@table t ON s1
    k int, v int
    PRIMARY KEY (k), UNIQUE (v);
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true');
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT INTO t VALUES (1, 10), (3, 2), (4, 4), (4, 5) ON CONFLICT DO NOTHING;
@foreign
ALTER FOREIGN TABLE t OPTIONS (SET on_conflict 'nothing');
INSERT INTO t VALUES (1, 11), (5, 2), (6, 6), (6, 7) ON CONFLICT DO NOTHING;

== only columns that the statement names
@table t ON s1
    k int, v int DEFAULT 7, w text, g int GENERATED ALWAYS AS (v * 2) STORED
    PRIMARY KEY (k);
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true');
@clause ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v, w = EXCLUDED.w
INSERT INTO t SELECT g, g, 'w' || g FROM generate_series(1, 10) g /**/;
@clause ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v
INSERT INTO t (v, k) SELECT -g, g FROM generate_series(5, 20) g /**/;
@clause ON CONFLICT (k) DO UPDATE SET w = EXCLUDED.w
INSERT INTO t (w, k) VALUES ('x', 1), ('y', 100) /**/;
@clause ON CONFLICT (k) DO UPDATE SET k = t.k
INSERT INTO t (k) VALUES (1), (101) /**/;
INSERT INTO t (k) SELECT g FROM generate_series(1, 20) g /**/;
@clause ON CONFLICT (k) DO UPDATE SET w = EXCLUDED.w, v = EXCLUDED.v
INSERT INTO t (v, w, k) VALUES (DEFAULT, 'd', 1), (DEFAULT, 'd', 200) /**/;

== a key of several columns
@table t ON s1
    a int, v int, b text COLLATE "C", c date
    UNIQUE (c, a, b);
@upsert t KEY b, a, c SET v
INSERT INTO t SELECT g % 3, g, 'b' || g % 2, date '2020-01-01' + g % 5 FROM generate_series(1, 100) g;
INSERT INTO t VALUES (1, 1, 'x', NULL), (1, 2, 'x', NULL), (NULL, 3, 'x', '2020-01-01'), (1, 4, 'X', '2020-01-01'), (1, 5, 'x', '2020-01-01'), (1, 6, 'x', '2020-01-01');
SELECT count(*), sum(v) FROM t;

== NULL keys
@table t ON s1
    k int, v int
    UNIQUE (k);
@upsert t KEY k SET v
INSERT INTO t VALUES (NULL, 1), (1, 2), (NULL, 3), (1, 4), (NULL, 5);
INSERT INTO t SELECT NULLIF(g % 4, 0), g FROM generate_series(1, 40) g;

== NULL keys that are not distinct
@table t ON s1
    k int, j int, v int
    UNIQUE NULLS NOT DISTINCT (k, j);
@upsert t KEY k, j SET v NULLS
INSERT INTO t VALUES (NULL, 1, 1), (1, NULL, 2), (NULL, NULL, 3), (NULL, 1, 4), (NULL, NULL, 5);
INSERT INTO t SELECT NULLIF(g % 4, 0), NULLIF(g % 3, 0), g FROM generate_series(1, 40) g;

== numbers that are equal and look different
@table t ON s1
    k numeric, v text
    PRIMARY KEY (k);
@upsert t KEY k SET v
INSERT INTO t VALUES (1.0, 'a'), (1.00, 'b'), (1, 'c'), ('NaN', 'd'), ('NaN', 'e'), (-0.0, 'f'), (0, 'g'), (1e2, 'h'), (100.000, 'i');
@table u ON s1
    k float8, j float4, v text
    PRIMARY KEY (k, j);
@upsert u KEY k, j SET v
INSERT INTO u VALUES (0, 0, 'a'), ('-0', 0, 'b'), ('NaN', '-0', 'c'), ('-NaN', 0, 'd'), ('-Infinity', 1, 'e'), (1e-300, 1, 'f'), (0.1e-299, 1, 'g');

== strings that are equal and look different
@table t ON s1
    k char(5), v int
    PRIMARY KEY (k);
@upsert t KEY k SET v
INSERT INTO t VALUES ('a', 1), ('a ', 2), ('a  ', 3), ('A', 4), ('', 5), ('  ', 6), ('b', 7);

== arrays and others
@table t ON s1
    k int[], j jsonb, r int4range, i interval, z timestamptz, o timetz, b bytea, n name, v int
    PRIMARY KEY (k, j, r, i, z, o, b, n);
@upsert t KEY k, j, r, i, z, o, b, n SET v
INSERT INTO t VALUES
    ('{1,2}', '{"a":1}', '[1,4)', '1 day', '2020-01-01 00:00+00', '10:00+00', '\x00', 'n', 1),
    ('{1,2}', '{"a":1}', '[1,4)', '1 day', '2020-01-01 00:00+00', '10:00+00', '\x01', 'n', 2),
    ('{1,2}', '{"a":1.0}', '[1,3]', '24 hours', '2020-01-01 01:00+01', '10:00+00', '\x00', 'n', 3),
    ('{{1,2}}', '{"a":1}', '[1,4)', '1 day', '2020-01-01 00:00+00', '10:00+00', '\x00', 'n', 4),
    ('[0:1]={1,2}', '{"a":1}', '[1,4)', '1 day', '2020-01-01 00:00+00', '10:00+00', '\x00', 'n', 5),
    ('{1,NULL}', 'null', 'empty', '-1 day', 'infinity', '10:00+01', '', '', 6),
    ('{1,NULL}', 'null', '(5,5)', '-24 hours', 'infinity', '10:00+01', '', '', 7);
SELECT count(*), sum(v) FROM t;

== types that have no hash function
@table t ON s1
    k bit(3), j varbit, m money, v int
    UNIQUE (k, j, m);
@upsert t KEY k, j, m SET v
INSERT INTO t VALUES (B'101', B'1', '1.00', 1), (B'101', B'1', '1', 2), (B'101', B'10', '1', 3);
INSERT INTO t VALUES (B'101', B'1', '1.00', 4), (B'111', B'1', '1', 5), (B'111', B'1', '1', 6);

== types that somebody has made
CREATE TYPE mood AS ENUM ('fine', 'bad');
@remote s1
CREATE TYPE w.mood AS ENUM ('fine', 'bad');
@table t ON s1
    k mood, v int
    PRIMARY KEY (k);
@upsert t KEY k SET v
INSERT INTO t VALUES ('fine', 1), ('bad', 2), ('fine', 3), ('fine', 4);

== types that are other ones on the shard
@table t ON s1
    k numeric, v int;
@on s1
ALTER TABLE w.t ALTER k TYPE numeric(5, 1), ADD PRIMARY KEY (k);
@upsert t KEY k SET v
INSERT INTO t (k, v) VALUES (1.01, 1), (1.02, 2), (0.99, 3), (2, 4);
@table u ON s1
    k text, v int;
@on s1
ALTER TABLE w.u ALTER k TYPE varchar(3), ADD PRIMARY KEY (k);
@upsert u KEY k SET v
INSERT INTO u VALUES ('abc', 1), ('abc ', 2), ('abc  ', 3), ('ab', 4);
@table x ON s1
    k timestamp(3), v int;
@on s1
ALTER TABLE w.x ALTER k TYPE timestamp(0), ADD PRIMARY KEY (k);
@upsert x KEY k SET v
INSERT INTO x VALUES ('2020-01-01 10:00:00.1', 1), ('2020-01-01 10:00:00.2', 2), ('2020-01-01 10:00:01', 3);
@table y ON s1
    k varchar(5), v int;
@on s1
ALTER TABLE w.y ALTER k TYPE varchar(3), ADD PRIMARY KEY (k);
@upsert y KEY k SET v
INSERT INTO y VALUES ('abc', 1), ('abc ', 2), ('abc  ', 3), ('ab', 4);
@table z ON s1
    k varchar(5), v int;
@on s1
ALTER TABLE w.z ALTER k TYPE varchar, ADD PRIMARY KEY (k);
@upsert z KEY k SET v
INSERT INTO z VALUES ('abc', 1), ('abc ', 2), ('abc', 3), ('ab', 4);

== an index of another operator class
@table t ON s1
    k text, v int;
@on s1
CREATE UNIQUE INDEX ON w.t (k text_pattern_ops);
@upsert t KEY k SET v
INSERT INTO t VALUES ('a', 1), ('b', 2), ('a', 3), ('A', 4);

== a trigger of the shard that makes keys equal
@table t ON s1
    k text, v int
    PRIMARY KEY (k);
@on s1
CREATE FUNCTION w.lower() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k := pg_catalog.lower(NEW.k); RETURN NEW; END $$;
@on s1
CREATE TRIGGER lower BEFORE INSERT ON w.t FOR EACH ROW EXECUTE FUNCTION w.lower();
@upsert t KEY k SET v
INSERT INTO t VALUES ('a', 1), ('A', 2), ('b', 3), ('a', 4);

== a trigger of the shard that drops updates
@table t ON s1
    k int, v int
    PRIMARY KEY (k);
@on s1
CREATE FUNCTION w.odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v % 2 = 1 THEN RETURN NULL; END IF; NEW.k := NEW.k + 1000; RETURN NEW; END $$;
@on s1
CREATE TRIGGER odd BEFORE UPDATE ON w.t FOR EACH ROW EXECUTE FUNCTION w.odd();
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true');
@clause ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v
INSERT INTO t VALUES (1, 1), (2, 1), (3, 1) /**/;
INSERT INTO t VALUES (1, 3), (2, 4), (4, 1) /**/;
@local
INSERT INTO t VALUES (3, 2) /**/;
@local
INSERT INTO t VALUES (1003, 4) /**/;
@local
INSERT INTO t VALUES (1003, 3) /**/;
@local
INSERT INTO t VALUES (2003, 6) /**/;
@foreign
INSERT INTO t VALUES (3, 2), (1003, 4), (1003, 3), (2003, 6);
SELECT * FROM t ORDER BY k;

== a key that the shard makes
@table t ON s1
    k int, j int, v int
    PRIMARY KEY (k);
@on s1
ALTER TABLE w.t ALTER k SET DEFAULT 7;
@foreign
ALTER FOREIGN TABLE t ALTER k OPTIONS (ADD remote_default 'true');
@upsert t KEY k SET j, v
INSERT INTO t (j, v) VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO t (k, j, v) VALUES (7, 4, 4), (8, 5, 5), (8, 6, 6);

== another unique index
@table t ON s1
    k int, v int
    PRIMARY KEY (k), UNIQUE (v);
@upsert t KEY k SET v
INSERT INTO t VALUES (1, 1), (2, 2), (1, 3), (3, 1);
@error 23505
INSERT INTO t VALUES (4, 4), (1, 2), (5, 5);
@error 23505
INSERT INTO t VALUES (4, 4), (5, 4);
@foreign
ALTER FOREIGN TABLE t OPTIONS (SET on_conflict 'nothing');
@local
DROP TRIGGER zz_upsert ON t;
@clause ON CONFLICT (k) DO NOTHING
@error 23505
INSERT INTO t VALUES (1, 9), (6, 2) /**/;
INSERT INTO t VALUES (1, 9), (6, 6), (6, 7) /**/;

== no unique index
@table t ON s1
    k int, v int;
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true');
@clause ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v
@error 42P10
INSERT INTO t VALUES (1, 1) /**/;

== other errors, and nesting
@table t ON s1
    k int, v int
    PRIMARY KEY (k), CHECK (v > 0);
@upsert t KEY k SET v
@error 23514 loose
INSERT INTO t VALUES (1, 1), (1, 2), (1, 0), (2, 2);
BEGIN;
INSERT INTO t VALUES (1, 1), (1, 2), (2, 2);
SAVEPOINT a;
INSERT INTO t VALUES (1, 10), (3, 3), (1, 11);
ROLLBACK TO a;
INSERT INTO t VALUES (3, 4), (3, 5);
COMMIT;
DO $$
DECLARE n bigint;
BEGIN
    INSERT INTO t SELECT g % 5, g + 1 FROM generate_series(1, 20) g;
    GET DIAGNOSTICS n = ROW_COUNT;
    RAISE NOTICE '%', n;
    BEGIN
        INSERT INTO t VALUES (1, 100), (1, 101), (9, -1);
    EXCEPTION WHEN check_violation THEN
        RAISE NOTICE 'refused';
    END;
    FOR i IN 1 .. 10 LOOP
        INSERT INTO t VALUES (i % 3, i), (i % 4, i);
    END LOOP;
END $$;
SELECT * FROM t ORDER BY k;

== a function that reads what is there
@table t ON s1
    k int, v int
    PRIMARY KEY (k);
@upsert t KEY k SET v
CREATE FUNCTION total() RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(sum(v), 0) FROM t); END $$;
INSERT INTO t SELECT g % 3, total() + 1 FROM generate_series(1, 10) g;
INSERT INTO t SELECT k + 1, v FROM t;

== through a partitioned table
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v int
    PRIMARY KEY (k, id);
@table t2 ON s2 OF t FOR VALUES IN (2)
    v int, id int, k int
    PRIMARY KEY (id, k);
@table t3 ON s2 OF t FOR VALUES IN (3)
    k int, v int, id int
    PRIMARY KEY (id, k);
@upsert t1 KEY k, id SET v
@upsert t2 KEY k, id SET v
@upsert t3 KEY k, id SET v
INSERT INTO t SELECT 1 + g % 3, g % 17, g FROM generate_series(1, 100) g;
INSERT INTO t VALUES (1, 1, 1000), (2, 1, 1001), (1, 1, 1002), (3, 100, 5) RETURNING *;
SELECT tableoid::regclass, count(*), sum(v) FROM t GROUP BY 1 ORDER BY 1;

== rows that move, and MERGE, take no notice
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v int
    PRIMARY KEY (k, id);
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
@foreign
ALTER FOREIGN TABLE t1 OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true'), ALTER id OPTIONS (ADD key 'true');
INSERT INTO t VALUES (1, 1, 1), (2, 1, 2), (2, 2, 3);
@error 23505
UPDATE t SET k = 1 WHERE k = 2 AND id = 1;
UPDATE t SET k = 1 WHERE k = 2 AND id = 2;
@error 23505
MERGE INTO t USING (VALUES (1, 1), (1, 9)) AS s (k, id) ON t.k = 2 AND t.id = s.id + 100 WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.id, 7);
SELECT * FROM t ORDER BY k, id;

== COPY
@table t ON s1
    k int, v int, w text DEFAULT 'd'
    PRIMARY KEY (k);
INSERT INTO t SELECT g, -g, 'old' FROM generate_series(1, 5) g;
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update'), ALTER k OPTIONS (ADD key 'true');
@foreign
COPY t FROM STDIN;
1	10	a
1	11	b
6	60	c
2	20	d
6	61	e
\.
@foreign
COPY t (k, v) FROM STDIN;
1	100
7	70
1	101
\.
@foreign
ALTER FOREIGN TABLE t OPTIONS (SET on_conflict 'nothing');
@foreign
COPY t FROM STDIN;
1	0	x
9	90	y
9	91	z
2	0	x
\.
@local
INSERT INTO t VALUES (1, 101, 'b'), (6, 61, 'e'), (2, 20, 'd'), (7, 70, 'd'), (9, 90, 'y') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v, w = EXCLUDED.w;
SELECT * FROM t ORDER BY k;
