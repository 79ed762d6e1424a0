\set QUIET on
-- Opens the connections, and fills the caches.
BEGIN;
INSERT INTO :"parent".rows SELECT * FROM :source LIMIT 100;
ROLLBACK;
\set QUIET off
\timing on
INSERT INTO :"parent".rows SELECT * FROM :source;
