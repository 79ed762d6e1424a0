-- The remote transaction is READ ONLY exactly as long as the local one, also where only a savepoint is.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA ro_remote;
CREATE SCHEMA ro_test;
SET search_path = ro_test;
CREATE TABLE ro_remote.t (id int);
CREATE VIEW ro_remote.mode AS SELECT current_setting('transaction_read_only') AS read_only;
CREATE FOREIGN TABLE t (id int) SERVER loopback OPTIONS (schema_name 'ro_remote');
CREATE FOREIGN TABLE mode (read_only text) SERVER loopback OPTIONS (schema_name 'ro_remote');
BEGIN READ ONLY;
SELECT * FROM mode;
SAVEPOINT s;
SELECT * FROM mode;
COMMIT;
-- First used inside a savepoint.
BEGIN READ ONLY;
SAVEPOINT s;
SELECT * FROM mode;
ROLLBACK TO s;
RELEASE s;
SELECT * FROM mode;
COMMIT;
-- Only the savepoint is, and it is undone.
BEGIN;
SAVEPOINT s;
SET TRANSACTION READ ONLY;
SELECT * FROM mode;
ROLLBACK TO s;
INSERT INTO t VALUES (1);
COMMIT;
-- Or released.
BEGIN;
SAVEPOINT s;
SET TRANSACTION READ ONLY;
SAVEPOINT s2;
SELECT * FROM mode;
RELEASE s2;
SELECT * FROM mode;
RELEASE s;
SELECT * FROM mode;
COMMIT;
BEGIN;
INSERT INTO t VALUES (2);
SAVEPOINT s;
SET TRANSACTION READ ONLY;
SELECT * FROM mode;
ROLLBACK TO s;
INSERT INTO t VALUES (3);
COMMIT;
SELECT * FROM t ORDER BY id;
-- What the shard does at COMMIT must not write either.
SET client_min_messages = warning;
\set VERBOSITY sqlstate
CREATE TABLE ro_remote.trail (id int);
CREATE FUNCTION ro_remote.trail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ro_remote.trail VALUES (new.id); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER trail AFTER INSERT ON ro_remote.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ro_remote.trail();
BEGIN;
INSERT INTO t VALUES (10);
SET TRANSACTION READ ONLY;
COMMIT;
BEGIN;
INSERT INTO t VALUES (11);
SET TRANSACTION READ ONLY;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (12);
SET TRANSACTION READ ONLY;
RELEASE s;
COMMIT;
BEGIN;
INSERT INTO t VALUES (13);
SELECT set_config('transaction_read_only', 'on', true);
SAVEPOINT s;
SELECT * FROM mode;
RELEASE s;
COMMIT;
-- Rows that wait were written before.
SET shard_fdw.flush_policy = transaction;
BEGIN;
INSERT INTO t VALUES (14);
SAVEPOINT s;
INSERT INTO t VALUES (15);
SET TRANSACTION READ ONLY;
SELECT * FROM mode;
RELEASE s;
INSERT INTO t VALUES (16);
COMMIT;
ALTER TABLE ro_remote.t DISABLE TRIGGER trail;
BEGIN;
INSERT INTO t VALUES (17);
SET TRANSACTION READ ONLY;
COMMIT;
RESET shard_fdw.flush_policy;
-- A statement that has begun goes on, as it does for local tables.
CREATE TABLE local (id int);
CREATE FUNCTION freeze(id int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    PERFORM count(*) FROM mode;
    RETURN id;
END $$;
INSERT INTO local SELECT freeze(g) FROM generate_series(20, 22) g;
INSERT INTO t SELECT freeze(g) FROM generate_series(20, 22) g;
INSERT INTO t SELECT freeze(g) FROM generate_series(23, 24) g RETURNING id;
UPDATE t SET id = freeze(id + 10) WHERE id IN (20, 21);
DELETE FROM t WHERE id = 22 AND freeze(1) = 1;
SELECT id FROM local;
SELECT id FROM t ORDER BY id;
SELECT id FROM ro_remote.trail ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA ro_remote, ro_test CASCADE;
