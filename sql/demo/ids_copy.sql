COPY orders (item) FROM PROGRAM 'seq -f "item %.0f" 200000';
SELECT server_name, sequence_name, refills, values_drawn FROM shard_fdw_sequences();
