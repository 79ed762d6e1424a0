-- Savepoints, EXCEPTION blocks and functions within statements: what is undone, and nothing else.

== savepoints undo exactly their rows
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, v int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
BEGIN;
INSERT INTO t SELECT 1 + g % 3, g FROM generate_series(1, 30) g;
SAVEPOINT a;
INSERT INTO t SELECT 1 + g % 3, 100 + g FROM generate_series(1, 30) g;
SAVEPOINT b;
INSERT INTO t SELECT 1 + g % 3, 200 + g FROM generate_series(1, 30) g;
DELETE FROM t WHERE v < 10;
SELECT count(*), sum(v) FROM t;
ROLLBACK TO b;
SELECT count(*), sum(v) FROM t;
INSERT INTO t SELECT 1 + g % 3, 300 + g FROM generate_series(1, 5) g;
RELEASE b;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM t;
INSERT INTO t VALUES (1, 1000), (2, 1000), (3, 1000);
COMMIT;
SELECT count(*), sum(v) FROM t;
BEGIN;
INSERT INTO t VALUES (1, 2000), (2, 2000);
ROLLBACK;
SELECT count(*), sum(v) FROM t;

== savepoints of one name, released and used again
@table t ON s1
    id int;
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (1);
SAVEPOINT a;
INSERT INTO t VALUES (2);
SAVEPOINT a;
INSERT INTO t VALUES (3);
ROLLBACK TO a;
RELEASE a;
INSERT INTO t VALUES (4);
ROLLBACK TO a;
INSERT INTO t VALUES (5);
ROLLBACK TO a;
ROLLBACK TO a;
INSERT INTO t VALUES (6);
RELEASE a;
INSERT INTO t VALUES (7);
COMMIT;
SELECT * FROM t ORDER BY id;

== a shard first used below a savepoint
@table t ON s1
    id int;
@table u ON s2
    id int;
BEGIN;
INSERT INTO t VALUES (1);
SAVEPOINT a;
SAVEPOINT b;
INSERT INTO u VALUES (1), (2);
ROLLBACK TO b;
INSERT INTO u VALUES (3);
ROLLBACK TO a;
INSERT INTO u VALUES (4);
COMMIT;
SELECT * FROM u ORDER BY id;

== an exception block catches the error of its own rows
@eager
@table t ON s1
    id int
    PRIMARY KEY (id);
CREATE TABLE trail (n serial, line text);
DO $$
BEGIN
    FOR i IN 1..4 LOOP
        BEGIN
            INSERT INTO t VALUES (1), (10 + i);
            INSERT INTO trail (line) VALUES ('stored ' || i);
        EXCEPTION WHEN unique_violation THEN
            INSERT INTO trail (line) VALUES ('caught ' || i || ' ' || SQLERRM);
        END;
    END LOOP;
END $$;
SELECT * FROM trail ORDER BY n;
SELECT * FROM t ORDER BY id;

== nested exception blocks
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int
    PRIMARY KEY (id);
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int
    PRIMARY KEY (id);
DO $$
BEGIN
    INSERT INTO t VALUES (1, 1), (2, 1);
    BEGIN
        INSERT INTO t VALUES (1, 2), (2, 2);
        BEGIN
            INSERT INTO t VALUES (1, 3), (2, 3), (1, 1);
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'inner %', SQLSTATE;
            INSERT INTO t VALUES (1, 4), (2, 4);
        END;
        BEGIN
            INSERT INTO t VALUES (1, 5), (2, 5);
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            RAISE NOTICE 'divided, % rows', (SELECT count(*) FROM t);
        END;
        INSERT INTO t VALUES (2, 6), (2, 2);
    EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE 'middle %, % rows', SQLERRM, (SELECT count(*) FROM t);
        INSERT INTO t VALUES (1, 7), (2, 7);
    END;
    INSERT INTO t VALUES (1, 8), (2, 8);
END $$;
SELECT * FROM t ORDER BY k, id;

== what the stacked diagnostics say
@table t ON s1
    id int
    PRIMARY KEY (id);
INSERT INTO t VALUES (1);
DO $$
DECLARE m text; d text; c text; s text; r text;
BEGIN
    INSERT INTO t VALUES (2), (1);
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, c = CONSTRAINT_NAME, s = SCHEMA_NAME, r = TABLE_NAME;
    RAISE NOTICE '% | % | % | % | %', m, d, c, s, r;
END $$;

== a bad row waits while an inner block swallows everything
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
@table log ON s1
    id int;
CREATE FUNCTION swallow(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO log VALUES (n);
        IF n % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
    EXCEPTION WHEN OTHERS THEN
        RETURN -n;
    END;
    RETURN n;
END $$;
INSERT INTO t SELECT g, swallow(g) FROM generate_series(1, 20) g;
SELECT * FROM t ORDER BY id;
SELECT * FROM log ORDER BY id;
@error 23505
INSERT INTO t SELECT g, swallow(g) FROM generate_series(20, 40) g;
SELECT count(*) FROM t;
SELECT count(*) FROM log;
DO $$
BEGIN
    BEGIN
        INSERT INTO t SELECT g, swallow(g) FROM generate_series(20, 40) g;
    EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE 'caught %', SQLERRM;
    END;
    INSERT INTO t SELECT g, swallow(g) FROM generate_series(21, 30) g;
END $$;
SELECT * FROM t ORDER BY id;
SELECT * FROM log ORDER BY id;

== a function reads and writes below the level of the rows that wait
@table t ON s1
    id int, n bigint;
CREATE FUNCTION look(i int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    SELECT count(*) INTO n FROM t;
    BEGIN
        INSERT INTO t VALUES (1000 + i, n);
        IF i % 3 = 0 THEN RAISE EXCEPTION 'undo'; END IF;
    EXCEPTION WHEN raise_exception THEN
        NULL;
    END;
    RETURN n;
END $$;
INSERT INTO t SELECT g, look(g) FROM generate_series(1, 15) g;
SELECT * FROM t ORDER BY id;

== loops with a block for each row
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int
    PRIMARY KEY (id);
@table t2 ON s2 OF t FOR VALUES IN (1)
    k int, id int
    PRIMARY KEY (id);
CREATE TABLE bad (id int, why text);
DO $$
BEGIN
    FOR i IN 1..60 LOOP
        BEGIN
            INSERT INTO t VALUES (i % 2, i % 23);
        EXCEPTION WHEN unique_violation THEN
            INSERT INTO bad VALUES (i, SQLSTATE);
        END;
    END LOOP;
END $$;
SELECT k, count(*), sum(id) FROM t GROUP BY k ORDER BY k;

== procedures that commit
@table t ON s1
    id int
    PRIMARY KEY (id);
CREATE PROCEDURE load(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..n LOOP
        INSERT INTO t SELECT i * 100 + g FROM generate_series(1, 10) g;
        IF i % 2 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$;
CALL load(5);
SELECT count(*), min(id), max(id) FROM t;

== an error in a later statement of one query string
@table t ON s1
    id int
    PRIMARY KEY (id);
@error 22012
INSERT INTO t VALUES (1), (2); SELECT 1 / 0;
SELECT count(*) FROM t;
INSERT INTO t VALUES (1), (2); INSERT INTO t VALUES (3);
SELECT count(*) FROM t;
