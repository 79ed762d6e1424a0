-- Runs before all others: the extension, and a server "loopback" that is this very database.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION shard_fdw;
DO $$
BEGIN
    EXECUTE format('CREATE SERVER loopback FOREIGN DATA WRAPPER shard_fdw OPTIONS (host %L, port %L, dbname %L)',
        'localhost', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER loopback;
SELECT fdwname FROM pg_foreign_data_wrapper WHERE fdwname = 'shard_fdw';
SELECT srvname, option_name FROM pg_foreign_server, pg_options_to_table(srvoptions) ORDER BY 1, 2;
