-- One statement of :rows rows whose ids come from the :seed, and what was sent for it.
SET shard_fdw.flush_policy = :policy;
SELECT count(*) FROM :"parent".rows;
BEGIN;
INSERT INTO :"parent".rows VALUES (0, 'first', 0, now());
ROLLBACK;
BEGIN;
SELECT count(*) FROM :"parent".rows;
SELECT sum(flushes_full + flushes_bytes + flushes_end + flushes_barrier + flushes_savepoint + flushes_memory + flushes_repeat) AS flushes,
    sum(batches) AS batches, sum(round_trips) AS trips, clock_timestamp() AS begin
FROM shard_fdw_stats() \gset
SELECT CASE :'seed'
    WHEN 'nextval' THEN format('SELECT nextval(''bench.s''), ''event '' || i, i %% 1000, now() FROM generate_series(1, %s) AS i', :rows)
    WHEN 'plpgsql' THEN format('SELECT bench.draw(), ''event '' || i, i %% 1000, now() FROM generate_series(1, %s) AS i', :rows)
    WHEN 'ordered' THEN format('SELECT bench.draw(), ''event '' || i, i %% 1000, now() FROM generate_series(1, %s) AS i ORDER BY 1', :rows)
    ELSE format('SELECT bench.inlined(i), ''event '' || i, i %% 1000, now() FROM generate_series(1::bigint, %s) AS i', :rows)
    END AS query \gset
INSERT INTO :"parent".rows :query;
SELECT format('Time: %s ms', extract(epoch FROM clock_timestamp() - :'begin') * 1000);
SELECT 'flushes ' || sum(flushes_full + flushes_bytes + flushes_end + flushes_barrier + flushes_savepoint + flushes_memory + flushes_repeat) - :flushes
FROM shard_fdw_stats();
SELECT 'batches ' || sum(batches) - :batches FROM shard_fdw_stats();
SELECT 'trips ' || sum(round_trips) - :trips FROM shard_fdw_stats();
COMMIT;
