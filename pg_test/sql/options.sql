-- Options: where each may stand, what values it takes, what the errors say.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS shard_fdw;
\pset format unaligned
\pset tuples_only on

-- Runs a command and returns all fields of its error. What libpq knows differs between versions, so that the list of
-- valid options is cut where libpq's begin.
CREATE FUNCTION pg_temp.attempt(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    code text; message text; detail text; hint text;
BEGIN
    EXECUTE command;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
    IF strpos(code || message || detail || hint, 'hush') > 0 THEN
        RETURN 'a secret is shown';
    END IF;
    RETURN code || ' ' || message
        || coalesce(E'\n  DETAIL: ' || nullif(regexp_replace(detail, '(parallel_abort|password_required)(, [a-z_]+)+', '\1 and others'), ''), '')
        || coalesce(E'\n  HINT: ' || nullif(hint, ''), '');
END $$;

CREATE FUNCTION pg_temp.server(options text) RETURNS text LANGUAGE sql AS
    $$ SELECT pg_temp.attempt('CREATE SERVER options_other FOREIGN DATA WRAPPER shard_fdw OPTIONS (' || options || ')') $$;

-- What the catalog holds.
SELECT fdwname, fdwvalidator::regproc FROM pg_foreign_data_wrapper WHERE fdwname = 'shard_fdw';
SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid), proisstrict
FROM pg_proc WHERE proname = 'shard_fdw_validator';

-- Every option of a server.
CREATE SERVER options_server FOREIGN DATA WRAPPER shard_fdw OPTIONS (
    host 'shard1.example.org', port '5433', dbname 'app', sslmode 'verify-full', options '-c jit=off',
    application_name 'loader %p', connect_timeout '3', sslcert 'c.pem', sslkey 'c.key',
    batch_size '5000', batch_bytes '4MB', fetch_size '200', updatable 'true', truncatable 'off',
    isolation 'match', session_settings 'search_path="r, public", work_mem=64MB', extensions 'plpgsql',
    fdw_startup_cost '50', fdw_tuple_cost '0.05', keep_connections 'off', parallel_commit 'false', parallel_abort 'on',
    use_remote_estimate 'true', async_capable 'true', analyze_sampling 'system');
SELECT count(*) FROM pg_foreign_server, unnest(srvoptions) WHERE srvname = 'options_server';

-- Of a user mapping.
CREATE USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (
    user 'u', password 'hush', sslpassword 'hush', sslcert 'c.pem', sslkey 'c.key', password_required 'false');

-- Of a table and its columns.
CREATE FOREIGN TABLE options_table (
    id bigint OPTIONS (column_name 'ID', remote_default 'true'), payload text OPTIONS (remote_default '0')
) SERVER options_server OPTIONS (
    schema_name 'r', table_name 'T', batch_size '1', batch_bytes '1kB', fetch_size '1', updatable 'on', truncatable '1',
    use_remote_estimate 'off', async_capable 'off', analyze_sampling 'off');

-- Changes are checked in the same way.
SELECT pg_temp.attempt($$ALTER SERVER options_server OPTIONS (SET batch_size '1000000', DROP host, ADD hostaddr '192.0.2.1')$$);
SELECT pg_temp.attempt($$ALTER SERVER options_server OPTIONS (SET batch_size '1000001')$$);
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (SET password_required 'hush')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table OPTIONS (SET fetch_size 'many')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table ALTER COLUMN id OPTIONS (SET remote_default 'yes')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table ALTER COLUMN id OPTIONS (ADD keys 'true')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN DATA WRAPPER shard_fdw OPTIONS (ADD host 'h')$$);

-- Bad values.
SELECT pg_temp.server(options) FROM unnest(ARRAY[
    $$batch_size '0'$$, $$batch_size '-5'$$, $$batch_size ''$$, $$batch_size '1kB'$$, $$batch_size '99999999999'$$,
    $$batch_bytes '1023'$$, $$batch_bytes '257MB'$$, $$batch_bytes '1mb'$$,
    $$fetch_size '0'$$, $$fetch_size '2147483648'$$,
    $$fdw_startup_cost '-1'$$, $$fdw_tuple_cost 'cheap'$$, $$fdw_tuple_cost 'Infinity'$$,
    $$updatable 'yes'$$, $$parallel_commit '2'$$, $$isolation 'serializable'$$, $$analyze_sampling 'some'$$,
    $$extensions 'a,,b'$$, $$use_scram_passthrough 'true'$$]) AS options;
