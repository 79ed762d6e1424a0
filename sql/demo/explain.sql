EXPLAIN (ANALYZE, VERBOSE)
INSERT INTO events_1
SELECT id, 'event ' || id, id % 1000, now()
FROM generate_series(2000001, 2100000) AS id
WHERE satisfies_hash_partition('events'::regclass, 4, 1, id::bigint);
