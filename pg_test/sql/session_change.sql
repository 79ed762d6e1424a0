-- A server that is altered while a scan that was begun before waits: the statements after it must not get a second
-- connection, on which they would wait for the rows that the scan has locked.
\set VERBOSITY terse
SET client_min_messages = warning;
SET statement_timeout = '20s';
CREATE SCHEMA sc_remote;
CREATE SCHEMA sc_test;
SET search_path = sc_test, public;
CREATE TABLE sc_remote.t (id int, v int);
INSERT INTO sc_remote.t VALUES (1, 1), (2, 2);
CREATE FOREIGN TABLE t (id int, v int) SERVER loopback OPTIONS (schema_name 'sc_remote');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE;
ALTER SERVER loopback OPTIONS (ADD fdw_startup_cost '101');
UPDATE t SET v = 10 WHERE id = 1;
FETCH ALL FROM c;
UPDATE t SET v = 20 WHERE id = 2;
SELECT * FROM t ORDER BY id;
SELECT count(*) FROM shard_fdw_connections() WHERE used_in_xact;
COMMIT;
SELECT * FROM sc_remote.t ORDER BY id;
ALTER SERVER loopback OPTIONS (DROP fdw_startup_cost);
SET client_min_messages = error;
DROP SCHEMA sc_remote, sc_test CASCADE;
