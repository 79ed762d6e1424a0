\set QUIET on
SET shard_fdw.sequence_range = :range;
-- Opens the connection.
SELECT :next;
\set QUIET off
\timing on
INSERT INTO :"parent".rows SELECT :next, name, amount, at FROM :source LIMIT :rows;
