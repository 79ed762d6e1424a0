-- What a transaction is told about constraints and writing after it began.

== set constraints, all of them
@eager
@table t ON s1
    id int, v int
    UNIQUE (id) DEFERRABLE;
@table u ON s2
    id int, v int
    UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO t VALUES (1, 1);
INSERT INTO u VALUES (1, 1);
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO t VALUES (1, 2), (2, 2);
INSERT INTO u VALUES (1, 2), (2, 2);
DELETE FROM t WHERE v = 1;
DELETE FROM u WHERE v = 1;
COMMIT;
@error 23505
INSERT INTO t VALUES (1, 3);
BEGIN;
INSERT INTO u VALUES (1, 3);
SAVEPOINT a;
@error 23505
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO a;
DELETE FROM u WHERE v = 2;
SET CONSTRAINTS ALL IMMEDIATE;
@error 23505
INSERT INTO u VALUES (1, 4);
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (10, 10);
SAVEPOINT a;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO t VALUES (10, 11);
ROLLBACK TO a;
SAVEPOINT b;
@error 23505
INSERT INTO t VALUES (10, 12);
ROLLBACK TO b;
SET CONSTRAINTS ALL DEFERRED;
RELEASE b;
INSERT INTO t VALUES (10, 13);
DELETE FROM t WHERE v = 10;
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO t VALUES (20, 20), (20, 21);
@error 23505
COMMIT;
SELECT * FROM t ORDER BY id, v;
SELECT * FROM u ORDER BY id, v;

== foreign keys in any order
@eager
@on s1
CREATE TABLE w.author (id int PRIMARY KEY);
@foreign
CREATE FOREIGN TABLE author (id int) SERVER s1 OPTIONS (schema_name 'w');
@table book ON s1
    id int, author int
    FOREIGN KEY (author) REFERENCES w.author DEFERRABLE;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book SELECT g, g % 30 FROM generate_series(1, 300) g;
INSERT INTO author SELECT g FROM generate_series(0, 29) g;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO book SELECT 1000 + g, g % 30 FROM generate_series(1, 300) g;
@error 23503
INSERT INTO book SELECT 2000 + g, g FROM generate_series(1, 300) g;
ROLLBACK;
CREATE FUNCTION add(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS ALL DEFERRED;
    INSERT INTO book VALUES (n, n);
    BEGIN
        SET CONSTRAINTS ALL IMMEDIATE;
    EXCEPTION WHEN foreign_key_violation THEN
        RAISE NOTICE 'missing %', SQLERRM;
    END;
    INSERT INTO author VALUES (n);
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN n;
END $$;
SELECT add(500), add(501);
CREATE TABLE many (n int);
INSERT INTO many SELECT add(g) FROM generate_series(600, 620) g;
COPY book FROM STDIN;
1	600
2	601
\.
SELECT count(*) FROM book;
SELECT count(*) FROM author;

== a transaction made read only
@eager
@on s1
CREATE TABLE w.trail (id int);
@table t ON s1
    id int;
@on s1
CREATE FUNCTION w.trail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO w.trail VALUES (NEW.id);
    RETURN NULL;
END $$;
@on s1
CREATE CONSTRAINT TRIGGER trail AFTER INSERT ON w.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION w.trail();
@foreign
CREATE FOREIGN TABLE trail (id int) SERVER s1 OPTIONS (schema_name 'w');
BEGIN;
INSERT INTO t VALUES (1);
SET TRANSACTION READ ONLY;
@error 25006 loose
COMMIT;
BEGIN;
INSERT INTO t VALUES (2);
SELECT set_config('transaction_read_only', 'on', false);
SELECT count(*) FROM t;
SAVEPOINT a;
@error 25006 loose
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO a;
@error 25006
INSERT INTO t VALUES (3);
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (4);
SAVEPOINT a;
INSERT INTO t VALUES (5);
SET TRANSACTION READ ONLY;
SELECT count(*) FROM t;
RELEASE a;
INSERT INTO t VALUES (6);
SAVEPOINT a;
SET TRANSACTION READ ONLY;
SELECT count(*) FROM t;
ROLLBACK TO a;
INSERT INTO t VALUES (7);
COMMIT;
SELECT * FROM t ORDER BY id;
SELECT * FROM trail ORDER BY id;

== scans that have begun do not see what checks write
@eager
@on s1
CREATE TABLE w.trail (id int);
@table t ON s1
    id int;
@on s1
CREATE FUNCTION w.trail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO w.trail VALUES (NEW.id);
    RETURN NULL;
END $$;
@on s1
CREATE CONSTRAINT TRIGGER trail AFTER INSERT ON w.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION w.trail();
@foreign
CREATE FOREIGN TABLE trail (id int) SERVER s1 OPTIONS (schema_name 'w');
CREATE FUNCTION seen(n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN n + (SELECT count(*) FROM trail);
END $$;
BEGIN;
INSERT INTO t VALUES (1), (2);
SELECT seen(id) FROM t UNION ALL SELECT id FROM trail ORDER BY 1;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO t VALUES (3), (4), (5);
SELECT count(*) FROM trail;
SELECT sum(n) FROM (SELECT seen(id) FROM t UNION ALL SELECT id FROM trail) AS x (n);
COMMIT;
SELECT id FROM trail ORDER BY id;

== set by a trigger of the statement
@eager
CREATE TABLE p (k int, id int) PARTITION BY LIST (k);
@table p1 ON s1 OF p FOR VALUES IN (1)
    k int, id int
    UNIQUE (id) DEFERRABLE;
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
CREATE FUNCTION set_them() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id > 0 THEN
        SET CONSTRAINTS ALL DEFERRED;
    ELSE
        SET CONSTRAINTS ALL IMMEDIATE;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER set_them BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION set_them();
BEGIN;
INSERT INTO p VALUES (2, 1), (1, 1), (1, 2), (1, 1);
DELETE FROM p1 WHERE id = 1;
COPY p FROM STDIN;
2	1
1	5
1	6
1	5
\.
DELETE FROM p1 WHERE id = 5;
INSERT INTO p VALUES (2, 0), (1, 7);
@error 23505 loose
INSERT INTO p VALUES (1, 2);
ROLLBACK;
BEGIN;
INSERT INTO p VALUES (2, 1), (1, 1), (1, 1);
@error 23505 loose
INSERT INTO p VALUES (2, 0), (1, 3);
ROLLBACK;
BEGIN;
COPY p FROM STDIN;
1	8
2	1
1	9
1	9
1	10
\.
INSERT INTO p VALUES (2, 1), (1, 11), (1, 11);
@error 23505 loose
COMMIT;
SELECT * FROM p ORDER BY k, id;

== a statement goes on after it has made its transaction read only
@table t ON s1
    id int;
CREATE FUNCTION freeze(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('transaction_read_only', 'on', false);
    PERFORM count(*) FROM t;
    RETURN n;
END $$;
INSERT INTO t SELECT freeze(g) FROM generate_series(1, 40) g;
INSERT INTO t SELECT freeze(g) FROM generate_series(41, 60) g RETURNING id;
UPDATE t SET id = freeze(id + 100) WHERE id < 10 AND random() < 2;
DELETE FROM t WHERE id BETWEEN 20 AND 30 AND freeze(1) = 1;
SELECT * FROM t ORDER BY id;
