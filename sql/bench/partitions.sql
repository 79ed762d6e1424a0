\timing on
INSERT INTO :"parent".rows SELECT * FROM :source;
\timing off
\if :peak
SELECT 'peak ' || max(peak_buffered_bytes) FROM shard_fdw_stats();
\endif
