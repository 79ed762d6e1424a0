-- Rows that the statement's own triggers or functions change before it reaches them.

== a BEFORE trigger changes the row itself
@table t ON s1
    id int, v int, note text
    PRIMARY KEY (id);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %I SET note = ''touched'' WHERE id = $1', TG_TABLE_NAME) USING OLD.id;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER touch BEFORE UPDATE OR DELETE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION touch();
INSERT INTO t SELECT g, g, 'old' FROM generate_series(1, 5) g;
@error 27000
UPDATE t SET v = 100 WHERE id = 1;
@error 27000
UPDATE t SET v = 100 WHERE id = 1 RETURNING *;
@error 27000
DELETE FROM t WHERE id = 2;
@error 27000
DELETE FROM t WHERE id > 2 RETURNING id;
DO $$ BEGIN UPDATE t SET v = 7 WHERE id = 3; EXCEPTION WHEN triggered_data_change_violation THEN RAISE NOTICE 'caught %', SQLERRM; END $$;
SELECT * FROM t ORDER BY id;

== a function changes rows that come later
@table t ON s1
    id int, v int, note text
    PRIMARY KEY (id);
CREATE FUNCTION later(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET note = 'by the function' WHERE id = i + 1; RETURN i; END $$;
CREATE FUNCTION gone(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE id = i + 1; RETURN i; END $$;
CREATE FUNCTION itself(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET note = 'by the function' WHERE id = i; RETURN i; END $$;
CREATE FUNCTION before(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET note = 'by the function' WHERE id = i - 1; RETURN i; END $$;
INSERT INTO t SELECT g, g, 'old' FROM generate_series(1, 12) g;
@error 27000
UPDATE t SET v = later(id);
@error 27000
UPDATE t SET v = gone(id) WHERE id < 5;
@error 27000
UPDATE t SET v = itself(id);
@error 27000
DELETE FROM t WHERE later(id) > 0;
@error 27000
DELETE FROM t WHERE gone(id) > 0;
UPDATE t SET v = later(id) WHERE id = 12;
UPDATE t SET v = before(id) + 100;
SELECT * FROM t ORDER BY id;
BEGIN;
SAVEPOINT s;
@error 27000
UPDATE t SET v = later(id);
ROLLBACK TO s;
UPDATE t SET v = 0 WHERE id = 1;
COMMIT;
SELECT * FROM t ORDER BY id;

== in partitions here and on shards
CREATE TABLE t (k int, id int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    v int, id int, k int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
CREATE FUNCTION other(i int, which int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = -1 WHERE k = which; RETURN i; END $$;
INSERT INTO t SELECT g % 3 + 1, g, g FROM generate_series(1, 9) g;
@error 27000
UPDATE t SET v = other(id, 3);
@error 27000
DELETE FROM t WHERE other(id, k) > 0;
@error 27000
UPDATE t SET k = 3, v = other(id, 1) WHERE k = 1;
UPDATE t SET v = other(id, 1) WHERE k = 2;
SELECT * FROM t ORDER BY id;

== the shard's own triggers, rules and foreign keys may leave rows out
@table t ON s1
    id int, parent int, v int
    PRIMARY KEY (id);
@on s1
ALTER TABLE w.t ADD FOREIGN KEY (parent) REFERENCES w.t ON DELETE CASCADE;
@on s1
CREATE FUNCTION w.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN OLD.id % 2 = 0 THEN NULL ELSE NEW END; END $$;
@on s1
CREATE TRIGGER keep BEFORE UPDATE ON w.t FOR EACH ROW EXECUTE FUNCTION w.keep();
INSERT INTO t VALUES (1, NULL, 1), (2, 1, 2), (3, 1, 3), (4, NULL, 4);
UPDATE t SET v = v + 10 + (random() * 0)::int;
DELETE FROM t WHERE id = 1 AND random() < 2;
SELECT * FROM t ORDER BY id;

== a join brings a row twice
@table t ON s1
    id int, v int
    PRIMARY KEY (id);
CREATE TABLE twice (id int, n int);
INSERT INTO t SELECT g, g FROM generate_series(1, 4) g;
INSERT INTO twice VALUES (1, 5), (1, 5), (3, 6), (3, 6);
UPDATE t SET v = n FROM twice WHERE twice.id = t.id;
DELETE FROM t USING twice WHERE twice.id = t.id AND t.id = 3;
SELECT * FROM t ORDER BY id;
