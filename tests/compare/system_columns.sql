-- System columns: ctid, xmin and tableoid are known, and cmin, cmax and xmax of foreign tables are refused.

== the place of rows that are written
@table t ON s1
    id int, v text;
INSERT INTO t VALUES (1, 'a') RETURNING ctid;
INSERT INTO t VALUES (2, 'b'), (3, 'c') RETURNING ctid, tableoid::regclass, id;
INSERT INTO t SELECT g, 'x' FROM generate_series(4, 9) g RETURNING id, t.ctid;
CREATE TABLE seen AS SELECT id, ctid AS place FROM t;
SELECT t.id FROM t JOIN seen ON t.ctid = seen.place AND t.id = seen.id ORDER BY 1;
UPDATE t SET v = 'f' WHERE ctid = (SELECT place FROM seen WHERE id = 5) RETURNING id, ctid, v;
UPDATE t SET v = upper(v) WHERE id = 1 RETURNING ctid;
UPDATE t SET v = upper(v) WHERE id = 2 AND random() < 2 RETURNING ctid, id;
WITH u AS (UPDATE t SET v = v || '!' WHERE id IN (1, 6) RETURNING id, ctid AS place) INSERT INTO seen SELECT id + 100, place FROM u;
SELECT t.id, seen.id FROM t JOIN seen ON t.ctid = seen.place ORDER BY 1;
DELETE FROM t WHERE id = 3 RETURNING ctid, id;
DELETE FROM t WHERE id = 4 AND random() < 2 RETURNING id, ctid;
DELETE FROM t USING seen WHERE t.ctid = seen.place AND seen.id = 106 RETURNING t.id, t.ctid;
SELECT ctid, id, v FROM t ORDER BY id;

== the place of rows of a tree
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (1)
    v text, id int, k int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT g % 3, g, 'x' FROM generate_series(1, 9) g RETURNING tableoid::regclass, ctid, id;
UPDATE t SET v = 'y' WHERE id < 6 RETURNING tableoid::regclass, ctid, id;
UPDATE t SET v = 'z' WHERE id < 3 AND random() < 2 RETURNING ctid, id;
SELECT tableoid::regclass, ctid, id FROM t ORDER BY id;
DELETE FROM t WHERE id > 7 RETURNING tableoid::regclass, ctid, id;

== the place of upserted rows
@table t ON s1
    id int, v text
    PRIMARY KEY (id);
@foreign
ALTER FOREIGN TABLE t ALTER id OPTIONS (ADD key 'true');
@foreign
ALTER FOREIGN TABLE t OPTIONS (ADD on_conflict 'update');
@clause ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v
INSERT INTO t VALUES (1, 'a') /**/ RETURNING ctid, *;
INSERT INTO t VALUES (1, 'b') /**/ RETURNING ctid, *;
INSERT INTO t VALUES (2, 'b') /**/ RETURNING xmin::text <> '0', ctid, *;

== optimistic locking by xmin
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v int;
@table t2 ON s2 OF t FOR VALUES IN (1)
    v int, id int, k int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT g % 3, g, 0 FROM generate_series(1, 9) g;
CREATE TABLE seen AS SELECT id, xmin AS version FROM t;
SELECT count(DISTINCT version::text) > 0, min(version::text::bigint) > 0 FROM seen;
SELECT t.id FROM t JOIN seen USING (id) WHERE t.xmin = seen.version ORDER BY 1;
UPDATE t SET v = v + 1 WHERE id = 3 AND xmin = (SELECT version FROM seen WHERE id = 3) RETURNING id, v, xmin::text::bigint > 0;
UPDATE t SET v = v + 1 WHERE id = 3 AND xmin = (SELECT version FROM seen WHERE id = 3);
UPDATE t SET v = v + 1 WHERE id = 4 AND xmin::text = (SELECT version::text FROM seen WHERE id = 4) RETURNING id, v;
UPDATE t SET v = v + 1 WHERE id = 4 AND xmin::text = (SELECT version::text FROM seen WHERE id = 4);
UPDATE t SET v = v + 1 FROM seen WHERE t.id = seen.id AND t.xmin = seen.version RETURNING t.id, t.v;
UPDATE t SET v = v + 1 FROM seen WHERE t.id = seen.id AND t.xmin = seen.version;
UPDATE t SET v = xmin::text::bigint - (SELECT version::text::bigint FROM seen WHERE id = 7) + 100 WHERE id = 7 AND xmin::text::bigint > 0 RETURNING v > 100;
DELETE FROM t USING seen WHERE t.id = seen.id AND t.xmin = seen.version;
TRUNCATE seen;
INSERT INTO seen SELECT id, xmin FROM t WHERE id > 4 FOR UPDATE;
DELETE FROM t WHERE id = 8 AND xmin = (SELECT version FROM seen WHERE id = 8) RETURNING id, xmin = (SELECT version FROM seen WHERE id = 8);
DELETE FROM t WHERE xmin <> ALL (SELECT version FROM seen WHERE id = 9) AND id = 9;
PREPARE p (xid) AS UPDATE t1 SET v = 7 WHERE id = 6 AND xmin = $1 RETURNING v;
DO $$
DECLARE
    was xid;
    n int;
