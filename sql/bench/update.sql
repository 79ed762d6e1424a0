\set QUIET on
-- Fills the tables; random() keeps the condition from being sent to a shard.
INSERT INTO :"parent".rows SELECT * FROM :source WHERE id <= :rows;
\set QUIET off
\timing on
UPDATE :"parent".rows SET amount = amount + 1, name = name || '!' WHERE random() < 2;
