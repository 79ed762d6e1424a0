-- What valgrind.sh runs, with the variables socket, port and file (to write and read): loads, scans, rescans, changes and RETURNING through loopback
-- servers. What the statements give is compared elsewhere; here an error of valgrind is a failure.
SET client_min_messages = warning;
CREATE EXTENSION shard_fdw;
CREATE SERVER one FOREIGN DATA WRAPPER shard_fdw
    OPTIONS (host :'socket', port :'port', dbname 'postgres', batch_size '7', fetch_size '3');
CREATE SERVER two FOREIGN DATA WRAPPER shard_fdw
    OPTIONS (host :'socket', port :'port', dbname 'postgres', batch_size '50', transport 'copy');
CREATE USER MAPPING FOR CURRENT_USER SERVER one OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER two OPTIONS (user 'postgres');
CREATE SCHEMA r;
CREATE TABLE r.wide (k int, id int PRIMARY KEY, v numeric, w text, a int[], j jsonb, r int4range, at timestamptz);
CREATE TABLE r.far (LIKE r.wide INCLUDING ALL);
CREATE TABLE w (k int, id int, v numeric, w text, a int[], j jsonb, r int4range, at timestamptz) PARTITION BY LIST (k);
CREATE FOREIGN TABLE wide PARTITION OF w FOR VALUES IN (0) SERVER one OPTIONS (schema_name 'r');
CREATE FOREIGN TABLE far PARTITION OF w FOR VALUES IN (1) SERVER two OPTIONS (schema_name 'r');
CREATE TABLE here PARTITION OF w FOR VALUES IN (2);
CREATE TABLE few (k int);
INSERT INTO few SELECT generate_series(1, 4);

-- Loads.
INSERT INTO wide SELECT 0, g, g, repeat(md5(g::text), 30), ARRAY[g, NULL], to_jsonb(g), int4range(g, g + 5), now()
FROM generate_series(1, 120) g;
INSERT INTO far SELECT 1, g, NULL, repeat(md5(g::text), 100), NULL, '{"a": [1, null]}', NULL, '-infinity'
FROM generate_series(201, 260) g;
INSERT INTO w SELECT 0, 300 + g, g FROM generate_series(1, 3) g RETURNING *;
SET shard_fdw.flush_policy = 'transaction';
BEGIN;
INSERT INTO wide (k, id, w) VALUES (0, 401, 'waits'), (0, 402, NULL);
INSERT INTO wide (k, id, w) VALUES (0, 403, 'too');
COMMIT;
RESET shard_fdw.flush_policy;
COPY (SELECT 0, 500 + g, repeat('c', g) FROM generate_series(1, 40) g) TO :'file';
COPY wide (k, id, w) FROM :'file';

-- Scans and rescans, in memory and from temporary files.
SET work_mem = '64kB';
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT count(*), max(w::text) FROM w;
SELECT f.k, count(*), max(x.w), max(x.j::text) FROM few f LEFT JOIN wide x ON x.id % 9 = f.k + random() * 0 GROUP BY 1;
SELECT f.k, (SELECT max(x.w) FROM w x WHERE x.id % 9 = f.k), ARRAY(SELECT x.w FROM far x WHERE x.id % 9 = f.k + random() * 0) FROM few f;
SELECT f.k, x.* FROM few f, LATERAL (SELECT * FROM w WHERE id > f.k * 2 + random() * 0 LIMIT 5) x;
SELECT count(*) FROM few f WHERE EXISTS (SELECT FROM wide x WHERE x.id = f.k + 5 + random() * 0);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT f.k, x FROM few f JOIN wide x ON x.id % 5 = f.k + random() * 0;
FETCH 5 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH ABSOLUTE 20 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT * FROM wide;
FETCH 2 FROM h;
COMMIT;
FETCH 7 FROM h;
CLOSE h;

-- Changes, by batches, one by one and whole, with what they return.
UPDATE wide SET v = v + 1, w = w || '.' WHERE id < 40 AND random() < 2;
UPDATE wide SET w = md5(w) FROM few f WHERE id % 11 = f.k + random() * 0;
UPDATE wide SET v = (SELECT count(*) FROM far x WHERE x.id < wide.id * 3 + random() * 0), a = a || 1 WHERE id < 8 RETURNING *;
UPDATE w SET w = 'd' || w WHERE id < 30 RETURNING id, w, j;
UPDATE w SET k = 1 WHERE id IN (10, 11) AND random() < 2;
UPDATE w SET k = 2 WHERE id = 12;
UPDATE w SET k = 0 WHERE k = 2;
DELETE FROM far WHERE id < 220 RETURNING w, far;
DELETE FROM wide USING few f WHERE id = f.k + 50 + random() * 0 RETURNING f.k, id, w;
DELETE FROM wide WHERE id % 10 = 0 AND random() < 2;
INSERT INTO far SELECT 1, id + 10000, v, w FROM wide WHERE random() < 2;
INSERT INTO wide SELECT * FROM wide WHERE false;
WITH i AS (INSERT INTO wide SELECT k, id + 20000, v, w FROM wide RETURNING *),
     d AS (DELETE FROM far WHERE id % 3 = 0 RETURNING *)
SELECT count(*), max(i.w) FROM i LEFT JOIN d ON d.id = i.id;

-- Triggers here see single rows.
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    NEW.w := concat(NEW.w, TG_OP, (SELECT count(*) FROM far));
    RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON wide FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON wide FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO wide (k, id, w) SELECT 0, 700 + g, repeat('t', g * 100) FROM generate_series(1, 5) g RETURNING *;
UPDATE wide SET v = id WHERE id BETWEEN 701 AND 703 RETURNING *;
DELETE FROM wide WHERE id BETWEEN 701 AND 704 RETURNING *;

-- Errors, caught and not.
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT * FROM wide ORDER BY id LIMIT 8 LOOP
        BEGIN
            INSERT INTO far (k, id) VALUES (1, r.id + 230), (1, r.id + 230);
        EXCEPTION WHEN unique_violation THEN
            UPDATE far SET w = SQLERRM WHERE id = 240;
        END;
    END LOOP;
END $$;
\set ON_ERROR_STOP off
INSERT INTO wide (k, id) VALUES (0, 801), (0, 801);
SELECT id / (id - 5) FROM wide;
CREATE FOREIGN TABLE wrong (id int, w int) SERVER one OPTIONS (schema_name 'r', table_name 'wide');
SELECT * FROM wrong;
