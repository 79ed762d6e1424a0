-- What EXPLAIN says about foreign tables that a statement writes to.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA explain;
SET search_path = explain, public;
CREATE SERVER nowhere FOREIGN DATA WRAPPER shard_fdw OPTIONS (host 'localhost', port '1');
CREATE TABLE r (a int, b text DEFAULT 'd');
CREATE FOREIGN TABLE f (a int, b text) SERVER loopback OPTIONS (table_name 'r');
CREATE FOREIGN TABLE unreachable (a int, b text) SERVER nowhere OPTIONS (schema_name 's', table_name 't');
-- What our callbacks add, with the target's own line above it.
CREATE FUNCTION lines(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
        CONTINUE WHEN line !~ '(Insert|Update|Delete) on|Remote|Batch|Transport|Flush|Round|Waited|Foreign (Part|Serv)'
            OR line ~ 'Remote.SQL.*SELECT "';
        line := regexp_replace(line, ' \(actual.*\)', '');
        line := regexp_replace(line, '(Waited: )[0-9.]+ ms', '\1T');
        RETURN NEXT line;
    END LOOP;
END $$;

-- Without ANALYZE nobody is asked: neither a connection nor a user mapping is needed. The statement is that for one row.
SELECT shard_fdw_disconnect_all() IS NOT NULL AS done;
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO unreachable VALUES (1)');
SELECT lines('(COSTS OFF) INSERT INTO unreachable VALUES (1)');
SELECT lines('(COSTS OFF) INSERT INTO unreachable VALUES (1) RETURNING b');
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO unreachable VALUES (1) ON CONFLICT DO NOTHING RETURNING b');
SELECT count(*) FROM shard_fdw_connections();

-- Each reason for single rows.
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t BEFORE INSERT ON f FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f VALUES (1)');
DROP TRIGGER t ON f;
CREATE TRIGGER t AFTER INSERT ON f FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f VALUES (1)');
DROP TRIGGER t ON f;
CREATE TRIGGER t AFTER INSERT ON f FOR EACH STATEMENT EXECUTE FUNCTION nothing();
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f VALUES (1)');
DROP TRIGGER t ON f;
CREATE TRIGGER t BEFORE UPDATE ON f FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT lines('(COSTS OFF) INSERT INTO f VALUES (1)');
DROP TRIGGER t ON f;
CREATE VIEW v AS SELECT * FROM f WHERE a > 0 WITH CHECK OPTION;
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO v VALUES (1)');
ALTER FOREIGN TABLE f OPTIONS (ADD batch_size '1');
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f VALUES (1)');
ALTER FOREIGN TABLE f OPTIONS (SET batch_size '4');
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f VALUES (1)');
SELECT lines('(VERBOSE, COSTS OFF) UPDATE f SET b = a RETURNING a');
SELECT lines('(COSTS OFF) DELETE FROM f WHERE a = 1 AND random() < 2');

-- A column left to the shard's default.
ALTER FOREIGN TABLE f ALTER b OPTIONS (ADD remote_default 'true');
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f (a) VALUES (1)');
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO f (b) VALUES (NULL)');
SELECT lines('(ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO f (a) VALUES (1)');
ALTER FOREIGN TABLE f ALTER b OPTIONS (DROP remote_default);

-- With ANALYZE: the statement that was sent, and what was sent with it. The first one begins the remote transaction and
-- asks for column types.
BEGIN;
SELECT lines('(ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO f VALUES (1)');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO f VALUES (1), (2), (3)');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO f SELECT 1 WHERE false');
SELECT lines('(ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO f VALUES (4), (5) RETURNING a');
SELECT lines('(ANALYZE, COSTS OFF, TIMING ON, SUMMARY OFF, BUFFERS OFF) INSERT INTO f VALUES (1)');
SELECT lines('(ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) UPDATE f SET b = ''new'' WHERE a > 3 AND random() < 2');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) DELETE FROM f WHERE a = 5 AND random() < 2');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)
    WITH w AS (INSERT INTO f VALUES (6), (7)) INSERT INTO f VALUES (8)');
COMMIT;
-- More batches than one: how often the shard answers while others are sent is a matter of time.
SELECT regexp_replace(lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)
    INSERT INTO f SELECT g, ''x'' FROM generate_series(1, 10) g'), '(Round Trips: )[1-9][0-9]*', '\1N');
ALTER FOREIGN TABLE f OPTIONS (ADD batch_bytes '1kB');
SELECT regexp_replace(lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)
    INSERT INTO f SELECT g, repeat(''x'', 100 * g) FROM generate_series(1, 10) g'), '(Round Trips: )[1-9][0-9]*', '\1N');
ALTER FOREIGN TABLE f OPTIONS (DROP batch_bytes);

-- A plan that is used again.
SET plan_cache_mode = force_generic_plan;
PREPARE s (int) AS INSERT INTO f SELECT g FROM generate_series(1, $1) g;
EXECUTE s(1);
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) EXECUTE s(2)');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) EXECUTE s(3)');
SELECT lines('(VERBOSE, COSTS OFF) EXECUTE s(3)');
DEALLOCATE s;
RESET plan_cache_mode;

-- The other formats.
CREATE FUNCTION as_json(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, ' || query INTO plan;
    RETURN jsonb_pretty((plan -> 0 -> 'Plan') - ARRAY['Node Type', 'Parallel Aware', 'Async Capable', 'Disabled', 'Alias',
        'Plans', 'Actual Rows', 'Actual Loops']);
END $$;
SELECT as_json('ANALYZE) INSERT INTO f VALUES (1)');
SELECT as_json('ANALYZE, VERBOSE) INSERT INTO f VALUES (1) RETURNING a');
SELECT as_json('VERBOSE) INSERT INTO f VALUES (1)');
SELECT as_json('ANALYZE) DELETE FROM f WHERE a = 7 AND random() < 2');
CREATE FUNCTION as_text(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'EXPLAIN (COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, ' || query INTO plan;
    RETURN QUERY SELECT regexp_split_to_table(substring(plan FROM '(?n)^[^\n]*Remote.SQL[\s\S]*Round.Trips.*$'), '\n');
END $$;
SELECT as_text('FORMAT YAML, ANALYZE, VERBOSE) INSERT INTO f VALUES (1)');
SELECT as_text('FORMAT XML, ANALYZE, VERBOSE) INSERT INTO f VALUES (1)');
DROP SCHEMA explain CASCADE;
DROP SERVER nowhere;
