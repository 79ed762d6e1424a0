-- Values of sequences on foreign servers.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA sequences;
SET search_path = sequences, public;
DO $$
BEGIN
    EXECUTE format('CREATE SERVER seq FOREIGN DATA WRAPPER shard_fdw OPTIONS (host %L, port %L, dbname %L)',
        'localhost', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER seq;
CREATE VIEW held AS
    SELECT server_name, sequence_name, cached_from, cached_to, cached_left, refills, values_drawn
    FROM public.shard_fdw_sequences();
-- What became of a statement: its value, or SQLSTATE and message of its error.
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE value text;
BEGIN
    EXECUTE statement INTO value;
    RETURN value;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- All values up to the error: how many, the first, the last, how many of them are not at the distance of the step.
CREATE FUNCTION drain(name text, step bigint, OUT number bigint, OUT first bigint, OUT last bigint, OUT gaps bigint, OUT error text)
LANGUAGE plpgsql AS $$
DECLARE value bigint;
BEGIN
    number := 0; gaps := 0;
    LOOP
        value := public.shard_fdw_nextval('seq', name);
        number := number + 1;
        gaps := gaps + coalesce(value <> last + step, false)::int;
        last := value;
        first := coalesce(first, value);
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    error := SQLSTATE || ': ' || SQLERRM;
END $$;

-- Names are those of SQL; without a schema they mean public, whatever the search path.
CREATE SEQUENCE public.seq_ids CACHE 4;
CREATE SEQUENCE sequences.seq_ids START 100;
CREATE SEQUENCE sequences."Odd ""name""." START 7;
SET shard_fdw.sequence_range = 4;
SELECT shard_fdw_nextval('seq', 'seq_ids'), shard_fdw_nextval('seq', 'SEQ_IDS'), shard_fdw_nextval('seq', ' "public" . "seq_ids" ');
SELECT shard_fdw_currval('seq', 'public.seq_ids');
SELECT * FROM held;
SELECT shard_fdw_nextval('seq', 'sequences.seq_ids'), shard_fdw_nextval('seq', 'sequences."Odd ""name""." ');
SELECT server_name, sequence_name FROM held;

-- Bad input.
CREATE TABLE sequences.no_sequence (a int);
CREATE FOREIGN DATA WRAPPER seq_other;
CREATE SERVER seq_other FOREIGN DATA WRAPPER seq_other;
SELECT try($$SELECT shard_fdw_nextval('no such server', 'seq_ids')$$);
SELECT try($$SELECT shard_fdw_nextval('seq_other', 'seq_ids')$$);
SELECT try($$SELECT shard_fdw_nextval('seq', 'no_such_sequence')$$);
SELECT try($$SELECT shard_fdw_nextval('seq', 'no_such_schema.seq')$$);
SELECT left(try($$SELECT shard_fdw_nextval('seq', 'sequences.no_sequence')$$), 5);
SELECT try($$SELECT shard_fdw_nextval('seq', 'a.b.c')$$);
SELECT try($$SELECT shard_fdw_nextval('seq', 'a..b')$$);
SELECT try($$SELECT shard_fdw_nextval('seq', '')$$);
SELECT try($$SELECT shard_fdw_nextval('seq', NULL)$$), try($$SELECT shard_fdw_nextval(NULL, 'seq_ids')$$);
SELECT try($$SELECT shard_fdw_currval('seq', 'never_used')$$);
SELECT try($$SELECT shard_fdw_setval('seq', 'seq_ids', 0)$$);
SELECT left(try($$SELECT shard_fdw_setval('seq', 'sequences.no_sequence', 1)$$), 5);
SELECT try($$SET shard_fdw.sequence_range = 0$$);
BEGIN READ ONLY;
SELECT shard_fdw_nextval('seq', 'seq_ids');
ROLLBACK;
-- None of that shows.
SELECT count(*) FROM held;

-- Nothing comes back with ROLLBACK, and the data connection is not used.
BEGIN;
SELECT shard_fdw_nextval('seq', 'seq_ids');
SAVEPOINT s;
SELECT shard_fdw_nextval('seq', 'seq_ids');
ROLLBACK TO s;
SELECT shard_fdw_nextval('seq', 'seq_ids');
SELECT server_name, used_in_xact, used_for FROM shard_fdw_connections() WHERE server_name = 'seq';
ROLLBACK;
SELECT shard_fdw_nextval('seq', 'seq_ids'), shard_fdw_currval('seq', 'seq_ids');

-- Other draws from the sequence go their own way.
SELECT nextval('public.seq_ids') > 8 AS later;
SELECT try($$SELECT array_agg(shard_fdw_nextval('seq', 'seq_ids')) FROM generate_series(1, 3)$$) AS after_the_other_four;

-- setval drops what is held; currval follows unless the value is still to come.
SELECT shard_fdw_setval('seq', 'seq_ids', 1000), shard_fdw_currval('seq', 'seq_ids'), shard_fdw_nextval('seq', 'seq_ids');
SELECT shard_fdw_setval('seq', 'seq_ids', 2000, false), shard_fdw_currval('seq', 'seq_ids'), shard_fdw_nextval('seq', 'seq_ids');
SELECT last_value FROM public.seq_ids;
-- As the first thing that a connection is used for.
SELECT shard_fdw_disconnect('seq');
SELECT shard_fdw_setval('seq', 'seq_ids', 3000), shard_fdw_nextval('seq', 'seq_ids');

-- The end: every value is handed out, and then the error.
SET shard_fdw.sequence_range = 1000;
CREATE SEQUENCE public.seq_end MAXVALUE 3000;
SELECT * FROM drain('seq_end', 1);
SELECT * FROM drain('seq_end', 1);
ALTER SEQUENCE public.seq_end MAXVALUE 3010;
SELECT * FROM drain('seq_end', 1);
CREATE SEQUENCE public.seq_down INCREMENT -7 MINVALUE -20000 MAXVALUE -5;
SELECT * FROM drain('seq_down', -7);
CREATE SEQUENCE public.seq_cached CACHE 30 MAXVALUE 2000;
SELECT * FROM drain('seq_cached', 1);
CREATE SEQUENCE public.seq_last INCREMENT 3 START 9223372036854775000;
SELECT * FROM drain('seq_last', 3);
CREATE SEQUENCE public.seq_first INCREMENT -9223372036854775807 MINVALUE -9223372036854775808 MAXVALUE 9223372036854775807
    START 9223372036854775807;
SELECT * FROM drain('seq_first', 0);
CREATE SEQUENCE public.seq_two MAXVALUE 2 CACHE 9;
SELECT * FROM drain('seq_two', 1);
CREATE SEQUENCE public.seq_cycle MINVALUE 3 MAXVALUE 7 START 5 CYCLE;
SELECT string_agg(shard_fdw_nextval('seq', 'seq_cycle')::text, ' ') FROM generate_series(1, 17);
CREATE SEQUENCE public.seq_cycle_down INCREMENT -2 MINVALUE 1 MAXVALUE 6 START 6 CYCLE CACHE 2;
SELECT string_agg(shard_fdw_nextval('seq', 'seq_cycle_down')::text, ' ') FROM generate_series(1, 10);

-- A default, in all ways to store a row.
CREATE TABLE filled (id bigint PRIMARY KEY DEFAULT public.shard_fdw_nextval('seq', 'seq_rows'), v text);
CREATE SEQUENCE public.seq_rows;
INSERT INTO filled (v) VALUES ('a'), ('b') RETURNING id;
INSERT INTO filled (v) SELECT 'row ' || g FROM generate_series(1, 500) g;
PREPARE fill(text) AS INSERT INTO filled (v) VALUES ($1) RETURNING id;
EXECUTE fill('prepared');
EXECUTE fill('again');
DEALLOCATE fill;
COPY filled (v) FROM stdin;
copied
and copied
\.
SELECT count(*), min(id), max(id) FROM filled;
-- COPY takes the whole range at once, and so does one inside a function.
SELECT shard_fdw_discard_sequences();
SELECT try($$SELECT shard_fdw_currval('seq', 'seq_rows')$$);
COPY filled (v) FROM stdin;
one
\.
SELECT refills, values_drawn, cached_left FROM held;
SELECT shard_fdw_discard_sequences();
DO $$ BEGIN COPY sequences.filled (v) FROM PROGRAM 'echo two'; END $$;
SELECT refills, values_drawn, cached_left FROM held;
SELECT shard_fdw_discard_sequences();
SELECT count(*) FROM held;

-- 1 is a round trip for each value.
SET shard_fdw.sequence_range = 1;
SELECT count(shard_fdw_nextval('seq', 'seq_rows')) FROM generate_series(1, 20);
SELECT refills, values_drawn, cached_left FROM held;
RESET shard_fdw.sequence_range;

-- Rights: USAGE on the server and a mapping here, the sequence's rights there.
CREATE ROLE seq_user;
CREATE ROLE seq_group;
GRANT USAGE ON SCHEMA sequences TO seq_user;
GRANT seq_group TO seq_user;
ALTER SEQUENCE public.seq_rows CACHE 10;
SET shard_fdw.sequence_range = 10;
SELECT shard_fdw_discard_sequences();
SELECT shard_fdw_nextval('seq', 'seq_rows') AS value \gset
SET ROLE seq_user;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER seq TO seq_group;
SET ROLE seq_user;
SELECT left(try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$), 32);
RESET ROLE;
DO $$
BEGIN
    EXECUTE format('CREATE USER MAPPING FOR seq_user SERVER seq OPTIONS (user %L, password_required %L)', current_user, 'false');
