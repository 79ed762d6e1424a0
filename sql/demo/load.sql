INSERT INTO events
SELECT id, 'event ' || id, id % 1000, timestamptz '2024-01-01 00:00+00' + id * interval '1 second'
FROM generate_series(1, 1000000) AS id;

\copy (SELECT id, 'event ' || id, id % 1000, timestamptz '2024-01-01 00:00+00' + id * interval '1 second' FROM generate_series(1000001, 2000000) AS id) TO 'events.csv' (FORMAT csv)
\copy events FROM 'events.csv' (FORMAT csv)

SELECT server_name, batches, rows, bytes, round_trips, wait_time FROM shard_fdw_stats();

SELECT tableoid::regclass AS partition, count(*) FROM events GROUP BY 1 ORDER BY 1;
