-- Local triggers on the parent, on its leaves and on named foreign tables: when they fire, what they see and change.

== before-row triggers change and drop rows
@table t ON s1
    id int, v text, n int;
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id % 5 = 0 THEN RETURN NULL; END IF;
    NEW.v := coalesce(NEW.v, 'nothing') || '/' || TG_OP;
    NEW.n := NEW.id * 2;
    RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO t VALUES (1, 'a', 0), (2, NULL, 0), (5, 'dropped', 0);
INSERT INTO t SELECT g, 'g', 0 FROM generate_series(1, 30) g;
INSERT INTO t VALUES (7, 'r', 0), (10, 's', 0) RETURNING *;
COPY t FROM STDIN;
8	c	0
9	d	0
10	e	0
\.
UPDATE t SET v = 'u' WHERE id < 4;
UPDATE t SET id = 15 WHERE id = 6;
DELETE FROM t WHERE id = 1;
SELECT * FROM t ORDER BY id, v;

== a before-row trigger reads the table it fires for
@table t ON s1
    n int, seen bigint;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seen := (SELECT count(*) FROM t); RETURN NEW; END $$;
CREATE TRIGGER seen BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION seen();
INSERT INTO t (n) SELECT generate_series(1, 12);
COPY t (n) FROM STDIN;
13
14
15
\.
INSERT INTO t (n) VALUES (16), (17), (18) RETURNING n, seen;
SELECT * FROM t ORDER BY n;

== after-row triggers see the stored rows
@table t ON s1
    id int, v text;
@on s1
CREATE FUNCTION w.mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := NEW.v || '-stored'; RETURN NEW; END $$;
@on s1
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON w.t FOR EACH ROW EXECUTE FUNCTION w.mark();
CREATE TABLE trail (n serial, line text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trail (line) VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, to_json(OLD), to_json(NEW), (SELECT count(*) FROM t)));
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO t SELECT g, 'g' FROM generate_series(10, 20) g;
INSERT INTO t VALUES (4, 'd') RETURNING *;
COPY t FROM STDIN;
5	e
6	f
\.
UPDATE t SET v = 'u' WHERE id = 1;
UPDATE t SET v = 'w' WHERE id < 4 RETURNING v;
DELETE FROM t WHERE id IN (2, 3);
SELECT * FROM trail ORDER BY n;

== statement triggers
@table t ON s1
    id int, v text;
CREATE TABLE trail (n serial, line text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trail (line) VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, (SELECT count(*) FROM t)));
    RETURN NULL;
END $$;
CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO t SELECT g, 'g' FROM generate_series(10, 30) g;
INSERT INTO t SELECT 1, 'x' WHERE false;
WITH x AS (INSERT INTO t VALUES (40, 'x'), (41, 'y')) SELECT 1;
COPY t FROM STDIN;
5	e
6	f
\.
UPDATE t SET v = 'u' WHERE id < 4;
UPDATE t SET v = 'u' WHERE id < 4 AND random() < 2;
DELETE FROM t WHERE id = 3;
SELECT * FROM trail ORDER BY n;

