-- What shard_fdw_stats() counts.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA stats;
SET search_path = stats, public;
DO $$
BEGIN
    FOR n IN 1..2 LOOP
        EXECUTE format('CREATE SERVER stat%s FOREIGN DATA WRAPPER shard_fdw
            OPTIONS (host %L, port %L, dbname %L, batch_size %L)',
            n, 'localhost', current_setting('port'), current_database(), '10');
    END LOOP;
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER stat1;
CREATE USER MAPPING FOR CURRENT_USER SERVER stat2;
CREATE TABLE r (a int, b text);
CREATE TABLE r0 (a int, b text);
CREATE TABLE r1 (a int, b text);
CREATE FOREIGN TABLE f (a int, b text) SERVER stat1 OPTIONS (table_name 'r');
CREATE TABLE p (a int, b text) PARTITION BY LIST (a);
CREATE FOREIGN TABLE p0 PARTITION OF p FOR VALUES IN (0) SERVER stat1 OPTIONS (table_name 'r0');
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES IN (1) SERVER stat2 OPTIONS (table_name 'r1');
-- What the last statement has added.
CREATE TABLE seen AS SELECT * FROM public.shard_fdw_stats() LIMIT 0;
CREATE FUNCTION added(OUT server text, OUT batches int8, OUT rows int8, OUT "full" int8, OUT bytes int8, OUT "end" int8,
    OUT barrier int8, OUT savepoint int8) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT n.server_name, n.batches - coalesce(o.batches, 0), n.rows - coalesce(o.rows, 0),
        n.flushes_full - coalesce(o.flushes_full, 0), n.flushes_bytes - coalesce(o.flushes_bytes, 0),
        n.flushes_end - coalesce(o.flushes_end, 0), n.flushes_barrier - coalesce(o.flushes_barrier, 0),
        n.flushes_savepoint - coalesce(o.flushes_savepoint, 0)
    FROM public.shard_fdw_stats() n LEFT JOIN seen o USING (server_name)
    WHERE n.batches > coalesce(o.batches, 0) ORDER BY 1;
    DELETE FROM seen;
    INSERT INTO seen SELECT * FROM public.shard_fdw_stats();
END $$;
SELECT * FROM shard_fdw_stats();

-- Full batches and the rest, by INSERT and by COPY.
INSERT INTO f SELECT g, 'x' FROM generate_series(1, 25) g;
SELECT * FROM added();
COPY f (a) FROM STDIN;
1
2
3
4
5
6
7
8
9
10
11
\.
SELECT * FROM added();
INSERT INTO f SELECT g, 'x' FROM generate_series(1, 20) g;
SELECT * FROM added();
-- Partitions of two servers.
INSERT INTO p SELECT g % 2, 'x' FROM generate_series(1, 21) g;
SELECT * FROM added();
-- A batch that is full by its bytes.
ALTER FOREIGN TABLE f OPTIONS (ADD batch_bytes '1kB');
INSERT INTO f SELECT g, repeat('x', 600) FROM generate_series(1, 5) g;
SELECT * FROM added();
ALTER FOREIGN TABLE f OPTIONS (DROP batch_bytes);
-- Rows that must go before something else is sent.
CREATE FUNCTION reads() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT count(*) FROM stats.f';
INSERT INTO f SELECT g, CASE g WHEN 4 THEN reads()::text END FROM generate_series(1, 6) g;
SELECT * FROM added();
CREATE FUNCTION reads_deeper() RETURNS bigint VOLATILE LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    BEGIN
        n := reads();
    EXCEPTION WHEN others THEN
        RAISE;
    END;
    RETURN n;
END $$;
INSERT INTO f SELECT g, CASE g WHEN 4 THEN reads_deeper()::text END FROM generate_series(1, 6) g;
SELECT * FROM added();
-- Single rows are batches of one row, and no flushes.
INSERT INTO f VALUES (1, 'x'), (2, 'y') RETURNING a;
SELECT * FROM added();
DELETE FROM f WHERE a = 2 AND b = 'y' AND random() < 2;
SELECT * FROM added();
-- Done whole by the shard.
UPDATE f SET b = 'whole' WHERE a < 4;
SELECT * FROM added();
-- What fails has been sent all the same.
ALTER TABLE r ADD CHECK (a < 1000);
INSERT INTO f VALUES (1), (1000);
SELECT * FROM added();

-- Round trips: BEGIN, the rows, COMMIT, however many rows there are.
CREATE FUNCTION round_trips() RETURNS bigint LANGUAGE sql AS
    $$ SELECT round_trips FROM public.shard_fdw_stats() WHERE server_name = 'stat2' $$;
SELECT round_trips() AS before \gset
INSERT INTO p1 VALUES (1, 'x');
SELECT round_trips() - :before AS round_trips;
SELECT round_trips() AS before \gset
INSERT INTO p1 SELECT 1, 'x' FROM generate_series(1, 10);
SELECT round_trips() - :before AS round_trips;

-- The counters outlive connection and session.
SELECT batches, rows, round_trips, wait_time FROM shard_fdw_stats() WHERE server_name = 'stat2' \gset old_
SELECT shard_fdw_disconnect('stat2');
ALTER SERVER stat2 OPTIONS (SET batch_size '20');
INSERT INTO p1 SELECT 1, 'x' FROM generate_series(1, 20);
SELECT batches - :old_batches AS batches, rows - :old_rows AS rows, round_trips > :old_round_trips AS round_trips,
    wait_time > :old_wait_time AS wait_time
FROM shard_fdw_stats() WHERE server_name = 'stat2';
-- A server that is gone has no name any more.
DROP SERVER stat2 CASCADE;
SELECT server_name, user_name = current_user AS own_user, batches - :old_batches AS batches FROM shard_fdw_stats()
ORDER BY 1 NULLS LAST OFFSET 1;
DROP SCHEMA stats CASCADE;
DROP SERVER stat1 CASCADE;
