-- Scans that run again and again, over tables that are too large for work_mem: their rows are replayed from temporary files.

== nested loops
@table big ON s1
    id int, v numeric, w text;
CREATE TABLE k (k int, a int);
INSERT INTO big SELECT g, g, repeat(md5(g::text), 20) FROM generate_series(1, 400) g;
INSERT INTO k SELECT g, g % 3 FROM generate_series(1, 24) g;
SET work_mem = '64kB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT k.k, b.id, b.v, b.w FROM k JOIN big b ON b.id BETWEEN k.k * 15 AND k.k * 15 + 1 + random() * 0 ORDER BY 1, 2;
SELECT k.k, count(*), sum(b.v), md5(string_agg(b.w, '/' ORDER BY b.id)) FROM k JOIN big b ON b.id % 24 = k.k GROUP BY k.k ORDER BY k.k;
SELECT k.k, b.id, length(b.w) FROM k LEFT JOIN big b ON b.id = k.k * 20 + random() * 0 ORDER BY 1;
SELECT k FROM k WHERE NOT EXISTS (SELECT FROM big b WHERE b.id = k.k * 20 + random() * 0) ORDER BY 1;
SELECT count(*), sum(a.v), max(a.w || b.w) FROM big a JOIN big b ON a.id = b.id + 200 + random() * 0;

== subqueries for each row
@table big ON s1
    id int, v numeric, w text;
CREATE TABLE k (k int, a int);
INSERT INTO big SELECT g, g, repeat(md5(g::text), 20) FROM generate_series(1, 400) g;
INSERT INTO k SELECT g, g % 3 FROM generate_series(1, 24) g;
SET work_mem = '64kB';
SET enable_material = off;
SET enable_memoize = off;
SELECT k, (SELECT max(w) FROM big b WHERE b.id % 24 = k.k + random() * 0) FROM k ORDER BY k;
SELECT k, (SELECT max(w) FROM big b WHERE b.id % 24 = k.k) FROM k ORDER BY k;
SELECT k, ARRAY(SELECT left(w, 40) FROM big b WHERE b.id % 48 = k.k + random() * 0 ORDER BY id) FROM k ORDER BY k;
SELECT k, x.* FROM k, LATERAL (SELECT id, v, w FROM big b WHERE b.id > k.k * 3 + random() * 0 LIMIT 3) x;
SELECT k, x.* FROM k, LATERAL (SELECT id, v, w FROM big b WHERE b.id > k.k * 3 ORDER BY id LIMIT 3) x ORDER BY k, id;
SELECT k FROM k WHERE (k, md5('')) IN (SELECT id / 2, md5('') FROM big b WHERE b.id <= k.a * 10 + random() * 0) ORDER BY k;
WITH RECURSIVE r(id, w) AS (
    SELECT 1, ''
    UNION ALL
    SELECT b.id, b.w FROM r, big b WHERE b.id = r.id * 2 + random() * 0
) SELECT * FROM r ORDER BY id;

