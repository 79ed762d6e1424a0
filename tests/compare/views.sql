-- Views over foreign tables and over partitioned ones.

== a view that can be updated
@table t ON s1
    id int, v text, hidden int DEFAULT 5;
CREATE VIEW few AS SELECT id, v FROM t WHERE id < 100;
INSERT INTO few VALUES (1, 'a'), (2, 'b'), (200, 'outside');
INSERT INTO few SELECT g, 'g' FROM generate_series(10, 40) g;
INSERT INTO few VALUES (50, 'r') RETURNING *;
UPDATE few SET v = v || '!' WHERE id < 3;
DELETE FROM few WHERE id IN (10, 200) RETURNING id;
SELECT * FROM few ORDER BY id;

== with check option
@table t ON s1
    id int, v text;
CREATE VIEW small AS SELECT id, v FROM t WHERE id < 100 WITH CHECK OPTION;
CREATE VIEW smaller AS SELECT * FROM small WHERE id < 10;
CREATE VIEW smallest AS SELECT * FROM small WHERE id < 5 WITH LOCAL CHECK OPTION;
INSERT INTO small VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO small SELECT g, 'g' FROM generate_series(20, 40) g;
@error 44000
INSERT INTO small VALUES (4, 'd'), (100, 'e');
@error 44000
INSERT INTO small SELECT g, 'g' FROM generate_series(90, 110) g;
INSERT INTO smaller VALUES (50, 'let through'), (51, 'let through');
@error 44000
INSERT INTO smallest VALUES (1, 'x'), (6, 'y');
INSERT INTO smallest VALUES (1, 'x'), (2, 'y') RETURNING v, id;
@error 44000
UPDATE small SET id = id + 60;
UPDATE small SET id = id + 10 WHERE id < 10;
SELECT * FROM t ORDER BY id, v;

== with check option over a partitioned table
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v int, k int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
CREATE VIEW positive AS SELECT * FROM t WHERE v > 0 WITH CASCADED CHECK OPTION;
INSERT INTO positive SELECT 1 + g % 2, g FROM generate_series(1, 30) g;
@error 44000
INSERT INTO positive VALUES (1, 5), (2, 6), (1, -1);
@error 44000
INSERT INTO positive VALUES (1, 5), (2, -6);
SELECT k, count(*), sum(v) FROM positive GROUP BY k ORDER BY k;

== the check sees what the shard has stored
@table t ON s1
    id int, v int;
@on s1
CREATE FUNCTION w.negate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 2 = 0 THEN NEW.v := -NEW.v; END IF; RETURN NEW; END $$;
@on s1
CREATE TRIGGER negate BEFORE INSERT ON w.t FOR EACH ROW EXECUTE FUNCTION w.negate();
CREATE VIEW positive AS SELECT * FROM t WHERE v > 0 WITH CHECK OPTION;
INSERT INTO positive VALUES (1, 1), (3, 3);
@error 44000
INSERT INTO positive VALUES (5, 5), (6, 6);
SELECT * FROM t ORDER BY id;

== instead-of triggers
@table t ON s1
    id int, v text;
CREATE VIEW twice AS SELECT id, v FROM t;
CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (NEW.id, NEW.v), (-NEW.id, NEW.v); RETURN NEW; END $$;
CREATE TRIGGER twice INSTEAD OF INSERT ON twice FOR EACH ROW EXECUTE FUNCTION twice();
INSERT INTO twice SELECT g, 'g' || g FROM generate_series(1, 12) g;
SELECT count(*), sum(id) FROM t;

== rules of a view
@table t ON s1
    id int, v text;
@table log ON s2
    id int;
CREATE VIEW both_of_them AS SELECT id, v FROM t;
CREATE RULE both_of_them AS ON INSERT TO both_of_them DO INSTEAD (INSERT INTO log VALUES (NEW.id); INSERT INTO t VALUES (NEW.id, NEW.v));
INSERT INTO both_of_them VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO both_of_them SELECT g, 'g' FROM generate_series(10, 30) g;
SELECT count(*) FROM log;
