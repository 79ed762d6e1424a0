-- What shard_fdw_connections() shows, and how connections are closed.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA connections;
SET search_path = connections, public;
DO $$
BEGIN
    FOR n IN 1..2 LOOP
        EXECUTE format('CREATE SERVER con%s FOREIGN DATA WRAPPER shard_fdw OPTIONS (host %L, port %L, dbname %L)',
            n, 'localhost', current_setting('port'), current_database());
    END LOOP;
    -- The mapping of PUBLIC has to name the remote user.
    EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER con2 OPTIONS (user %L, password_required %L)',
        current_user, 'false');
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER con1;
CREATE TABLE r (a int);
CREATE FOREIGN TABLE f1 (a int) SERVER con1 OPTIONS (table_name 'r');
CREATE FOREIGN TABLE f2 (a int) SERVER con2 OPTIONS (table_name 'r');
CREATE VIEW connections AS
    SELECT server_name, user_name = current_user AS own_user, user_name = 'public' AS public_user, valid, used_in_xact,
        closed, remote_backend_pid IN (SELECT pid FROM pg_stat_activity) AS alive
    FROM public.shard_fdw_connections();

-- Nothing has connected yet.
SELECT * FROM connections;
SELECT shard_fdw_disconnect('con1'), shard_fdw_disconnect_all();
EXPLAIN (COSTS OFF) INSERT INTO f1 VALUES (1);
SELECT * FROM connections;

-- Connections are kept after the transaction, in the order of the mappings.
SELECT count(*) FROM f2;
SELECT count(*) FROM f1;
SELECT server_name, own_user OR public_user AS known_user, valid, used_in_xact, closed, alive FROM connections;
SELECT own_user, public_user FROM connections ORDER BY server_name;

-- Not closed while a transaction uses them.
BEGIN;
SELECT count(*) FROM f1;
SELECT server_name, valid, used_in_xact, closed, alive FROM connections ORDER BY 1;
SELECT shard_fdw_disconnect('con1');
SELECT shard_fdw_disconnect('con2');
SELECT shard_fdw_disconnect_all();
SELECT server_name, valid, used_in_xact, closed, alive FROM connections ORDER BY 1;
COMMIT;
SELECT shard_fdw_disconnect('con1'), shard_fdw_disconnect('con1'), shard_fdw_disconnect_all();

-- A wrong name, and the null value.
SELECT shard_fdw_disconnect('no such server');
SELECT shard_fdw_disconnect(NULL);

-- The shard's backend goes away: between transactions and inside one.
SELECT count(*) FROM f1;
SELECT pg_terminate_backend(remote_backend_pid, 20000) FROM shard_fdw_connections();
SELECT server_name, valid, used_in_xact, closed, alive FROM connections;
SELECT count(*) FROM f1;
SELECT server_name, valid, used_in_xact, closed, alive FROM connections;
BEGIN;
SELECT count(*) FROM f1;
SELECT pg_terminate_backend(remote_backend_pid, 20000) FROM shard_fdw_connections();
SELECT server_name, valid, used_in_xact, closed, alive FROM connections;
SAVEPOINT s;
SELECT count(*) FROM f1;
ROLLBACK TO s;
SELECT server_name, valid, used_in_xact, closed, alive FROM connections;
ROLLBACK;
SELECT * FROM connections;

-- Changed or dropped while in use: closed at the end of the transaction.
BEGIN;
SELECT count(*) FROM f1;
ALTER SERVER con1 OPTIONS (ADD fetch_size '50');
SELECT server_name, own_user, valid, used_in_xact, closed, alive FROM connections;
DROP SERVER con1 CASCADE;
SELECT server_name, own_user, valid, used_in_xact, closed, alive FROM connections;
SELECT shard_fdw_disconnect_all();
COMMIT;
SELECT * FROM connections;

-- Changed while idle: closed at once.
SELECT count(*) FROM f2;
ALTER SERVER con2 OPTIONS (ADD fetch_size '50');
SELECT * FROM connections;

-- Not kept.
ALTER SERVER con2 OPTIONS (ADD keep_connections 'off');
BEGIN;
SELECT count(*) FROM f2;
SELECT server_name, used_in_xact FROM connections;
COMMIT;
SELECT * FROM connections;

-- Everybody may look at and close the session's own connections.
SELECT proname, proisstrict, provolatile, proparallel, proacl FROM pg_proc
WHERE proname ~ '^shard_fdw_(connections|disconnect|stats)' ORDER BY 1;
DROP SCHEMA connections CASCADE;
DROP SERVER con2 CASCADE;