== triggers of a partitioned table and of its leaves
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
CREATE TABLE trail (n serial, line text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trail (line) VALUES (concat_ws(' ', TG_NAME, TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, to_json(OLD), to_json(NEW)));
    IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' AND TG_OP <> 'DELETE' THEN NEW.v := NEW.v || '+'; RETURN NEW; END IF;
    IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN RETURN OLD; END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER p_row_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER p_stmt_before BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER p_stmt_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v text;
@table t2 ON s2 OF t FOR VALUES IN (2)
    v text, id int, k int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
CREATE TRIGGER l_before BEFORE INSERT OR UPDATE OR DELETE ON t2 FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER l_before BEFORE INSERT OR UPDATE OR DELETE ON t3 FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (2, 4, 'd'), (1, 5, 'e');
COPY t FROM STDIN;
1	10	a
2	11	b
3	12	c
1	13	d
\.
UPDATE t SET v = 'u' WHERE k = 2 AND id = 2;
DELETE FROM t WHERE k = 3;
INSERT INTO t1 VALUES (1, 20, 'named'), (1, 21, 'named');
SELECT * FROM trail ORDER BY n;
SELECT * FROM t ORDER BY id;

== a row trigger on one local leaf, foreign leaves without
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
@table t3 ON s2 OF t FOR VALUES IN (3)
    k int, v int;
CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := (SELECT count(*) FROM t); RETURN NEW; END $$;
CREATE TRIGGER seen BEFORE INSERT ON t2 FOR EACH ROW EXECUTE FUNCTION seen();
INSERT INTO t SELECT 1 + g % 3, -g FROM generate_series(1, 30) g;
SELECT * FROM t ORDER BY k, v;
COPY t FROM STDIN;
1	100
3	101
2	0
3	102
2	0
\.
SELECT * FROM t ORDER BY k, v;

== a trigger writes to another table of the same shard and of another
@table t ON s1
    id int;
@table same ON s1
    id int, n bigint;
@table other ON s2
    id int, n bigint;
CREATE FUNCTION spread() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO same SELECT NEW.id * 10 + g, (SELECT count(*) FROM t) FROM generate_series(1, 3) g;
    INSERT INTO other VALUES (NEW.id, (SELECT count(*) FROM same)), (-NEW.id, 0);
    RETURN NEW;
END $$;
CREATE TRIGGER spread BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION spread();
INSERT INTO t SELECT generate_series(1, 9);
COPY t FROM STDIN;
10
11
\.
SELECT * FROM same ORDER BY id;
SELECT * FROM other ORDER BY id;

== a trigger that fails
@table t ON s1
    id int;
@table log ON s1
    id int;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (NEW.id), (NEW.id);
    IF NEW.id = 7 THEN RAISE EXCEPTION 'seven' USING ERRCODE = 'SF007'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fail();
@error SF007
INSERT INTO t SELECT generate_series(1, 10);
@error SF007
COPY t FROM STDIN;
6
7
8
\.
INSERT INTO t SELECT generate_series(8, 12);
SELECT count(*) FROM log;

== triggers with conditions and columns
@table t ON s1
    id int, v text, w int;
CREATE TABLE trail (n serial, line text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trail (line) VALUES (concat_ws(' ', TG_NAME, OLD, NEW)); RETURN NEW; END $$;
CREATE TRIGGER big AFTER INSERT ON t FOR EACH ROW WHEN (NEW.id > 10) EXECUTE FUNCTION note();
CREATE TRIGGER changed BEFORE UPDATE ON t FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION note();
CREATE TRIGGER of_w AFTER UPDATE OF w ON t FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO t SELECT g, 'g', 0 FROM generate_series(8, 13) g;
UPDATE t SET v = 'g' WHERE id < 10;
UPDATE t SET v = 'h' WHERE id = 9;
UPDATE t SET w = 1 WHERE id = 10;
SELECT * FROM trail ORDER BY n;
SELECT * FROM t ORDER BY id;

== triggers switched off
@table t ON s1
    id int, v int;
CREATE FUNCTION double() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := NEW.v * 2; RETURN NEW; END $$;
CREATE TRIGGER double BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION double();
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
ALTER TABLE t DISABLE TRIGGER double;
INSERT INTO t SELECT g, g FROM generate_series(11, 20) g;
ALTER TABLE t ENABLE REPLICA TRIGGER double;
INSERT INTO t SELECT g, g FROM generate_series(21, 30) g;
SET session_replication_role = replica;
INSERT INTO t SELECT g, g FROM generate_series(31, 40) g;
COPY t FROM STDIN;
41	41
42	42
\.
RESET session_replication_role;
SELECT * FROM t ORDER BY id;
