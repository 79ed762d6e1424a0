\set QUIET on
-- Opens the connections, and fills the caches.
BEGIN;
INSERT INTO :"parent".rows SELECT * FROM :source LIMIT 100;
ROLLBACK;
\set QUIET off
\timing on
COPY :"parent".rows FROM :'file' (FORMAT csv);
