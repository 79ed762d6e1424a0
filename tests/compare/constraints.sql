-- Rows that a shard refuses: the same error as from a local table, and nothing kept.

== a duplicate key
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
INSERT INTO t VALUES (1, 'a'), (5, 'e');
@error 23505
INSERT INTO t VALUES (2, 'b'), (3, 'c'), (1, 'again'), (4, 'd');
@error 23505
INSERT INTO t VALUES (10, 'x'), (11, 'y'), (10, 'z');
@error 23505
INSERT INTO t SELECT g, 'g' FROM generate_series(20, 2020) g UNION ALL SELECT 5, 'late';
@error 23505 loose
COPY t FROM STDIN;
30	a
31	b
30	c
\.
@error 23505
INSERT INTO t VALUES (1, 'r') RETURNING id;
INSERT INTO t VALUES (2, 'b'), (3, 'c');
SELECT * FROM t ORDER BY id;

== not null, check, exclusion, length and domain
@table n ON s1
    id int, v text
    CHECK (v IS NOT NULL);
@on s1
ALTER TABLE w.n ALTER id SET NOT NULL;
@table c ON s1
    id int, v int
    CONSTRAINT positive CHECK (v > 0);
@table x ON s1
    r int4range
    CONSTRAINT apart EXCLUDE USING gist (r WITH &&);
@error 23502
INSERT INTO n VALUES (1, 'a'), (2, 'b'), (NULL, 'c');
@error 23514
INSERT INTO n VALUES (1, 'a'), (2, NULL);
@error 23514
INSERT INTO c VALUES (1, 1), (2, 2), (3, 0);
@error 23514
INSERT INTO c SELECT g, 500 - g FROM generate_series(1, 500) g;
INSERT INTO x VALUES ('[1,5)'), ('[5,9)');
@error 23P01
INSERT INTO x VALUES ('[20,30)'), ('[8,10)');
@error 23502 loose
COPY n FROM STDIN;
1	a
\N	b
\.
SELECT count(*) FROM n;
SELECT count(*) FROM c;
SELECT * FROM x ORDER BY r;

== a missing referenced row
@on s1
CREATE TABLE w.kind (k int PRIMARY KEY);
@on s1
INSERT INTO w.kind VALUES (1), (2), (3);
@table t ON s1
    id int, k int
    FOREIGN KEY (k) REFERENCES w.kind;
@foreign
CREATE FOREIGN TABLE kind (k int) SERVER s1 OPTIONS (schema_name 'w');
INSERT INTO t SELECT g, 1 + g % 3 FROM generate_series(1, 20) g;
@error 23503
INSERT INTO t VALUES (21, 1), (22, 4), (23, 2);
@error 23503
INSERT INTO t SELECT g, g FROM generate_series(1, 1200) g;
@error 23503
DELETE FROM kind WHERE k = 2;
SELECT count(*) FROM t;

== a trigger of the shard that raises an error
@table t ON s1
    id int;
@on s1
CREATE FUNCTION w.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id = 13 THEN
        RAISE EXCEPTION 'thirteen is refused' USING ERRCODE = 'SF013', DETAIL = 'The id was 13.', HINT = 'Take 14.', CONSTRAINT = 'luck', COLUMN = 'id';
    END IF;
    RETURN NEW;
END $$;
@on s1
CREATE TRIGGER refuse BEFORE INSERT ON w.t FOR EACH ROW EXECUTE FUNCTION w.refuse();
@error SF013
INSERT INTO t SELECT generate_series(1, 20);
@error SF013
INSERT INTO t VALUES (13);
@error SF013 loose
COPY t FROM STDIN;
12
13
14
\.
INSERT INTO t SELECT generate_series(14, 20);

== errors in one leaf of several
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int
    PRIMARY KEY (id);
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int
    PRIMARY KEY (id);
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
ALTER TABLE t3 ADD PRIMARY KEY (id);
INSERT INTO t VALUES (1, 1), (2, 1), (3, 1);
@error 23505
INSERT INTO t VALUES (1, 2), (2, 2), (3, 2), (2, 1), (1, 3);
@error 23505
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(2, 1000) g UNION ALL SELECT 1, 1;
@error 23505
INSERT INTO t VALUES (1, 5), (2, 5), (3, 5), (3, 1);
@error 23505 loose
COPY t FROM STDIN;
1	7
2	7
3	7
2	1
1	8
\.
INSERT INTO t VALUES (1, 2), (2, 2), (3, 2);
SELECT * FROM t ORDER BY k, id;

== errors before the rows reach a shard
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@error 22012
INSERT INTO t SELECT 1, 100 / (50 - g) FROM generate_series(1, 60) g;
@error 22P02 loose
COPY t FROM STDIN;
1	1
1	x
\.
@error 22003
INSERT INTO t SELECT 1, 2147483600 + g FROM generate_series(1, 100) g;
INSERT INTO t VALUES (1, 1);

== constraints that wait for the commit
@table t ON s1
    id int, v int
    UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO t VALUES (1, 1), (2, 2);
@error 23505
INSERT INTO t VALUES (3, 3), (1, 4);
BEGIN;
INSERT INTO t VALUES (1, 5), (4, 4);
DELETE FROM t WHERE v = 1;
COMMIT;
BEGIN;
INSERT INTO t VALUES (2, 6), (5, 5);
SELECT count(*) FROM t;
@error 23505
COMMIT;
SELECT * FROM t ORDER BY v;

== the failing statement leaves the rest of its transaction alone
@eager
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
BEGIN;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
@error 23505
INSERT INTO t VALUES (3, 'c'), (1, 'd');
@error 25P02
INSERT INTO t VALUES (4, 'd');
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SAVEPOINT s;
@error 23505
INSERT INTO t VALUES (3, 'c'), (1, 'd');
ROLLBACK TO s;
INSERT INTO t VALUES (4, 'd');
COMMIT;
SELECT * FROM t ORDER BY id;