== changes of what is scanned again
CREATE TABLE t (k int, id int, v numeric, w text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v numeric, w text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    w text, id int, v numeric, k int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
@table small ON s1
    id int, w text;
INSERT INTO t SELECT 1 + g % 3, g, g, repeat(md5(g::text), 30) FROM generate_series(1, 360) g;
INSERT INTO small SELECT g, repeat('s', g) FROM generate_series(1, 20) g;
SET work_mem = '64kB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
UPDATE t SET v = v + 1, w = small.w || t.w FROM small WHERE t.id = small.id * 5 + random() * 0;
UPDATE t1 SET v = v + 1 FROM small WHERE t1.id % 20 = small.id + random() * 0 RETURNING t1.id, t1.v, left(t1.w, 9), small.id;
UPDATE small SET w = (SELECT max(t.w) FROM t WHERE t.id % 21 = small.id + random() * 0);
UPDATE t SET (v, w) = (SELECT count(*), max(x.w) FROM t1 x WHERE x.id < t.id + random() * 0) WHERE id BETWEEN 100 AND 112 RETURNING id, v, w;
DELETE FROM t USING small WHERE t.id = small.id * 7 + random() * 0;
DELETE FROM t2 WHERE EXISTS (SELECT FROM t1 WHERE t1.id = t2.id + 2 + random() * 0) AND id < 60 RETURNING id, left(w, 20);
INSERT INTO t SELECT 2, x.id + 1000, x.v, x.w FROM small, LATERAL (SELECT * FROM t1 WHERE t1.id > small.id * 9 + random() * 0 ORDER BY id LIMIT 3) x;
INSERT INTO t1 SELECT 1, t1.id + 2000, t1.v, t1.w FROM small JOIN t1 ON t1.id = small.id * 11 + random() * 0 RETURNING *;
UPDATE t SET k = 4 - k FROM small WHERE t.id = small.id * 12 + random() * 0;
SELECT k, count(*), sum(id), sum(v), md5(string_agg(w, '/' ORDER BY id, v)) FROM t GROUP BY k ORDER BY k;
SELECT id, md5(w) FROM small ORDER BY id;

== changes of everything that wide rows hold
@table t ON s1
    id int, n numeric, a text[], j jsonb, b bytea, r numrange;
@table log ON s2
    id int, old text, new text;
INSERT INTO t SELECT g, g, array_fill(md5(g::text), ARRAY[30]), jsonb_build_object('k', repeat('j', g)), decode(repeat(md5(g::text), 20), 'hex'), numrange(g, NULL)
    FROM generate_series(1, 150) g;
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (OLD.id, md5(OLD::text), md5(NEW::text));
    RETURN NULL;
END $$;
CREATE TRIGGER logged AFTER UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION logged();
CREATE TABLE k (k int);
INSERT INTO k SELECT generate_series(1, 12);
SET work_mem = '64kB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
UPDATE t SET n = -n, a = a || 'more'::text, j = j || '{"l": 1}' FROM k WHERE t.id = k.k * 9 + random() * 0 RETURNING t, k;
DELETE FROM t USING k WHERE t.id = k.k * 10 + random() * 0 RETURNING md5(t::text);
SELECT k, x FROM k, LATERAL (SELECT t FROM t WHERE t.id > k.k * 8 + random() * 0 ORDER BY id LIMIT 2) x ORDER BY k, x;
SELECT k, (SELECT t FROM t WHERE t.id = k.k * 8 + random() * 0) FROM k ORDER BY k;
SELECT id, md5(t::text) FROM t ORDER BY id;
SELECT * FROM log ORDER BY id, old;

== cursors over scans that run again
@table big ON s1
    id int, w text;
CREATE TABLE k (k int);
INSERT INTO big SELECT g, repeat(md5(g::text), 25) FROM generate_series(1, 200) g;
INSERT INTO k SELECT generate_series(1, 8);
SET work_mem = '64kB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k.k, b.id, b.w FROM k JOIN big b ON b.id % 8 = k.k - 1 + random() * 0 ORDER BY k.k, b.id;
FETCH 3 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 60 FROM c;
FETCH FIRST FROM c;
DECLARE s SCROLL CURSOR FOR SELECT * FROM big;
FETCH 4 FROM s;
UPDATE big SET w = 'new' WHERE id < 100;
FETCH 4 FROM s;
FETCH BACKWARD 6 FROM s;
MOVE FORWARD ALL FROM s;
FETCH PRIOR FROM s;
DECLARE h CURSOR WITH HOLD FOR SELECT k.k, b.w FROM k, LATERAL (SELECT w FROM big b WHERE b.id > k.k * 20 + random() * 0 ORDER BY id LIMIT 2) b;
FETCH 3 FROM h;
COMMIT;
FETCH 20 FROM h;
CLOSE h;
