-- Rows that are found by their key, through views on the shard.

== a view and its key
@table base ON s1
    a int, b text, n int
    PRIMARY KEY (a, b);
INSERT INTO base SELECT g % 5, 'b' || g, g FROM generate_series(1, 40) g;
@on s1
CREATE VIEW t AS SELECT n, b, a FROM base;
@foreign
CREATE FOREIGN TABLE t (n int, b text OPTIONS (key 'true'), a int OPTIONS (key 'true')) SERVER s1 OPTIONS (schema_name 'w');
CREATE TABLE twice AS SELECT g % 5 AS a, 'b' || g AS b, i FROM generate_series(1, 40, 2) g, generate_series(1, 2) i;
UPDATE t SET n = n + 100 WHERE random() < 2;
DELETE FROM t WHERE n > 135 AND random() < 2;
UPDATE t SET n = n + i FROM (SELECT a, b, min(i) AS i FROM twice GROUP BY a, b) s WHERE s.a = t.a AND s.b = t.b;
UPDATE t SET n = n * 10 FROM twice s WHERE s.a = t.a AND s.b = t.b;
DELETE FROM t USING twice s WHERE s.a = t.a AND s.b = t.b AND n < 1100;
UPDATE t SET a = a + 10 WHERE random() < 2;
UPDATE t SET b = t.b || '!', n = 0 FROM twice s WHERE s.a + 10 = t.a AND s.b = t.b;
UPDATE t SET n = 7 WHERE a = 11 AND random() < 2 RETURNING a, b;
DELETE FROM t WHERE a = 12 AND random() < 2 RETURNING *;
INSERT INTO t (a, b, n) VALUES (50, 'new', 1);
UPDATE t SET n = n + 1 WHERE a = 50;
@error 23505
UPDATE t SET a = 50, b = 'new' WHERE a = 11 AND random() < 2;
SELECT * FROM t ORDER BY a, b;
@foreign
DROP FOREIGN TABLE t;

== a view that is changed by triggers
@table base ON s1
    a int, n int;
INSERT INTO base SELECT g % 6, g FROM generate_series(1, 30) g;
@on s1
CREATE VIEW t AS SELECT a, sum(n) AS total FROM base GROUP BY a;
@on s1
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM w.base WHERE a = OLD.a; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; INSERT INTO w.base VALUES (NEW.a, NEW.total); RETURN NEW; END $$;
@on s1
CREATE TRIGGER change INSTEAD OF UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION change();
@foreign
CREATE FOREIGN TABLE t (a int OPTIONS (key 'true'), total bigint) SERVER s1 OPTIONS (schema_name 'w');
UPDATE t SET total = total * 2 WHERE random() < 2;
UPDATE t SET total = 0 WHERE a = 3 AND random() < 2 RETURNING *;
DELETE FROM t WHERE a > 3 AND random() < 2;
SELECT * FROM t ORDER BY a;
@foreign
DROP FOREIGN TABLE t;

== leaves of both kinds
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v text, id int, k int
    PRIMARY KEY (id);
@foreign
ALTER FOREIGN TABLE t1 ALTER id OPTIONS (ADD key 'true');
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v text;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
INSERT INTO t SELECT 1 + g % 3, g, 'v' || g FROM generate_series(1, 60) g;
CREATE TABLE s AS SELECT g AS id FROM generate_series(1, 60, 4) g, generate_series(1, 2);
UPDATE t SET v = v || '+' WHERE random() < 2;
UPDATE t SET v = v || '-' FROM s WHERE s.id = t.id;
UPDATE t SET id = id + 100 WHERE id > 40 AND random() < 2;
DELETE FROM t USING s WHERE s.id = t.id AND s.id < 20;
DELETE FROM t WHERE id % 5 = 0 AND random() < 2;
SELECT * FROM t ORDER BY id;
