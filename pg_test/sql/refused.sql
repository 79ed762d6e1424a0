-- What a shard refuses belongs to the (sub)transaction whose statement it was: the one outside goes on, with all it has done.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE SCHEMA ref_remote;
CREATE SCHEMA ref_test;
SET search_path = ref_test, public;
CREATE ROLE regress_ref_clerk LOGIN;
CREATE TABLE ref_remote.t (id int PRIMARY KEY, v int, word text DEFAULT 'x');
CREATE TABLE ref_remote.secret (id int);
GRANT USAGE ON SCHEMA ref_remote TO regress_ref_clerk;
GRANT ALL ON ref_remote.t TO regress_ref_clerk;
CREATE SERVER ref FOREIGN DATA WRAPPER shard_fdw;
DO $$
BEGIN
    EXECUTE format('ALTER SERVER ref OPTIONS (ADD host %L, ADD port %L, ADD dbname %L)',
        'localhost', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER ref OPTIONS (user 'regress_ref_clerk');
CREATE FOREIGN TABLE t (id int, v int) SERVER ref OPTIONS (schema_name 'ref_remote', fetch_size '2');
CREATE FOREIGN TABLE no_table (id int, v int) SERVER ref OPTIONS (schema_name 'ref_remote');
CREATE FOREIGN TABLE no_column (id int, bay int) SERVER ref OPTIONS (schema_name 'ref_remote', table_name 't');
CREATE FOREIGN TABLE no_right (id int) SERVER ref OPTIONS (schema_name 'ref_remote', table_name 'secret');
CREATE FOREIGN TABLE no_number (id int, word int) SERVER ref OPTIONS (schema_name 'ref_remote', table_name 't');
SET client_min_messages = notice;

-- Each statement in a block that catches its error, between rows that are read and written outside.
CREATE PROCEDURE attempt(statement text) LANGUAGE plpgsql AS $$
DECLARE
    n int;
    state text;
    before int;
    open_scan CURSOR FOR SELECT id FROM t ORDER BY id;
BEGIN
    SELECT count(*) INTO before FROM t;
    INSERT INTO t VALUES (before * 10 + 1000, 0);
    -- A scan of the outer level that nobody has read from.
    OPEN open_scan;
    BEGIN
        EXECUTE statement;
        state := 'no error';
    EXCEPTION WHEN OTHERS THEN
        state := SQLSTATE;
    END;
    INSERT INTO t VALUES (before * 10 + 1001, 0);
    FETCH open_scan INTO n;
    CLOSE open_scan;
    RAISE NOTICE '%: %; row % is first, % more', statement, state, n, (SELECT count(*) FROM t) - before;
END $$;
INSERT INTO t VALUES (1, 1), (2, 0), (3, 3);
CALL attempt('SELECT count(*) FROM no_table');
CALL attempt('SELECT bay FROM no_column');
CALL attempt('SELECT * FROM no_right');
CALL attempt('SELECT word FROM no_number');
CALL attempt('SELECT 1 FROM t WHERE 10 / v > 0 AND id < 4');
CALL attempt('SELECT count(*) FROM t JOIN no_table USING (id)');
CALL attempt('UPDATE no_column SET bay = 1 WHERE random() < 2');
CALL attempt('UPDATE no_column SET bay = 1');
CALL attempt('UPDATE t SET v = 10 / v WHERE id < 4');
CALL attempt('UPDATE t SET v = 10 / v WHERE id < 4 AND random() < 2');
CALL attempt('DELETE FROM no_table WHERE random() < 2');
CALL attempt('DELETE FROM no_right');
CALL attempt('DELETE FROM no_right RETURNING id');
CALL attempt('INSERT INTO no_table VALUES (1, 2)');
CALL attempt('INSERT INTO no_column SELECT 5, g FROM generate_series(1, 3) g RETURNING id');
CALL attempt('INSERT INTO no_right VALUES (1)');
CALL attempt('INSERT INTO t SELECT id, id FROM no_table');
CALL attempt('INSERT INTO t VALUES (1, 1) RETURNING id');
CALL attempt('TRUNCATE no_table');
CALL attempt('TRUNCATE no_right');
CALL attempt('IMPORT FOREIGN SCHEMA nowhere FROM SERVER ref INTO ref_test');
CALL attempt('COPY no_table FROM PROGRAM ''echo 1,2'' (FORMAT csv)');
CALL attempt('COPY no_right FROM PROGRAM ''echo 1''');
CALL attempt('SELECT shard_fdw_nextval(''ref'', ''nowhere'')');
SELECT count(*), count(*) FILTER (WHERE id >= 1000) FROM ref_remote.t;
ALTER FOREIGN TABLE no_table OPTIONS (ADD transport 'copy');
CALL attempt('INSERT INTO no_table VALUES (1, 2)');
SET shard_fdw.flush_policy = transaction;
CALL attempt('INSERT INTO no_column VALUES (1, 2)');
CALL attempt('INSERT INTO t VALUES (1, 2)');
CALL attempt('INSERT INTO t VALUES (1, 2); SELECT shard_fdw_flush()');
RESET shard_fdw.flush_policy;
DELETE FROM ref_remote.t WHERE id > 3;

-- A savepoint around each statement, as some drivers do it.
BEGIN;
SAVEPOINT auto;
INSERT INTO t VALUES (10, 1);
RELEASE auto;
SAVEPOINT auto;
SELECT * FROM no_right;
ROLLBACK TO auto;
RELEASE auto;
SAVEPOINT auto;
UPDATE no_column SET bay = 1 WHERE random() < 2;
ROLLBACK TO auto;
RELEASE auto;
SAVEPOINT auto;
INSERT INTO t VALUES (11, 1);
RELEASE auto;
COMMIT;
SELECT id FROM ref_remote.t WHERE id >= 10 ORDER BY id;

-- Nothing outside has used the shard.
BEGIN;
SAVEPOINT a;
SAVEPOINT b;
SELECT * FROM no_table;
ROLLBACK TO b;
SELECT * FROM no_right;
ROLLBACK TO a;
INSERT INTO t VALUES (12, 1);
COMMIT;
SELECT id FROM ref_remote.t WHERE id >= 12 ORDER BY id;

-- Cursors that cannot be read, opened outside. They fail where they are read, and the transaction goes on.
BEGIN;
DECLARE bad CURSOR FOR SELECT bay FROM no_column;
DECLARE good CURSOR FOR SELECT id FROM t ORDER BY id;
DECLARE worse CURSOR FOR SELECT * FROM no_table;
INSERT INTO ref_remote.t VALUES (99);
SAVEPOINT a;
SAVEPOINT b;
INSERT INTO t VALUES (13, 1);
FETCH 2 FROM good;
FETCH 1 FROM bad;
ROLLBACK TO b;
FETCH 1 FROM bad;
ROLLBACK TO a;
FETCH 2 FROM good;
INSERT INTO t VALUES (14, 1);
SAVEPOINT c;
FETCH 1 FROM worse;
ROLLBACK TO c;
INSERT INTO t VALUES (15, 1);
COMMIT;
SELECT id FROM ref_remote.t WHERE id >= 13 ORDER BY id;

-- Without a savepoint: a statement is not refused because a cursor will be.
BEGIN;
DECLARE bad CURSOR FOR SELECT bay FROM no_column;
DECLARE good CURSOR FOR SELECT id FROM t WHERE id < 4 ORDER BY id;
DECLARE worse CURSOR FOR SELECT * FROM no_table;
INSERT INTO t VALUES (0, 1);
DELETE FROM t WHERE id = 3 RETURNING id;
FETCH 5 FROM good;
SELECT id FROM t WHERE id < 4 ORDER BY id;
SAVEPOINT a;
FETCH 1 FROM worse;
ROLLBACK TO a;
FETCH 1 FROM bad;
ROLLBACK;

-- Cursors at several levels, none of them read before the deepest one.
BEGIN;
DECLARE one CURSOR FOR SELECT id FROM t ORDER BY id;
SAVEPOINT a;
DECLARE bad CURSOR FOR SELECT * FROM no_right;
DECLARE two CURSOR FOR SELECT id + 100 FROM t ORDER BY id;
SAVEPOINT b;
DECLARE three CURSOR FOR SELECT id + 200 FROM t ORDER BY id;
SAVEPOINT c;
FETCH 1 FROM three;
FETCH 1 FROM two;
FETCH 1 FROM one;
ROLLBACK TO c;
FETCH 1 FROM three;
ROLLBACK TO b;
FETCH 1 FROM two;
SAVEPOINT d;
FETCH 1 FROM bad;
ROLLBACK TO d;
FETCH 1 FROM two;
ROLLBACK TO a;
FETCH 1 FROM one;
COMMIT;

-- One that fails when some rows have been read, in a savepoint.
BEGIN;
INSERT INTO t VALUES (50, 1), (51, 2), (52, 0);
DECLARE c CURSOR FOR SELECT id FROM t WHERE 10 / v > 0 AND id BETWEEN 50 AND 59;
FETCH 2 FROM c;
SAVEPOINT a;
FETCH 1 FROM c;
ROLLBACK TO a;
FETCH 1 FROM c;
ROLLBACK TO a;
INSERT INTO t VALUES (16, 1);
COMMIT;
SELECT id FROM ref_remote.t WHERE id = 16;

-- A scan of the running statement that comes after a function has been at work in a block of its own: the error is the
-- statement's, and no block has it.
CREATE FUNCTION busy(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t VALUES (200 + i, 1);
    RETURN i;
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'caught %', SQLSTATE;
    RETURN 0;
END $$;
SELECT busy(id) FROM t WHERE id < 3 UNION ALL SELECT id FROM no_table;
SELECT count(*) FROM ref_remote.t WHERE id > 200;
DO $$
BEGIN
    PERFORM busy(id) FROM t WHERE id < 3 UNION ALL SELECT id FROM no_table;
EXCEPTION WHEN undefined_table THEN
    PERFORM busy(7);
END $$;
SELECT id FROM ref_remote.t WHERE id > 200 ORDER BY id;

-- Rows of the outer level that the shard refuses while a block is at work: the block's handler cannot swallow that.
INSERT INTO t SELECT CASE i WHEN 2 THEN busy(9) ELSE i END, 1 FROM generate_series(1, 3) i;
SELECT count(*) FROM ref_remote.t WHERE id = 209;
DO $$
BEGIN
    BEGIN
        INSERT INTO t SELECT CASE i WHEN 2 THEN busy(9) ELSE i END, 1 FROM generate_series(1, 3) i;
    EXCEPTION WHEN unique_violation THEN
        RAISE NOTICE 'outside %', SQLSTATE;
    END;
    PERFORM busy(10);
END $$;
SELECT id FROM ref_remote.t WHERE id > 208 ORDER BY id;

-- A connection that cannot be made, in a savepoint: outside it is tried again.
BEGIN;
SAVEPOINT a;
ALTER SERVER ref OPTIONS (ADD session_settings 'work_mem=none');
SELECT count(*) FROM t;
ROLLBACK TO a;
SELECT count(*) FROM t;
COMMIT;

SET client_min_messages = error;
DROP SCHEMA ref_remote, ref_test CASCADE;
DROP SERVER ref CASCADE;
DROP ROLE regress_ref_clerk;
