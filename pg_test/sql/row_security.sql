-- Row security of a partitioned table above foreign partitions: core leaves the check of new rows to the wrapper.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA rls_remote;
CREATE SCHEMA rls_test;
SET search_path = rls_test;
CREATE ROLE rls_user;
CREATE USER MAPPING FOR rls_user SERVER loopback OPTIONS (user 'postgres', password_required 'false');
CREATE TABLE rls_remote.p1 (k int, owner text);
CREATE TABLE p (k int, owner text) PARTITION BY LIST (k);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES IN (1) SERVER loopback OPTIONS (schema_name 'rls_remote');
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON p USING (owner = current_user);
GRANT USAGE ON SCHEMA rls_test TO rls_user;
GRANT ALL ON p TO rls_user;
INSERT INTO p VALUES (1, 'other'), (2, 'other');
SET ROLE rls_user;

-- Both partitions answer the same.
INSERT INTO p VALUES (1, 'rls_user'), (2, 'rls_user');
INSERT INTO p VALUES (1, 'rls_user'), (1, 'other');
INSERT INTO p VALUES (2, 'rls_user'), (2, 'other');
SELECT k, owner FROM p ORDER BY k, owner;
UPDATE p SET owner = 'other' WHERE k = 2;
UPDATE p SET owner = 'other' WHERE k = 1;
UPDATE p SET owner = 'other' WHERE k = 1 RETURNING *;
UPDATE p SET owner = owner WHERE k = 1 RETURNING *;
DELETE FROM p WHERE k = 1 RETURNING *;
RESET ROLE;
SELECT k, owner FROM p ORDER BY k, owner;

-- A row that moves is checked where it arrives.
SET ROLE rls_user;
UPDATE p SET k = 1, owner = 'other' WHERE k = 2;
UPDATE p SET k = 1 WHERE k = 2;
RESET ROLE;
SELECT tableoid::regclass, k, owner FROM p ORDER BY k, owner;

SET client_min_messages = error;
DROP USER MAPPING FOR rls_user SERVER loopback;
DROP SCHEMA rls_remote, rls_test CASCADE;
DROP ROLE rls_user;
