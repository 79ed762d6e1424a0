-- SET CONSTRAINTS holds on the shards as it does here.
\set VERBOSITY terse
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA con_remote;
CREATE SCHEMA con_test;
SET search_path = con_test, public;
CREATE TABLE con_remote.author (id int PRIMARY KEY);
CREATE TABLE con_remote.book (id int, author int CONSTRAINT "Book's author" REFERENCES con_remote.author DEFERRABLE);
CREATE TABLE con_remote.loan (id int CONSTRAINT once UNIQUE DEFERRABLE INITIALLY DEFERRED, author int CONSTRAINT who REFERENCES con_remote.author
    DEFERRABLE INITIALLY DEFERRED);
CREATE FOREIGN TABLE author (id int) SERVER loopback OPTIONS (schema_name 'con_remote');
CREATE FOREIGN TABLE book (id int, author int) SERVER loopback OPTIONS (schema_name 'con_remote');
CREATE FOREIGN TABLE loan (id int, author int) SERVER loopback OPTIONS (schema_name 'con_remote');
\set VERBOSITY sqlstate
-- Said before the shard is used.
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book VALUES (1, 1);
INSERT INTO author VALUES (1);
COMMIT;
-- And afterwards.
BEGIN;
INSERT INTO author VALUES (2);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book VALUES (2, 3);
INSERT INTO author VALUES (3);
COMMIT;
-- It lasts until the transaction ends.
INSERT INTO book VALUES (3, 4);
-- The errors are those of SET.
BEGIN;
INSERT INTO loan VALUES (1, 1), (1, 1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO loan VALUES (1, 9);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO loan VALUES (1, 9);
ROLLBACK;
-- Rows that wait are sent first, under what counted when they were written.
SET shard_fdw.flush_policy = transaction;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book VALUES (4, 10);
INSERT INTO author VALUES (10);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
INSERT INTO book VALUES (5, 11);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO author VALUES (11);
COMMIT;
RESET shard_fdw.flush_policy;
-- In savepoints.
BEGIN;
INSERT INTO author VALUES (20);
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book VALUES (6, 21);
ROLLBACK TO s;
INSERT INTO book VALUES (6, 21);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO author VALUES (20);
ROLLBACK TO s;
INSERT INTO book VALUES (6, 20);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
RELEASE s;
INSERT INTO book VALUES (6, 20);
INSERT INTO author VALUES (20);
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
SAVEPOINT s;
INSERT INTO book VALUES (7, 22);
ROLLBACK TO s;
INSERT INTO book VALUES (7, 22);
INSERT INTO author VALUES (22);
COMMIT;
-- What a savepoint says does not concern rows that were written before it and wait.
SET shard_fdw.flush_policy = transaction;
BEGIN;
INSERT INTO book VALUES (8, 23);
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO author VALUES (23);
COMMIT;
RESET shard_fdw.flush_policy;
-- What fails can be taken back.
BEGIN;
INSERT INTO loan VALUES (2, 30);
SAVEPOINT s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
INSERT INTO author VALUES (30);
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO loan VALUES (3, 31);
ROLLBACK;
-- In functions.
DO $$ BEGIN
    INSERT INTO loan VALUES (4, 888);
    SET CONSTRAINTS ALL IMMEDIATE;
    RAISE EXCEPTION 'not checked';
EXCEPTION WHEN foreign_key_violation THEN
    RAISE WARNING 'caught';
END $$;
CREATE TABLE note (id int);
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    SET CONSTRAINTS ALL DEFERRED;
    INSERT INTO book VALUES (new.id, new.id);
    INSERT INTO author VALUES (new.id);
    RETURN new;
END $$;
CREATE TRIGGER later BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION later();
INSERT INTO note VALUES (40), (41);
COPY note FROM STDIN;
42
\.
-- Outside of a transaction block it does nothing.
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO book VALUES (9, 50);
-- The error has all its fields.
\set VERBOSITY verbose
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE FUNCTION fields() RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text; m text; d text; t text; c text; x text;
BEGIN
    INSERT INTO loan VALUES (5, 60);
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN 'not checked';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, t = TABLE_NAME, c = CONSTRAINT_NAME,
        x = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws(E'\n', s, m, d, t, c, split_part(x, E'\nSQL statement', 1));
END $$;
SELECT fields();
-- Those of statements that are not followed, too: from a function, with its place and context.
CREATE TYPE con_test.mood AS ENUM ('glad');
CREATE FUNCTION others() RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text; m text; h text; x text;
BEGIN
    ALTER TYPE con_test.mood ADD VALUE 'sad' BEFORE 'mad';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT, h = PG_EXCEPTION_HINT, x = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws('|', s, m, h, replace(x, E'\n', ' '));
END $$;
SELECT others();
CREATE TABLE pair (a int, b int);
ALTER TABLE pair ADD CONSTRAINT positive CHECK (a > 0);
CREATE FUNCTION violated() RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text; d text; t text; c text;
BEGIN
    INSERT INTO pair VALUES (-1, 1);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, d = PG_EXCEPTION_DETAIL, t = TABLE_NAME, c = CONSTRAINT_NAME;
    RETURN concat_ws('|', s, d, t, c);
END $$;
SELECT violated();
SET client_min_messages = warning;
\set VERBOSITY sqlstate
-- Names are local.
BEGIN;
SET CONSTRAINTS who IMMEDIATE;
ROLLBACK;
-- Those of the shard.
BEGIN;
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote."Book''s author"', 'Con_Remote.Who'], true);
INSERT INTO book VALUES (10, 70);
INSERT INTO author VALUES (70);
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote."Book''s author"'], false);
INSERT INTO book VALUES (11, 71);
ROLLBACK;
BEGIN;
INSERT INTO loan VALUES (6, 72);
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.once'], false);
SAVEPOINT s;
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.who'], false);
ROLLBACK TO s;
INSERT INTO author VALUES (72);
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.who'], false);
SAVEPOINT s;
INSERT INTO loan VALUES (6, 72);
ROLLBACK TO s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO loan VALUES (6, 73);
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.once', 'con_remote.who'], false);
ROLLBACK;
-- ALL counts for those that were named before, also if it says the same again.
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.who'], false);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO loan VALUES (7, 74);
INSERT INTO author VALUES (74);
COMMIT;
\set VERBOSITY terse
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.nobody'], true);
SELECT shard_fdw_set_constraints('loopback', ARRAY['once'], true);
SELECT shard_fdw_set_constraints('loopback', ARRAY['x"; DROP TABLE y'], true);
SELECT shard_fdw_set_constraints('loopback', ARRAY['"x"".y; DROP TABLE y"'], true);
SELECT shard_fdw_set_constraints('loopback', '{}', true);
SELECT shard_fdw_set_constraints('loopback', ARRAY['con_remote.who', NULL], true);
SELECT shard_fdw_set_constraints('nowhere', ARRAY['con_remote.who'], true);
SELECT shard_fdw_set_constraints(NULL, ARRAY['con_remote.who'], true);
SELECT id, author FROM book ORDER BY id;
SELECT id, author FROM loan ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA con_remote, con_test CASCADE;
