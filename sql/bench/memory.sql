-- What :sampler finds out about this backend is in the file :samples at the end.
:setting
\setenv SAMPLER :sampler
\setenv SAMPLES :samples
SELECT pg_backend_pid() AS backend \gset
\setenv BACKEND :backend
\! bash "$SAMPLER" "$BACKEND" "$SAMPLES"
\timing on
INSERT INTO :"parent".rows SELECT * FROM :source;
\timing off
\if :peak
SELECT 'peak ' || max(peak_buffered_bytes) FROM shard_fdw_stats();
\endif
