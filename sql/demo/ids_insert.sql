INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, 200000) AS n;
SELECT server_name, sequence_name, refills, values_drawn FROM shard_fdw_sequences();