END $$;
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS dropped_with_the_grant;
SET ROLE seq_user;
-- Not what was drawn for somebody else, nor its currval.
SELECT try($$SELECT shard_fdw_currval('seq', 'seq_rows')$$);
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS next_of_another_range;
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER seq FROM seq_group;
SET ROLE seq_user;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER seq TO seq_group;
SET ROLE seq_user;
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS goes_on;
RESET ROLE;
REVOKE seq_group FROM seq_user;
SET ROLE seq_user;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
RESET ROLE;
-- The password rules are those of tables.
GRANT USAGE ON FOREIGN SERVER seq TO seq_user;
ALTER USER MAPPING FOR seq_user SERVER seq OPTIONS (SET password_required 'true');
SET ROLE seq_user;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
RESET ROLE;
-- Those of the shard.
DO $$ BEGIN
    CREATE ROLE seq_remote LOGIN;
    ALTER USER MAPPING FOR CURRENT_USER SERVER seq OPTIONS (ADD user 'seq_remote');
END $$;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
GRANT UPDATE ON SEQUENCE public.seq_rows TO seq_remote;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$) IS NOT NULL AS drawn;
ALTER USER MAPPING FOR CURRENT_USER SERVER seq OPTIONS (DROP user);

-- A change of server or mapping drops what is held.
SELECT shard_fdw_nextval('seq', 'seq_rows') AS value \gset
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS next;
ALTER SERVER seq OPTIONS (ADD fetch_size '50');
SELECT cached_left FROM held;
SELECT shard_fdw_currval('seq', 'seq_rows') - :value AS current, shard_fdw_nextval('seq', 'seq_rows') - :value AS drawn_again;
ALTER SERVER seq RENAME TO seq_renamed;
SELECT try($$SELECT shard_fdw_nextval('seq', 'seq_rows')$$);
SELECT shard_fdw_nextval('seq_renamed', 'seq_rows') - :value AS drawn_again;
ALTER SERVER seq_renamed RENAME TO seq;

