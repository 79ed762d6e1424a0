-- System columns of foreign tables: what the shard gets of them, and what is refused.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
\pset format unaligned
CREATE SCHEMA system_columns;
SET search_path = system_columns, public;
CREATE TABLE r (id int PRIMARY KEY, v int);
INSERT INTO r SELECT g, g FROM generate_series(1, 5) g;
CREATE VIEW w AS SELECT * FROM r;
CREATE FOREIGN TABLE t (id int, v int) SERVER loopback OPTIONS (table_name 'r', fetch_size '2');
CREATE FOREIGN TABLE u (id int OPTIONS (key 'true'), v int) SERVER loopback OPTIONS (table_name 'w');

SELECT count(*) FROM t JOIN r ON t.id = r.id AND t.xmin = r.xmin AND t.ctid = r.ctid;
EXPLAIN (VERBOSE, COSTS OFF) SELECT xmin, ctid, tableoid::regclass FROM t WHERE xmin = '123';
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET v = 0 WHERE id = 1 AND xmin = '123' RETURNING ctid, xmin;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET v = 0 WHERE id = 1 AND xmin::text = '123' RETURNING ctid, xmin;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t WHERE xmin <> '123' AND v < random();
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO t VALUES (6, 6) RETURNING xmin, ctid;
INSERT INTO t VALUES (6, 6) RETURNING ctid, xmin = (SELECT xmin FROM t WHERE id = 1);
UPDATE t SET v = v + 1 WHERE id = 1 RETURNING ctid, v;
UPDATE t SET v = v + 1 WHERE id = 1 AND random() < 2 RETURNING ctid, v;
-- The trigger does not hide them.
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := NEW.v + 100; RETURN NEW; END';
CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER look AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
UPDATE t SET v = v + 1 WHERE id = 2 RETURNING ctid, v, xmin::text <> '0';
INSERT INTO t VALUES (7, 7) RETURNING ctid, v, xmin::text <> '0';
SELECT ctid, * FROM r ORDER BY id;

-- What is not known of rows of a shard.
SELECT xmax FROM t;
SELECT id FROM t WHERE cmin = '0';
SELECT id FROM t ORDER BY cmax::text;
UPDATE t SET v = 0 WHERE cmin = '0';
UPDATE t SET v = cmin::text::int;
UPDATE t SET v = 0 RETURNING cmax;
DELETE FROM t USING r WHERE t.id = r.id AND t.xmax = r.xmax;
INSERT INTO t VALUES (8, 8) RETURNING xmax = '0' AS inserted;
CREATE TABLE p (id int, v int) PARTITION BY LIST (id);
ALTER TABLE p ATTACH PARTITION t FOR VALUES IN (8, 9);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
UPDATE p SET v = 0 WHERE id = 8 RETURNING cmin;
INSERT INTO p VALUES (8, 8) RETURNING cmax;
INSERT INTO p VALUES (1, 1), (9, 8) RETURNING ctid, tableoid::regclass;
SELECT * FROM r WHERE id = 8;
-- A view has none.
SELECT id, v FROM u WHERE id = 1;
SELECT xmin FROM u;
UPDATE u SET v = 0 WHERE xmin = '1';
UPDATE u SET v = 0 WHERE id = 1 RETURNING ctid;
DROP SCHEMA system_columns CASCADE;
