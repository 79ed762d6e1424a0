-- UPDATE and DELETE of rows that have been read before, because no shard can do the statement alone: batches, and what they
-- must not show.

== joins of many kinds
@table t ON s1
    id int, k int, v text
    PRIMARY KEY (id);
@table u ON s2
    id int, k int;
CREATE TABLE l (id int, v text);
INSERT INTO t SELECT g, g % 10, 'v' || g FROM generate_series(1, 120) g;
INSERT INTO u SELECT g, g % 7 FROM generate_series(1, 60, 3) g;
INSERT INTO l SELECT g, 'l' || g FROM generate_series(1, 120, 5) g;
UPDATE t SET v = l.v || '+' || t.v FROM l WHERE l.id = t.id;
UPDATE t SET k = u.k, v = 'u' FROM u WHERE u.id = t.id AND random() < 2;
UPDATE t SET v = s.v FROM t s WHERE s.id = t.id + 1 AND t.id < 30;
UPDATE t SET k = (SELECT max(s.k) FROM t s WHERE s.id < t.id) WHERE id BETWEEN 20 AND 40;
WITH c AS (SELECT id, count(*) OVER () AS n FROM l WHERE id < 60) UPDATE t SET k = c.n FROM c WHERE c.id = t.id;
DELETE FROM t USING l, u WHERE l.id = t.id AND u.id = t.id;
DELETE FROM t USING t s WHERE s.id = t.id * 2 AND s.id > 100;
DELETE FROM t WHERE EXISTS (SELECT FROM l WHERE l.id = t.id) AND random() < 2;
DELETE FROM t WHERE k IN (SELECT k FROM u GROUP BY k HAVING count(*) > 2) AND id % 2 = 0;
WITH gone AS (DELETE FROM l WHERE id < 50 RETURNING id) UPDATE t SET v = 'gone' FROM gone g WHERE t.id = g.id + 1;
WITH gone AS (DELETE FROM t WHERE id > 110 AND random() < 2) DELETE FROM t WHERE id < 10 AND random() < 2;
SELECT * FROM t ORDER BY id;

== a row that is matched again and again
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 25) g;
CREATE TABLE m AS SELECT g AS id FROM generate_series(1, 15) g, generate_series(1, 4);
CREATE TABLE spread AS SELECT g AS id FROM generate_series(1, 3), generate_series(1, 15) g;
UPDATE t SET n = n + 1 FROM m WHERE m.id = t.id;
UPDATE t SET n = n + 10 FROM spread s WHERE s.id = t.id;
UPDATE t SET n = n + 100 FROM m WHERE m.id >= t.id AND t.id < 4;
DELETE FROM t USING spread s WHERE s.id = t.id AND t.id % 3 = 0;
DELETE FROM t USING m, spread s WHERE m.id = t.id AND s.id = t.id AND t.id > 12;
SELECT * FROM t ORDER BY id;

== columns of many types
@table t ON s1
    id int, a int[], n numeric, ts timestamptz, j jsonb, tx text[], r int4range, b bytea, d date;