SELECT pg_temp.attempt($$CREATE FOREIGN TABLE options_other () SERVER options_server OPTIONS (table_name '')$$);
SELECT pg_temp.server('batch_size ''' || repeat('1', 300) || '''');

-- Session settings.
SELECT pg_temp.server('session_settings ' || quote_literal(settings)) FROM unnest(ARRAY[
    'a', 'a=', 'a=1,', 'a=1 2', 'a=b"c', 'a="b', '1a=1', 'a=1, A=2', 'my.token=hush hush',
    'client_encoding=LATIN1', 'datestyle=SQL', 'IntervalStyle=sql_standard', 'extra_float_digits=0', 'timezone=CET',
    'bytea_output=escape', 'standard_conforming_strings=off', 'array_nulls=off', 'role=r', 'session_authorization=r',
    'transaction_isolation=serializable', 'default_transaction_read_only=on']) AS settings;

-- Wrong names, and names in the wrong place.
SELECT pg_temp.server(options) FROM unnest(ARRAY[
    $$bach_size '1'$$, $$hots 'h'$$, $$password 'hush'$$, $$user 'u'$$, $$column_name 'c'$$, $$client_encoding 'UTF8'$$,
    $$fallback_application_name 'x'$$, $$replication 'database'$$, $$no_option_looks_like_this 'x'$$]) AS options;
SELECT pg_temp.server(options) LIKE 'HV00D invalid option %' FROM unnest(ARRAY[
    $$transport 'copy'$$, $$two_phase_commit 'on'$$, $$oauth_issuer 'i'$$]) AS options;
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (ADD passwort 'hush')$$);
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (ADD host 'hush')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table OPTIONS (ADD table_nam 'x')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table OPTIONS (ADD on_conflict 'ignore')$$);
SELECT pg_temp.attempt($$ALTER FOREIGN TABLE options_table ALTER COLUMN id OPTIONS (ADD batch_size '1')$$);

-- Extensions that are not installed only draw a warning.
ALTER SERVER options_server OPTIONS (SET extensions 'plpgsql, "No Such", nor_this');

-- What only a superuser may set in a user mapping.
CREATE ROLE regress_shard_options;
GRANT USAGE ON FOREIGN SERVER options_server TO regress_shard_options;
SET ROLE regress_shard_options;
SELECT pg_temp.attempt('CREATE USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (user ''u'', ' || option || ')')
FROM unnest(ARRAY[$$password_required 'false'$$, $$password_required 'off'$$, $$sslcert 'hush'$$, $$sslkey 'hush'$$,
    $$password_required 'true', password 'hush'$$]) AS option;
RESET ROLE;
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR regress_shard_options SERVER options_server OPTIONS (SET password_required 'false')$$);
SET ROLE regress_shard_options;
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (SET password 'hush')$$);
SELECT pg_temp.attempt($$ALTER USER MAPPING FOR CURRENT_USER SERVER options_server OPTIONS (SET password_required 'on')$$);
-- Options of others' mappings stay hidden.
SELECT umoptions IS NULL FROM pg_user_mappings WHERE srvname = 'options_server' AND usename <> CURRENT_USER;
RESET ROLE;

-- Settings of the library.
SHOW shard_fdw.max_in_flight;
SELECT left(pg_temp.attempt($$SET shard_fdw.max_in_flight = '63kB'$$), 5);
SELECT left(pg_temp.attempt($$SET shard_fdw.max_in_flight = '1025MB'$$), 5);
SELECT left(pg_temp.attempt($$SET shard_fdw.max_in_fligt = '1MB'$$), 5);
SET ROLE regress_shard_options;
SET shard_fdw.max_in_flight = '1GB';
SHOW shard_fdw.max_in_flight;
SET shard_fdw.application_name = '%u on %d';
SHOW shard_fdw.application_name;
RESET ROLE;

DROP SERVER options_server CASCADE;
DROP ROLE regress_shard_options;
