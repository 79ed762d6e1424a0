-- A connection that is lost inside a savepoint: whatever an outer level has done or read on it must not be forgotten.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA loss_remote;
CREATE SCHEMA loss_test;
SET search_path = loss_test, public;
CREATE TABLE loss_remote.t (id int);
CREATE FOREIGN TABLE t (id int) SERVER loopback OPTIONS (schema_name 'loss_remote', fetch_size '2');
INSERT INTO t VALUES (1), (2), (3), (4), (5);
CREATE FUNCTION cut() RETURNS boolean LANGUAGE sql AS
    'SELECT bool_and(pg_terminate_backend(remote_backend_pid, 10000)) FROM shard_fdw_connections()';

-- Nothing of the outer level is on it: the transaction goes on with another connection.
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (10);
SELECT cut();
INSERT INTO t VALUES (11);
ROLLBACK TO s;
INSERT INTO t VALUES (12);
COMMIT;
SELECT id FROM t WHERE id >= 10 ORDER BY id;

-- It began inside a savepoint that was undone, and was used outside since.
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (20);
ROLLBACK TO s;
INSERT INTO t VALUES (21);
SAVEPOINT s2;
SELECT cut();
INSERT INTO t VALUES (22);
ROLLBACK TO s2;
INSERT INTO t VALUES (23);
COMMIT;
SELECT id FROM t WHERE id >= 20 ORDER BY id;

-- The same without an error outside: COMMIT finds it.
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (30);
ROLLBACK TO s;
INSERT INTO t VALUES (31);
SAVEPOINT s2;
SELECT cut();
INSERT INTO t VALUES (32);
ROLLBACK TO s2;
COMMIT;
SELECT id FROM t WHERE id >= 30 ORDER BY id;

-- An outer scan that nobody has read from is not lost with it.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id < 10;
SAVEPOINT s;
INSERT INTO t VALUES (40);
SELECT cut();
INSERT INTO t VALUES (41);
ROLLBACK TO s;
FETCH ALL FROM c;
COMMIT;
SELECT id FROM t WHERE id >= 40 ORDER BY id;

-- One that was read from cannot go on: it would show rows twice.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE id < 10;
SAVEPOINT s;
FETCH 1 FROM c;
SELECT cut();
INSERT INTO t VALUES (50);
ROLLBACK TO s;
FETCH 1 FROM c;
FETCH 1 FROM c;
COMMIT;

-- A block that ends well but for one of its connections, whose loss nobody outside had seen: it is undone on the others too.
CREATE SERVER loss_other FOREIGN DATA WRAPPER shard_fdw;
DO $$
BEGIN
    EXECUTE format('ALTER SERVER loss_other OPTIONS (ADD host %L, ADD port %L, ADD dbname %L)',
        'localhost', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER loss_other;
CREATE FOREIGN TABLE other (id int) SERVER loss_other OPTIONS (schema_name 'loss_remote', table_name 't');
SET client_min_messages = notice;
DO $$
BEGIN
    BEGIN
        INSERT INTO t VALUES (60);
        INSERT INTO other VALUES (61);
        PERFORM pg_terminate_backend(remote_backend_pid, 10000) FROM shard_fdw_connections() WHERE server_name = 'loss_other';
        BEGIN
            INSERT INTO other VALUES (62);
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'inside %', SQLSTATE;
        END;
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE 'outside %', SQLSTATE;
    END;
    INSERT INTO t VALUES (63);
    INSERT INTO other VALUES (64);
END $$;
SELECT id FROM t WHERE id >= 60 ORDER BY id;

SET client_min_messages = error;
DROP SCHEMA loss_remote, loss_test CASCADE;
DROP SERVER loss_other CASCADE;
