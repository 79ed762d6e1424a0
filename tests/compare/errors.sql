-- Errors that come from functions and checks here, not from a shard: every field as for a local table.

== conditions, at planning and once for a statement
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10), (2, 20);
CREATE FUNCTION rule(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'broken rule %', i
        USING errcode = 'AP001', detail = 'd' || i, hint = 'h' || i, schema = 'w', table = 'claim', column = 'amount', datatype = 'int4', constraint = 'rule_1';
END $$;
CREATE FUNCTION outer_rule(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT rule(i)); END $$;
@error AP001 whole
SELECT * FROM t WHERE n = rule(1);
@error AP001 whole
SELECT * FROM t WHERE n = outer_rule(1);
@error AP001 whole
EXPLAIN SELECT * FROM t WHERE n > rule(1);
@error AP001 whole
SELECT * FROM t WHERE n BETWEEN rule(2) AND 100 AND k = 1;
@error AP001 whole
SELECT * FROM t WHERE n = (SELECT rule(3));
@error AP001 whole
SELECT * FROM t WHERE n = (SELECT outer_rule(3) + count(*) FROM t);
@error AP001 whole
EXPLAIN (ANALYZE, COSTS off) SELECT * FROM t WHERE n = (SELECT rule(3));
@error AP001 whole
SELECT (SELECT v.n FROM t v WHERE v.k = rule(u.k)) FROM t u;
@error AP001 whole
SELECT * FROM t WHERE rule(n) = 1;
@error AP001 whole
SELECT rule(n) FROM t;
@error AP001 whole
UPDATE t SET n = 3 WHERE n = rule(4);
@error AP001 whole
UPDATE t SET n = 3 WHERE n = (SELECT rule(4));
@error AP001 whole
UPDATE t SET n = (SELECT rule(5));
@error AP001 whole
UPDATE t SET n = rule(n) WHERE k = 1;
@error AP001 whole
DELETE FROM t WHERE n = rule(6);
@error AP001 whole
DELETE FROM t WHERE n = (SELECT rule(6)) AND k > 0;
@error AP001 whole
INSERT INTO t VALUES (3, 30) RETURNING rule(n);
SELECT * FROM t ORDER BY k;

== parameters, generic plans and cursors
@table t ON s1
    k int, n int;
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
CREATE FUNCTION rule(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF i > 3 THEN RAISE 'beyond %', i USING errcode = 'AP003', constraint = 'three'; END IF;
    RETURN i;
END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE found(int) AS SELECT k FROM t WHERE n = rule($1);
EXECUTE found(2);
@error AP003 whole
EXECUTE found(4);
PREPARE changed(int) AS UPDATE t SET n = -n WHERE n = (SELECT rule($1));
@error AP003 whole
EXECUTE changed(4);
PREPARE cast_to(text) AS SELECT k FROM t WHERE n = (SELECT $1::int);
@error 22P02 whole
EXECUTE cast_to('x');
RESET plan_cache_mode;
BEGIN;
DECLARE c CURSOR FOR SELECT k, rule(n) FROM t ORDER BY k;
FETCH 2 FROM c;
@error AP003 whole
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t WHERE n = (SELECT rule(4));
@error AP003 whole
FETCH 1 FROM c;
ROLLBACK;
@error 22012 whole
SELECT * FROM t WHERE n = (SELECT 1 / count(*) FROM t WHERE k < 0);
@error 22P02 whole
SELECT * FROM t WHERE n = (SELECT v::int FROM (VALUES ('many')) AS x (v));

== errors caught
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10), (2, 20);
CREATE FUNCTION rule(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE 'rule %', i USING errcode = 'AP001', detail = 'd', hint = 'h', schema = 'w', table = 'claim', column = 'amount', datatype = 'int4', constraint = 'rule_1';
END $$;
CREATE FUNCTION told(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    a text; b text; c text; d text; e text; f text; g text; h text; i text; j text;
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS a = returned_sqlstate, b = message_text, c = pg_exception_detail, d = pg_exception_hint,
        e = pg_exception_context, f = schema_name, g = table_name, h = column_name, i = pg_datatype_name, j = constraint_name;
    RETURN concat_ws(' | ', a, b, c, d, e, f, g, h, i, j);
END $$;
SELECT told('SELECT * FROM t WHERE n = rule(1)');
SELECT told('SELECT * FROM t WHERE n = (SELECT rule(2))');
SELECT told('UPDATE t SET n = 3 WHERE n = rule(3)');
SELECT told('DELETE FROM t WHERE n = (SELECT rule(4))');
DO $$
DECLARE i int;
BEGIN
    FOR i IN 1..3 LOOP
        BEGIN
            PERFORM * FROM t WHERE n = rule(i);
        EXCEPTION WHEN SQLSTATE 'AP001' THEN
            RAISE NOTICE 'handled %', SQLERRM;
        END;
    END LOOP;
END $$;
SELECT * FROM t ORDER BY k;

== errors raised again
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10), (2, 20);
CREATE FUNCTION first() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE 'the first' USING errcode = 'AP001', constraint = 'first';
END $$;
CREATE FUNCTION handled(n int) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN first();
EXCEPTION WHEN OTHERS THEN
    FOR i IN 1..n LOOP
        BEGIN
            RAISE 'number %', i USING errcode = 'AP002', constraint = 'another';
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    RAISE;
END $$;
@error AP001 whole
SELECT * FROM t WHERE n = handled(0);
@error AP001 whole
SELECT * FROM t WHERE n = handled(1);
@error AP001 whole
SELECT * FROM t WHERE n = (SELECT handled(5));
CREATE FUNCTION recovered() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN first();
EXCEPTION WHEN OTHERS THEN
    RETURN 1 / 0;
END $$;
@error 22012 whole
SELECT * FROM t WHERE n = (SELECT recovered());
CREATE FUNCTION quiet() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN first();
EXCEPTION WHEN OTHERS THEN
    RETURN 10;
END $$;
SELECT * FROM t WHERE n = quiet() AND n = (SELECT quiet());

== queries of functions on the same table
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10), (2, 20);
CREATE FUNCTION depth(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE r int;
BEGIN
    IF i = 0 THEN RAISE 'at the bottom' USING errcode = 'AP004', column = 'n'; END IF;
    SELECT u.n INTO r FROM t u WHERE u.n = (SELECT depth(i - 1));
    RETURN r;
END $$;
@error AP004 whole
SELECT * FROM t WHERE n = (SELECT depth(1));
@error AP004 whole
SELECT * FROM t WHERE n = (SELECT depth(4));
@error AP004 whole
SELECT * FROM t WHERE n = depth(3);

== texts of queries and places in them
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10);
SET check_function_bodies = off;
CREATE FUNCTION dynamic() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN EXECUTE 'SELECT 1 + missing_column'; RETURN 1; END $$;
CREATE FUNCTION static() RETURNS int LANGUAGE plpgsql STABLE AS $$ DECLARE r int; BEGIN SELECT missing_column INTO r FROM t; RETURN r; END $$;
CREATE FUNCTION in_sql() RETURNS int LANGUAGE sql STABLE AS 'SELECT n FROM missing_table';
CREATE FUNCTION of_sql() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT 1 / count(*) FROM generate_series(1, 0)';
@error 42703 whole
SELECT * FROM t WHERE n = dynamic();
@error 42703 whole
SELECT * FROM t WHERE n = (SELECT static());
@error 42P01 whole
SELECT * FROM t WHERE n = (SELECT in_sql());
@error 22012 whole
SELECT * FROM t WHERE n = (SELECT of_sql());
@error 42P01 whole
SELECT * FROM t WHERE n = in_sql();
@error 22P02 whole
SELECT * FROM t WHERE n = 'many';

== domains in expressions
CREATE FUNCTION accepts(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF i > 50 THEN RAISE 'too much' USING errcode = 'AP002', hint = 'less'; END IF; RETURN i > 0; END $$;
CREATE DOMAIN amount AS int CONSTRAINT counted CHECK (accepts(VALUE));
@table t ON s1
    k int, n int;
INSERT INTO t VALUES (1, 10);
@error AP002 whole
SELECT * FROM t WHERE n = (SELECT 60::amount);
@error 23514 whole
SELECT * FROM t WHERE n = (SELECT (-1)::amount);
@error 23514 whole
UPDATE t SET n = (n - 20)::amount WHERE k = (SELECT 1::amount);
@error 23514 whole
INSERT INTO t SELECT 2, (k - 2)::amount FROM t;
@error 22003 whole
SELECT * FROM t WHERE n = (SELECT 3000000000::int::amount);

== routing, bounds, defaults and generated columns
CREATE FUNCTION allowed(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF i > 50 THEN RAISE 'too much' USING errcode = 'AP002', constraint = 'limit_50', detail = 'It is ' || i || '.'; END IF; RETURN i > 0; END $$;
CREATE TABLE cap (k int, n int) PARTITION BY LIST ((allowed(n)));
@table cap_1 ON s1 OF cap FOR VALUES IN (true)
    k int, n int;
INSERT INTO cap VALUES (1, 10);
@error AP002 whole
INSERT INTO cap VALUES (1, 60);
@error AP002 whole
INSERT INTO cap SELECT g, g * 10 FROM generate_series(1, 9) g;
@error AP002 whole
UPDATE cap SET n = 60 WHERE random() < 2;
CREATE FUNCTION filled(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'nothing to fill in' USING errcode = 'AP005', column = 'n'; END $$;
ALTER TABLE cap ALTER n SET DEFAULT filled(1);
@error AP005 whole
INSERT INTO cap (k) VALUES (3);
@error AP005 whole
COPY cap (k) FROM STDIN;
1
2
\.
@error 22P02 whole
COPY cap FROM STDIN;
1	1
2	x
\.
SELECT * FROM cap ORDER BY k;

== bounds of a leaf
CREATE TABLE zone (k int, n int) PARTITION BY LIST (k);
@table zone_1 ON s1 OF zone FOR VALUES IN (1)
    k int, n int;
INSERT INTO zone VALUES (1, 10);
@error 23514 whole
INSERT INTO zone_1 VALUES (2, 20);
@error 23514 whole
UPDATE zone_1 SET k = 2 WHERE random() < 2;
@error 23514 whole
INSERT INTO zone VALUES (3, 30);
SELECT * FROM zone;

== row security
CREATE FUNCTION visible(i int) RETURNS bool LANGUAGE plpgsql STABLE AS $$ BEGIN IF i > 90 THEN RAISE 'not for %', current_user USING errcode = 'AP006', table = 'secret'; END IF; RETURN i < 80; END $$;
CREATE TABLE t (k int, n int) PARTITION BY LIST (k);
@table t1 ON s1 OF t FOR VALUES IN (1)
    k int, n int;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON t USING (visible(n)) WITH CHECK (visible(n));
GRANT ALL ON t TO alice;
INSERT INTO t VALUES (1, 10), (1, 20);
SET ROLE alice;
@error 42501 whole
INSERT INTO t VALUES (1, 85);
@error AP006 whole
INSERT INTO t VALUES (1, 30), (1, 95);
@error 42501 whole
UPDATE t SET n = 85 WHERE n = 10;
@error AP006 whole
UPDATE t SET n = 95 WHERE n = 10;
RESET ROLE;
INSERT INTO t VALUES (1, 96);
SET ROLE alice;
@error AP006 whole
SELECT * FROM t;
@error AP006 whole
DELETE FROM t;
RESET ROLE;

== check options and triggers
CREATE FUNCTION visible(i int) RETURNS bool LANGUAGE plpgsql STABLE AS $$ BEGIN IF i > 90 THEN RAISE 'too large' USING errcode = 'AP007', schema = 's'; END IF; RETURN i < 80; END $$;
@table t ON s1
    k int, n int;
CREATE VIEW v AS SELECT * FROM t WHERE visible(n) WITH CHECK OPTION;
INSERT INTO v VALUES (1, 10);
@error 44000 whole
INSERT INTO v VALUES (2, 85);
@error AP007 whole
INSERT INTO v VALUES (2, 95);
@error AP007 whole
UPDATE v SET n = 95;
CREATE FUNCTION checked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 7 THEN RAISE 'seven' USING errcode = 'AP008', column = 'n'; END IF; RETURN NEW; END $$;
CREATE TRIGGER checked BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION checked();
CREATE TRIGGER checked_after AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION checked();
@error AP008 whole
INSERT INTO t SELECT g, g FROM generate_series(1, 9) g;
@error AP008 whole
UPDATE t SET n = 7;
SELECT * FROM t;

== rights and limits
@table t ON s1
    k int, n int;
CREATE FUNCTION mine(i int) RETURNS int LANGUAGE sql STABLE AS 'SELECT i';
REVOKE ALL ON FUNCTION mine(int) FROM public;
GRANT ALL ON t TO alice;
INSERT INTO t VALUES (1, 10);
SET ROLE alice;
@error 42501 whole
SELECT * FROM t WHERE n = mine(1);
@error 42501 whole
SELECT * FROM t WHERE n = (SELECT mine(1));
RESET ROLE;
CREATE FUNCTION endless(i int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN endless(i + 1); END $$;
SET max_stack_depth = '500kB';
@error 54001 loose
SELECT * FROM t WHERE n = endless(1);
@error 54001 loose
SELECT * FROM t WHERE n = (SELECT endless(1));
RESET max_stack_depth;
CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN PERFORM pg_sleep(60); RETURN 1; END $$;
SET statement_timeout = '100ms';
@error 57014 whole
SELECT * FROM t WHERE n = (SELECT slow());
@error 57014 whole
SELECT * FROM t WHERE n = slow();
RESET statement_timeout;
SELECT * FROM t;
