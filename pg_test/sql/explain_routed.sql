-- What EXPLAIN says about foreign partitions that rows are routed to: PostgreSQL 18 and later only.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA explain_routed;
SET search_path = explain_routed, public;
CREATE TABLE r1 (a int, b text);
CREATE TABLE r2 (a int, b text);
CREATE TABLE p (a int, b text) PARTITION BY LIST (a);
CREATE FOREIGN TABLE p2 PARTITION OF p FOR VALUES IN (2) SERVER loopback OPTIONS (table_name 'r2', batch_size '1');
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES IN (1) SERVER loopback OPTIONS (table_name 'r1', batch_size '3');
CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3);
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

-- Where rows go is not known before they come.
SELECT lines('(VERBOSE, COSTS OFF) INSERT INTO p VALUES (1)');
-- In the order of their OIDs, those that rows came to.
BEGIN;
SELECT lines('(ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO p VALUES (1), (3), (1)');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO p VALUES (1), (2), (3)');
SELECT lines('(ANALYZE, COSTS OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO p VALUES (1), (1)');
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO p VALUES (1) RETURNING a');
-- A row that moves, into a partition that is a target itself and into one that is not.
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) UPDATE p SET a = 1 WHERE a = 3');
INSERT INTO p VALUES (3);
SELECT regexp_replace(lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) UPDATE p SET a = 1 WHERE a IN (1, 3)'),
    '(Round Trips: )[1-9][0-9]*', '\1N') AS lines;
-- Two statements in one.
SELECT lines('(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF)
    WITH w AS (INSERT INTO p VALUES (1), (1)) INSERT INTO p VALUES (1)');
COMMIT;
-- The other formats.
CREATE FUNCTION as_json(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, ' || query INTO plan;
    plan := plan -> 0 -> 'Plan';
    RETURN jsonb_pretty(jsonb_build_object('partitions', plan -> 'Foreign Partitions', 'servers', plan -> 'Foreign Servers'));
END $$;
SELECT as_json('VERBOSE) INSERT INTO p VALUES (1)');
SELECT as_json('ANALYZE, VERBOSE) INSERT INTO p VALUES (1), (2)');
CREATE FUNCTION as_text(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'EXPLAIN (COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF, ' || query INTO plan;
    RETURN QUERY SELECT regexp_split_to_table(substring(plan FROM '(?n)^[^\n]*Foreign.Partitions[\s\S]*Round.Trips.*$'), '\n');
END $$;
SELECT as_text('FORMAT YAML, ANALYZE) INSERT INTO p VALUES (1), (2)');
SELECT as_text('FORMAT XML, ANALYZE) INSERT INTO p VALUES (1), (2)');
DROP SCHEMA explain_routed CASCADE;