BEGIN
    SELECT xmin INTO was FROM t1 WHERE id = 6;
    UPDATE t1 SET v = 6 WHERE id = 6 AND xmin = was;
    GET DIAGNOSTICS n = ROW_COUNT;
    ASSERT n = 1;
    UPDATE t1 SET v = 6 WHERE id = 6 AND xmin = was;
    GET DIAGNOSTICS n = ROW_COUNT;
    ASSERT n = 0;
    SELECT xmin INTO was FROM t1 WHERE id = 6 FOR UPDATE;
    UPDATE t SET v = 66 WHERE id = 6 AND xmin = was RETURNING id INTO STRICT n;
END $$;
UPDATE t SET v = 7 WHERE id = 7;
SELECT k, id, v FROM t ORDER BY id;
DROP TABLE seen;

== versions in scans that are repeated
@table t ON s1
    id int, v int;
INSERT INTO t SELECT g, g FROM generate_series(1, 30) g;
UPDATE t SET v = 0 WHERE id > 20;
CREATE TABLE k AS SELECT g AS id FROM generate_series(1, 5) g;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT k.id, count(DISTINCT (t.xmin::text, t.ctid)), min(t.xmin::text::bigint) > 0 FROM k, t WHERE t.id % 5 = k.id + random() * 0 GROUP BY k.id ORDER BY 1;
SELECT DISTINCT a.xmin = b.xmin FROM t a, t b WHERE a.id = 25 AND b.id = 5 + random() * 0;
SELECT count(*) FROM t a JOIN t b ON a.xmin = b.xmin AND a.ctid = b.ctid AND a.id + b.id > random() * 0;
SELECT a.id FROM t a WHERE a.xmin = (SELECT b.xmin FROM t b WHERE b.id = a.id) ORDER BY 1 LIMIT 3 FOR UPDATE;
UPDATE t SET v = t.v + b.v FROM t b WHERE b.id = t.id - 1 AND b.xmin = t.xmin AND t.id + b.id > random() * 0 AND t.id < 5;
SELECT id, v FROM t WHERE xmin::text = (SELECT xmin::text FROM t WHERE id = 2) ORDER BY id;

== what transactions of a shard say is refused
@table t ON s1
    id int, v int;
INSERT INTO t VALUES (1, 1);
@foreign
@error 0A000
SELECT cmin FROM t;
@foreign
@error 0A000
SELECT id FROM t WHERE cmax = '0';
@foreign
@error 0A000
SELECT id FROM t ORDER BY xmax::text;
@foreign
@error 0A000
SELECT a.id FROM t a JOIN t b ON a.xmax = b.xmin;
@foreign
@error 0A000
SELECT (SELECT count(*) FROM pg_class WHERE t.cmin::text = relname) FROM t;
@foreign
@error 0A000
UPDATE t SET v = 2 WHERE cmin = '0';
@foreign
@error 0A000
UPDATE t SET v = cmin::text::int;
@foreign
@error 0A000
UPDATE t SET v = 2 RETURNING xmax;
@foreign
@error 0A000
UPDATE t SET v = 2 WHERE random() < 2 RETURNING cmin;
@foreign
@error 0A000
DELETE FROM t WHERE v = (SELECT count(*) FROM pg_class WHERE t.cmax::text = relname);
@foreign
@error 0A000
DELETE FROM t RETURNING (SELECT cmin);
@foreign
@error 0A000
INSERT INTO t VALUES (2, 2) RETURNING xmax = 0;
SELECT * FROM t;

== the same for trees
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (0)
    k int, id int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t VALUES (0, 1), (2, 2);
SELECT xmax FROM t WHERE k = 2;
UPDATE t SET id = 3 WHERE k = 2 RETURNING cmin, xmax;
@error 0A000
INSERT INTO t VALUES (2, 4) RETURNING xmax;
@error 0A000
INSERT INTO t VALUES (0, 4) RETURNING xmin;
@foreign
@error 0A000
SELECT xmax FROM t;
@foreign
@error 0A000
UPDATE t SET id = id + 1 RETURNING cmin;
@foreign
@error 0A000
UPDATE t SET id = id + 1 WHERE cmin = '0';
@foreign
@error 0A000
DELETE FROM t WHERE cmax = '0';
@foreign
@error 0A000
INSERT INTO t VALUES (0, 4) RETURNING xmax;
SELECT * FROM t ORDER BY id;

== old and new rows
@since 18
@table t ON s1
    id int, v int;
INSERT INTO t VALUES (1, 1) RETURNING old.ctid, new.ctid, old.xmax, new.xmin IS NULL;
UPDATE t SET v = 2 RETURNING new.ctid, old.v, new.v, old.tableoid::regclass;
DELETE FROM t RETURNING old.ctid, new.ctid, new.xmin, old.v;
INSERT INTO t VALUES (1, 1);
@foreign
@error 0A000
UPDATE t SET v = 2 RETURNING old.ctid;
@foreign
@error 0A000
UPDATE t SET v = 2 RETURNING old.xmin, new.v;
@foreign
@error 0A000
UPDATE t SET v = 2 RETURNING new.xmax;