INSERT INTO t SELECT g, ARRAY[g, g + 1], g / 3.0, '2024-01-01 00:00+00'::timestamptz + g * interval '1 day', jsonb_build_object('g', g), ARRAY['x"y', NULL, g::text], int4range(g, g + 5), decode('00ff', 'hex'), '2024-01-01'::date + g FROM generate_series(1, 17) g;
UPDATE t SET a = a || id, n = n * 2, ts = ts + interval '1 hour', j = j || '{"new": [1, null]}' WHERE random() < 2;
UPDATE t SET a = NULL, tx = tx || ARRAY['{}', 'ä\'], r = NULL, b = b || '\x01' WHERE id % 2 = 0 AND random() < 2;
UPDATE t SET a = '{}', tx = ARRAY[[1, 2], [3, 4]]::text[], d = NULL WHERE id % 5 = 0 AND random() < 2;
UPDATE t SET n = 'NaN', d = 'infinity', r = 'empty' WHERE id = 7 AND random() < 2 RETURNING *;
DELETE FROM t WHERE a IS NULL AND random() < 2 AND id > 12;
SELECT * FROM t ORDER BY id;

== types of the users
@on s1
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
@foreign
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
@on s1
CREATE TYPE pair AS (x int, y text);
@foreign
CREATE TYPE pair AS (x int, y text);
@on s1
CREATE DOMAIN small AS int CHECK (VALUE < 100);
@foreign
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
@table t ON s1
    id int, m mood, p pair, ms mood[], s small;
INSERT INTO t SELECT g, 'ok', ROW(g, 'y' || g)::pair, '{sad,ok}', g FROM generate_series(1, 12) g;
UPDATE t SET m = 'glad', p = ROW(id * 2, 'a,"b"')::pair WHERE id % 2 = 0 AND random() < 2;
UPDATE t SET ms = ms || 'glad'::mood, p.y = NULL, s = s + 50 WHERE id < 6 AND random() < 2;
UPDATE t SET p = NULL, m = NULL WHERE id = 9 AND random() < 2;
@error 23514 loose
UPDATE t SET s = s + 90 WHERE random() < 2;
DELETE FROM t WHERE m = 'glad' AND id > 8;
SELECT * FROM t ORDER BY id;

== columns in another order, dropped and generated
@table t ON s1
    a int, gone int, b text, twice int GENERATED ALWAYS AS (a * 2) STORED, c int;
ALTER TABLE t DROP COLUMN gone;
INSERT INTO t (a, b, c) SELECT g, 'b' || g, g FROM generate_series(1, 15) g;
UPDATE t SET a = a + 100 WHERE random() < 2;
UPDATE t SET c = twice, twice = DEFAULT WHERE a % 2 = 0 AND random() < 2;
UPDATE t SET b = twice::text FROM generate_series(101, 105) g WHERE g = t.a;
DELETE FROM t WHERE twice > 225 AND random() < 2;
SELECT * FROM t ORDER BY a;

== a tree of local and foreign leaves
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v text, k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
CREATE TABLE sub (id int, v text, k int) PARTITION BY LIST (id);
ALTER TABLE t ATTACH PARTITION sub FOR VALUES IN (4, 5);
@table t4 ON s1 OF sub DEFAULT
    id int, k int, v text;
INSERT INTO t SELECT 1 + g % 5, g, 'v' || g FROM generate_series(1, 100) g;
CREATE TABLE ch AS SELECT g AS id, 'c' || g AS v FROM generate_series(1, 100, 2) g, generate_series(1, 2);
UPDATE t SET v = v || '!' WHERE random() < 2;
UPDATE t SET v = ch.v FROM ch WHERE ch.id = t.id AND t.k <> 2;
UPDATE t SET id = t.id + 1000, v = NULL FROM ch WHERE ch.id = t.id AND t.id < 20;
DELETE FROM t USING ch WHERE ch.id = t.id AND t.id % 3 = 0;
DELETE FROM t WHERE id > 90 AND random() < 2;
DO $$ DECLARE n bigint; m bigint; BEGIN UPDATE t SET v = 'do' WHERE id < 30 AND random() < 2; GET DIAGNOSTICS n = ROW_COUNT; DELETE FROM t WHERE id BETWEEN 30 AND 40 AND random() < 2; GET DIAGNOSTICS m = ROW_COUNT; RAISE NOTICE '% %', n, m; END $$;
PREPARE ud(int) AS UPDATE t SET v = v || '.' WHERE id % $1 = 0 AND random() < 2;
SET plan_cache_mode = force_generic_plan;
EXECUTE ud(2);
EXECUTE ud(7);
EXECUTE ud(1000);
SELECT k, count(*), sum(id), string_agg(v, ',' ORDER BY id) FROM t GROUP BY k ORDER BY k;

== triggers here
@table t ON s1
    id int, n int, v text;
INSERT INTO t SELECT g, g, 'v' FROM generate_series(1, 12) g;
CREATE TABLE trail (line text);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' THEN IF OLD.id = 4 THEN RETURN NULL; END IF; RETURN OLD; END IF; IF NEW.id = 2 THEN RETURN NULL; END IF; NEW.v := NEW.v || '*'; RETURN NEW; END $$;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trail VALUES (concat_ws(' ', TG_OP, TG_LEVEL, OLD, NEW)); RETURN NULL; END $$;
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trail VALUES (concat_ws(' ', TG_OP, TG_WHEN, (SELECT count(*) || ' ' || sum(n) FROM t))); RETURN NULL; END $$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION counted();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION counted();
UPDATE t SET n = n + 1 WHERE random() < 2;
DELETE FROM t WHERE id > 10 AND random() < 2;
CREATE TRIGGER stamp BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION stamp();
UPDATE t SET n = n + 1 WHERE random() < 2;
DELETE FROM t WHERE id IN (4, 5) AND random() < 2;
DROP TRIGGER stamp ON t;
CREATE TRIGGER note AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
UPDATE t SET n = n + 1 WHERE id < 6 AND random() < 2;
DELETE FROM t WHERE id = 8 AND random() < 2;
SELECT * FROM trail ORDER BY line;
SELECT * FROM t ORDER BY id;

== triggers on the shard
@table t ON s1
    id int, n int, v text
    PRIMARY KEY (id);
INSERT INTO t SELECT g, g, 'v' FROM generate_series(1, 12) g;
@on s1
CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.id % 4 = 0 THEN RETURN NULL; END IF; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; NEW.v := NEW.v || TG_OP; RETURN NEW; END $$;
@on s1
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION guard();
UPDATE t SET n = n + 100 WHERE random() < 2;
UPDATE t SET n = n + 100 WHERE id < 6 AND random() < 2 RETURNING id, v;
DELETE FROM t WHERE id > 6 AND random() < 2;
SELECT * FROM t ORDER BY id;

== functions that read what is being changed
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, 1 FROM generate_series(1, 20) g;
CREATE FUNCTION total() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT sum(n) FROM w.t';
UPDATE t SET n = n + 1, id = id + 0 * total() WHERE random() < 2;
UPDATE t SET n = total() WHERE id <= 5;
DELETE FROM t WHERE id > 10 AND total() % 2 = 0;
SELECT * FROM t ORDER BY id;

== savepoints in the middle
@table t ON s1
    id int, n int
    PRIMARY KEY (id), CHECK (n < 1000);
INSERT INTO t SELECT g, g FROM generate_series(1, 30) g;
BEGIN;
UPDATE t SET n = n + 100 WHERE random() < 2;
SAVEPOINT a;
DELETE FROM t WHERE id <= 10 AND random() < 2;
ROLLBACK TO a;
UPDATE t SET n = n + 1 WHERE id > 20 AND random() < 2;
SAVEPOINT b;
@error 23514
UPDATE t SET n = n * 100 WHERE random() < 2;
ROLLBACK TO b;
DELETE FROM t WHERE id IN (1, 30) AND random() < 2;
COMMIT;
CREATE FUNCTION careful(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN UPDATE w.t SET n = 5000 WHERE id = i AND random() < 2; RETURN 0; EXCEPTION WHEN check_violation THEN RETURN 1; END $$;
UPDATE t SET n = n + careful(2) WHERE id > 15 AND random() < 2;
DO $$ BEGIN UPDATE t SET n = n + 1 WHERE random() < 2; BEGIN UPDATE t SET id = 20 WHERE id < 5 AND random() < 2; EXCEPTION WHEN unique_violation THEN RAISE NOTICE '%', SQLSTATE; END; DELETE FROM t WHERE id = 7 AND random() < 2; END $$;
SELECT * FROM t ORDER BY id;

== errors of a batch
@table t ON s1
    id int, n int NOT NULL
    PRIMARY KEY (id), CONSTRAINT positive CHECK (n > 0);
@table child ON s1
    id int;
@on s1
ALTER TABLE child ADD CONSTRAINT parent FOREIGN KEY (id) REFERENCES t;
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO child VALUES (15);
@error 23514
UPDATE t SET n = 10 - n WHERE random() < 2;
@error 23502
UPDATE t SET n = NULLIF(n, 12) WHERE random() < 2;
@error 23505
UPDATE t SET id = id % 3 + 100 WHERE random() < 2;
@error 23503
DELETE FROM t WHERE random() < 2;
@error 22012
UPDATE t SET n = 1 / abs(id - 13) + 1 WHERE random() < 2;
DELETE FROM t WHERE id <> 15 AND random() < 2;
SELECT * FROM t ORDER BY id;

== views with a check
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, g FROM generate_series(1, 12) g;
CREATE VIEW few AS SELECT id, n FROM t WHERE n < 10 WITH CHECK OPTION;
CREATE VIEW all_of_it AS SELECT id, n FROM t WHERE n < 100;
UPDATE few SET n = n - 1 WHERE random() < 2;
@error 44000
UPDATE few SET n = n + 5 WHERE random() < 2;
UPDATE all_of_it SET n = n + 95 WHERE random() < 2;
DELETE FROM all_of_it WHERE random() < 2;
DELETE FROM few WHERE random() < 2;
SELECT * FROM t ORDER BY id;

== row security of a partitioned parent
CREATE TABLE t (k int, who text, n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, who text, n int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT 1 + g % 2, CASE WHEN g % 3 = 0 THEN 'alice' ELSE 'bob' END, g FROM generate_series(1, 24) g;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON t USING (who = current_user) WITH CHECK (n < 100);
GRANT ALL ON t TO alice;
SET ROLE alice;
UPDATE t SET n = n + 1 WHERE random() < 2;
@error 42501
UPDATE t SET n = n + 85 WHERE random() < 2;
DELETE FROM t WHERE n > 15 AND random() < 2;
RESET ROLE;
SELECT * FROM t ORDER BY n, k;

== cursors that were opened before
@table t ON s1
    id int, n int;
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
BEGIN;
DECLARE early CURSOR FOR SELECT id, n FROM t;
DECLARE begun CURSOR FOR SELECT id FROM t;
FETCH 3 FROM begun;
UPDATE t SET n = -n WHERE random() < 2;
DELETE FROM t WHERE id > 5 AND random() < 2;
FETCH ALL FROM begun;
FETCH ALL FROM early;
SELECT * FROM t ORDER BY id;
COMMIT;
