-- MERGE whose INSERT reaches a foreign leaf that is no target of its plan.

== insert into a pruned leaf
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v text, k int, id int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, id int, v text;
INSERT INTO t VALUES (0, 1, 'old'), (0, 2, 'old'), (0, 3, 'old');
CREATE TABLE src AS SELECT g AS id, 's' || g AS v FROM generate_series(1, 30) g;
MERGE INTO t USING src s ON t.k = 0 AND t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1 + s.id % 2, s.id, s.v);
MERGE INTO t USING src s ON t.k = 0 AND t.id = s.id WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED AND s.id % 3 = 0 THEN INSERT VALUES (s.id % 2, 100 + s.id, s.v);
SELECT * FROM t ORDER BY k, id;

== rows that a shard refuses
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int
    PRIMARY KEY (id);
INSERT INTO t VALUES (0, 1), (1, 5);
@error 23505
MERGE INTO t USING generate_series(1, 10) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET id = 100 WHEN NOT MATCHED THEN INSERT VALUES (1, s.id);
MERGE INTO t USING generate_series(1, 4) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET id = 100 WHEN NOT MATCHED THEN INSERT VALUES (1, s.id);
DO $$ DECLARE n int; BEGIN MERGE INTO t USING generate_series(11, 30) s (id) ON t.k = 0 AND t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, s.id); GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '%', n; END $$;
SELECT * FROM t ORDER BY k, id;

== a matched row moves into a foreign leaf
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
INSERT INTO t SELECT 0, g FROM generate_series(1, 20) g;
MERGE INTO t USING generate_series(1, 12) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET k = 1 WHEN MATCHED THEN DELETE;
SELECT * FROM t ORDER BY k, id;

== a moved row keeps what the shard would fill, and is checked as updated
CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int, v text DEFAULT 'far';
@foreign
ALTER FOREIGN TABLE t1 ALTER v OPTIONS (ADD remote_default 'true');
INSERT INTO t SELECT 0, g, 'v' || g FROM generate_series(1, 20) g;
MERGE INTO t USING generate_series(1, 9) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET k = 1 WHEN MATCHED THEN DELETE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON t FOR SELECT USING (true);
CREATE POLICY inserts ON t FOR INSERT WITH CHECK (id > 100);
CREATE POLICY updates ON t FOR UPDATE USING (true) WITH CHECK (id < 15);
GRANT ALL ON t TO alice;
SET ROLE alice;
MERGE INTO t USING generate_series(10, 12) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET k = 1;
@error 42501
MERGE INTO t USING generate_series(16, 16) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET k = 1;
@error 42501
MERGE INTO t USING generate_series(16, 16) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET k = 1, id = 1000;
@error 42501
MERGE INTO t USING generate_series(50, 50) s (id) ON t.k = 0 AND t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, s.id, 'new');
MERGE INTO t USING generate_series(500, 501) s (id) ON t.k = 0 AND t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, s.id, 'new');
RESET ROLE;
SELECT * FROM t ORDER BY k, id;

== triggers of a merge
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
CREATE TABLE trail (n serial, line text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO trail (line) VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL, TG_TABLE_NAME, OLD, NEW)); RETURN NULL; END $$;
CREATE TRIGGER row_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER stmt_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, id int;
INSERT INTO t VALUES (0, 1);
MERGE INTO t USING generate_series(1, 9) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET id = 100 WHEN NOT MATCHED THEN INSERT VALUES (1, s.id);
SELECT * FROM trail ORDER BY n;

== returned rows
@since 17
CREATE TABLE t (k int, id int) PARTITION BY LIST (k);
CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);
@table t1 ON s1 OF t FOR VALUES IN (1)
    id int, k int;
INSERT INTO t VALUES (0, 1), (0, 2);
MERGE INTO t USING generate_series(1, 9) s (id) ON t.k = 0 AND t.id = s.id WHEN MATCHED THEN UPDATE SET id = t.id + 100 WHEN NOT MATCHED THEN INSERT VALUES (1, s.id) RETURNING merge_action(), t.*;
SELECT * FROM t ORDER BY k, id;
