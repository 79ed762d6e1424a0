-- Row security, privileges and other users.

== row security of the parent
CREATE TABLE t (k int, owner text, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    v int, owner text, k int;
@table t2 ON s2 OF t FOR VALUES IN (2)
    k int, owner text, v int;
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON t USING (owner = current_user) WITH CHECK (owner = current_user AND v < 1000);
GRANT ALL ON t TO alice;
INSERT INTO t SELECT 1 + g % 3, 'bob', g FROM generate_series(1, 9) g;
SET ROLE alice;
INSERT INTO t SELECT 1 + g % 3, 'alice', g FROM generate_series(1, 30) g;
INSERT INTO t VALUES (1, 'alice', 100), (2, 'alice', 200) RETURNING *;
@error 42501
INSERT INTO t VALUES (1, 'alice', 101), (1, 'bob', 102);
@error 42501
INSERT INTO t VALUES (3, 'alice', 101), (3, 'bob', 102);
@error 42501
INSERT INTO t SELECT 2, 'alice', 985 + g FROM generate_series(1, 20) g;
UPDATE t SET v = v + 1 WHERE k = 3;
DELETE FROM t WHERE k = 3 AND v > 20;
SELECT k, count(*), sum(v) FROM t GROUP BY k ORDER BY k;
RESET ROLE;
SELECT owner, count(*), sum(v) FROM t GROUP BY owner ORDER BY owner;

== a policy that reads another table
CREATE TABLE allowed (v int);
INSERT INTO allowed SELECT generate_series(1, 20);
GRANT ALL ON allowed TO alice;
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY listed ON t USING (true) WITH CHECK (v IN (SELECT a.v FROM allowed a));
CREATE POLICY odd ON t AS RESTRICTIVE USING (true) WITH CHECK (v % 2 = 1);
GRANT ALL ON t TO alice;
SET ROLE alice;
INSERT INTO t SELECT 1, g FROM generate_series(1, 19, 2) g;
@error 42501
INSERT INTO t VALUES (1, 1), (1, 21);
@error 42501
INSERT INTO t VALUES (1, 1), (1, 2);
SELECT count(*), sum(v) FROM t;

== privileges
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
INSERT INTO t VALUES (1, 1);
SET ROLE alice;
@error 42501 loose
INSERT INTO t VALUES (1, 2);
@error 42501 loose
SELECT * FROM t;
RESET ROLE;
GRANT INSERT (v, k) ON t TO alice;
GRANT SELECT (v) ON t TO alice;
SET ROLE alice;
INSERT INTO t VALUES (1, 2), (1, 3);
INSERT INTO t (v, k) SELECT g, 1 FROM generate_series(10, 30) g RETURNING v;
@error 42501 loose
INSERT INTO t VALUES (1, 2) RETURNING k;
@error 42501 loose
DELETE FROM t;
COPY t FROM STDIN;
1	50
1	51
\.
SELECT count(v), sum(v) FROM t;

== a function of another owner
CREATE TABLE t (k int, v int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, v int;
CREATE FUNCTION fill(n int) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = w AS $$
DECLARE c bigint; BEGIN INSERT INTO t SELECT 1, g FROM generate_series(1, n) g; GET DIAGNOSTICS c = ROW_COUNT; RETURN c; END $$;
SET ROLE alice;
SELECT fill(25);
SELECT fill(3) FROM generate_series(1, 4);
@error 42501 loose
INSERT INTO t VALUES (1, 1);
RESET ROLE;
SELECT count(*), sum(v) FROM t;