-- However many names somebody makes up, what is held stays.
SELECT shard_fdw_nextval('seq', 'seq_rows') AS value \gset
SELECT count(*) FROM generate_series(1, 1200) AS g
WHERE try(format($$SELECT shard_fdw_currval('seq', 'made_up_%s')$$, g)) LIKE '55000: %';
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS next;

-- The connection: closed by hand what is held goes on; lost, it is made anew; not kept, it ends with the transaction.
SELECT shard_fdw_nextval('seq', 'seq_rows') AS value \gset
SELECT shard_fdw_disconnect('seq'), shard_fdw_disconnect('seq');
SELECT shard_fdw_nextval('seq', 'seq_rows') - :value AS next;
SET shard_fdw.sequence_range = 1;
SELECT count(shard_fdw_nextval('seq', 'seq_rows')) FROM generate_series(1, 11);
SELECT pg_terminate_backend(remote_backend_pid, 20000) FROM shard_fdw_connections() WHERE used_for = 'sequences';
SELECT count(shard_fdw_nextval('seq', 'seq_rows')) FROM generate_series(1, 3);
ALTER SERVER seq OPTIONS (ADD keep_connections 'off');
BEGIN;
SELECT count(shard_fdw_nextval('seq', 'seq_rows')) FROM generate_series(1, 3);
SELECT server_name, valid, used_in_xact, closed, used_for FROM shard_fdw_connections() WHERE server_name = 'seq';
COMMIT;
SELECT count(*) FROM shard_fdw_connections() WHERE server_name = 'seq';

SELECT proname, proisstrict, provolatile, proparallel, proacl FROM pg_proc
WHERE proname ~ '^shard_fdw_(nextval|currval|setval|sequences|discard_sequences)$' ORDER BY 1;
DROP TABLE filled;
SELECT shard_fdw_discard_sequences(), shard_fdw_disconnect('seq');
DROP SERVER seq CASCADE;
DROP FOREIGN DATA WRAPPER seq_other CASCADE;
DROP SCHEMA sequences CASCADE;
DROP SEQUENCE public.seq_ids, public.seq_end, public.seq_down, public.seq_cached, public.seq_last, public.seq_first, public.seq_two,
    public.seq_cycle, public.seq_cycle_down, public.seq_rows;
DROP OWNED BY seq_user, seq_group, seq_remote;
DROP ROLE seq_user, seq_group, seq_remote;
