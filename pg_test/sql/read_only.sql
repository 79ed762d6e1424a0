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
SET client_min_messages = error;
DROP SCHEMA ro_remote, ro_test CASCADE;
