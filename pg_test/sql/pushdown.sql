-- Which conditions the shard evaluates, and how they are written.
SET client_min_messages = warning;
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA pushdown_remote;
CREATE SCHEMA pushdown_test;
SET search_path = pushdown_test;
CREATE TYPE pushdown_test.mood AS ENUM ('low', 'high');
CREATE DOMAIN pushdown_test.small AS int;
CREATE TABLE pushdown_remote.t (
    id int, big int8, num numeric, f float8, name text, code varchar(4), c text COLLATE "C", p text COLLATE "POSIX", d date,
    ts timestamptz, flag bool, arr int[], js jsonb, m pushdown_test.mood, dom pushdown_test.small, bits bit(3));
INSERT INTO pushdown_remote.t VALUES
    (1, 10, 1.5, 0.5, 'one', 'a', 'c', 'p', '2024-01-01', '2024-01-01 00:00+00', true, '{1,2}', '{"k": [1]}', 'low', 1, B'101'),
    (2, -10, 'NaN', '-Infinity', 'it''s \', 'b', NULL, 'P', NULL, NULL, NULL, NULL, NULL, 'high', 2, B'000');
CREATE FOREIGN TABLE t (
    id int, big int8, num numeric, f float8, name text, code varchar(4), c text COLLATE "C", p text COLLATE "POSIX", d date,
    ts timestamptz, flag bool, arr int[], js jsonb, m mood, dom small, bits bit(3))
    SERVER loopback OPTIONS (schema_name 'pushdown_remote');

-- The remote and the local part of a condition, and the rows it finds.
CREATE FUNCTION sent(condition text, relation text DEFAULT 't') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text; remote text; local text; ids text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM %I WHERE %s', relation, condition) LOOP
        remote := coalesce(remote, substring(line FROM 'Remote SQL: SELECT .* FROM "pushdown_remote"."[a-z]+"(.*)'));
        local := coalesce(local, substring(line FROM 'Filter: (.*)'));
    END LOOP;
    EXECUTE format('SELECT string_agg(id::text, '','' ORDER BY id) FROM %I WHERE %s', relation, condition) INTO ids;
    RETURN format('%-40s%s%s => %s', condition, remote, ' -- ' || local, ids);
END $$;

-- Constants.
SELECT sent('id = 1');
SELECT sent('id > -1');
SELECT sent('big = -10');
SELECT sent('big = 10::int2');
SELECT sent('num = ''NaN''');
SELECT sent('num = 1.5 AND num = 1.50::numeric(5,2)');
SELECT sent('f = ''-Infinity''');
SELECT sent('f < 0.1');
SELECT sent('name = ''it''''s \''');
SELECT sent('code = ''b''');
SELECT sent('d = ''2024-01-01''');
SELECT sent('ts = ''2024-01-01 01:00+01''');
SELECT sent('bits = B''101''');
SELECT sent('id = NULL');
SELECT sent('flag');
SELECT sent('NOT flag');
SELECT sent('flag IS NOT TRUE');
SELECT sent('flag IS UNKNOWN');
SELECT sent('flag = true OR id IS NULL OR name IS NOT NULL');

-- Operators and functions.
SELECT sent('id + 1 = 2');
SELECT sent('-id = -1');
SELECT sent('id % 2 = 0 AND abs(id) < 5');
SELECT sent('name LIKE ''%o%'' AND name ~ ''^o'' AND upper(name) = ''ONE''');
SELECT sent('name || code = ''onea''');
SELECT sent('id::text = ''1''');
SELECT sent('big::int4 = 10');
SELECT sent('num::numeric(4,1) = 1.5');
SELECT sent('id IN (1, 3)');
SELECT sent('id <> ALL (''{1,3}'')');
SELECT sent('name = ANY (ARRAY[''one'', code])');
SELECT sent('id BETWEEN 1 AND 1');
SELECT sent('id IS DISTINCT FROM 1');
SELECT sent('id IS NOT DISTINCT FROM 1');
SELECT sent('coalesce(id, 0) = 1');
SELECT sent('NULLIF(id, 1) IS NULL');
SELECT sent('CASE WHEN id = 1 THEN ''a'' ELSE code END = ''a''');
SELECT sent('CASE id WHEN 1 THEN flag WHEN 2 THEN false END');
SELECT sent('arr[1] = 1');
SELECT sent('arr[1:2] = ''{1,2}''');
SELECT sent('arr[:1] = ARRAY[id]');
SELECT sent('js[''k''][0] = ''1''');
SELECT sent('arr @> ARRAY[2]');
SELECT sent('ARRAY[]::int[] <@ arr');
SELECT sent('concat(VARIADIC ARRAY[name, code]) = ''onea''');
SELECT sent('make_interval(days => id) = ''1 day''');
SELECT sent('(id, big) = (1, 10)');
SELECT sent('ctid = ''(0,1)''');
SELECT sent('date_part(''year'', d) = 2024');

-- Casts of the parser: the type of the constant has decided for the operator.
CREATE TABLE pushdown_remote.mixed (
    id int, code char(6), v varchar(9), letter "char", f4 real, class regclass, tags varchar[]);
INSERT INTO pushdown_remote.mixed VALUES
    (1, 'AB', 'AB', 'a', 0.1, 'pg_class', '{a}'), (2, 'XYZ', 'x ', (-56)::"char", '-0', 'pg_type', '{b,c}');
CREATE FOREIGN TABLE mixed (
    id int, code char(6), v varchar(9), letter "char", f4 real, class regclass, tags varchar[])
    SERVER loopback OPTIONS (schema_name 'pushdown_remote');
SELECT sent('code = ''AB  ''', 'mixed');
SELECT sent('code = ''AB  ''::text', 'mixed');
SELECT sent('code <> ''AB  ''::text AND code LIKE ''X%''', 'mixed');
SELECT sent('code IN (''AB  '', ''C'')', 'mixed');
SELECT sent('code || ''|'' = ''AB|''', 'mixed');
SELECT sent('v = ''x ''', 'mixed');
SELECT sent('v = ''x''::bpchar', 'mixed');
SELECT sent('v = code', 'mixed');
SELECT sent('v || ''|'' = ''x |''', 'mixed');
SELECT sent('id < ''Infinity''::float8 AND id <> ''NaN''::numeric', 'mixed');
SELECT sent('id < 1e5 AND id < 1e20', 'mixed');
SELECT sent('f4 = 0.1::float8', 'mixed');
SELECT sent('atan2(f4, -1) = atan2(''-0'', -1::float8)', 'mixed');
SELECT sent('letter = (-56)::"char"', 'mixed');
SELECT sent('letter = ''a''::text', 'mixed');
SELECT sent('CASE code WHEN ''AB ''::text THEN 1 WHEN ''AB''::text THEN 2 END = 2', 'mixed');
SELECT sent('CASE id WHEN 1 THEN true WHEN 2.5 THEN false END', 'mixed');
SELECT sent('CASE WHEN id = 1 THEN id ELSE 2.5 END = 1.0', 'mixed');
SELECT sent('id = ANY (ARRAY[f4, id])', 'mixed');
SELECT sent('id::numeric(3,1) = 1.0', 'mixed');
SELECT sent('v::char(1) = ''x''', 'mixed');
SELECT sent('id < 9223372036854775807 AND id > -9223372036854775808', 'mixed');
-- Casts that only this database has: a call says what is meant, a relabelled type has no other name.
BEGIN;
CREATE CAST (float8 AS timestamptz) WITH FUNCTION pg_catalog.to_timestamp(float8) AS IMPLICIT;
CREATE CAST (int8 AS timestamp) WITHOUT FUNCTION;
SELECT sent('f::timestamptz = ''1970-01-01 00:00:00.5+00''');
SELECT sent('f < ''2000-01-01 00:00+00''::timestamptz');
SELECT sent('big::timestamp > ''2000-01-01''');
ROLLBACK;
-- OIDs of objects are other numbers in another database.
SELECT sent('class = ''pg_class''::regclass', 'mixed');
SELECT sent('class IS NULL', 'mixed');
SET plan_cache_mode = force_generic_plan;
PREPARE codes(text) AS SELECT id FROM mixed WHERE code = $1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE codes('AB  ');
EXECUTE codes('AB  ');
EXECUTE codes('AB');
PREPARE numbers(float8) AS SELECT id FROM mixed WHERE id < $1 ORDER BY id;
EXECUTE numbers('Infinity');
PREPARE letters("char") AS SELECT id FROM mixed WHERE letter = $1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE letters('a');
RESET plan_cache_mode;

-- What stays here: depends on the moment or on a setting, is not built in, or is not in every database.
SELECT sent('d < now()');
SELECT sent('ts::date = ''2024-01-01''');
SELECT sent('to_char(d, ''YYYY'') = ''2024''');
SELECT sent('random() < 2');
SELECT sent('m = ''low''');
SELECT sent('dom = 1');
SELECT sent('tableoid > 0');
SELECT sent('t IS NOT NULL');
SELECT sent('''pg_class''::regclass = 1259 AND to_tsvector(''simple'', name) @@ ''one''');
CREATE FUNCTION own(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
SELECT sent('own(id) = 1 AND id < 2');
CREATE FUNCTION same(int, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 = $2; END';
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = same);
SELECT sent('id === 1');
SELECT sent('id = (SELECT 1) AND EXISTS (SELECT FROM t AS o WHERE o.id = t.id)');

-- Collations: those of columns are known to the shard, others are not.
SELECT sent('c < ''d''');
SELECT sent('c = name');
SELECT sent('name < ''p'' COLLATE "C"');
SELECT sent('name COLLATE "C" < ''p''');
SELECT sent('c COLLATE "POSIX" < ''d''');
SELECT sent('upper(c) = ''C''');
SELECT sent('(c COLLATE "POSIX") IS NOT NULL');
SELECT sent('c || p COLLATE "POSIX" > ''a''');

-- Values of the running plan. They stay here if the statement itself writes to a foreign table.
\pset tuples_only off
CREATE FUNCTION remote(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
        IF line ~ 'Remote SQL' THEN
            RETURN NEXT ltrim(line);
        END IF;
    END LOOP;
END $$;
CREATE TABLE local (id int);
SELECT remote('SELECT id FROM t WHERE id = (SELECT max(id) FROM local)');
SELECT remote('SELECT id, (SELECT f FROM t WHERE t.id = local.id) FROM local');
SELECT remote('INSERT INTO local SELECT id FROM t WHERE id = (SELECT max(id) FROM local)');
SELECT remote('UPDATE t SET f = 1 WHERE id = (SELECT max(id) FROM local)');
SELECT remote('UPDATE t SET f = (SELECT o.f FROM t AS o WHERE o.id = t.id + 1) WHERE id = 1');
SELECT remote('WITH gone AS (DELETE FROM t WHERE id = 7 RETURNING id) SELECT id FROM t WHERE id = (SELECT max(id) FROM local)');

-- Locks.
SELECT remote('SELECT id FROM t FOR UPDATE');
SELECT remote('SELECT id FROM t FOR NO KEY UPDATE NOWAIT');
SELECT remote('SELECT id FROM t FOR SHARE');
SELECT remote('SELECT id FROM t FOR KEY SHARE SKIP LOCKED');
SELECT remote('SELECT t.id FROM t, t AS o FOR UPDATE OF o');
SELECT remote('DELETE FROM t USING t AS o WHERE t.id = o.id');

-- Immutable by the catalog, though settings of the session matter.
CREATE TABLE pushdown_remote.times (id int, at timestamptz, note text);
CREATE FOREIGN TABLE times (id int, at timestamptz, note text) SERVER loopback OPTIONS (schema_name 'pushdown_remote');
SELECT remote($$SELECT id FROM times WHERE age(at, timestamptz '2024-01-01 00:00Z') > interval '1 day'$$);
SELECT remote($$SELECT id FROM times WHERE quote_ident(note) = 'x'$$);

-- Row security of a parent: only what cannot leak is sent before its policies have been checked.
CREATE TABLE parent (id int, owner name, note text) PARTITION BY LIST (id);
CREATE TABLE pushdown_remote.leaf (id int, owner name, note text);
INSERT INTO pushdown_remote.leaf VALUES (1, 'pushdown_reader', 'mine'), (1, 'other', 'secret');
CREATE FOREIGN TABLE leaf PARTITION OF parent FOR VALUES IN (1) SERVER loopback OPTIONS (schema_name 'pushdown_remote');
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON parent USING (owner = current_user);
CREATE ROLE pushdown_reader;
GRANT USAGE ON SCHEMA pushdown_test TO pushdown_reader;
GRANT SELECT ON parent, local TO pushdown_reader;
CREATE USER MAPPING FOR pushdown_reader SERVER loopback OPTIONS (user 'postgres', password_required 'false');
SET ROLE pushdown_reader;
EXPLAIN (VERBOSE, COSTS OFF) SELECT note FROM parent WHERE note::int = 1 AND id = 1;
SELECT note FROM parent WHERE length(note) > 0;
RESET ROLE;

DROP USER MAPPING FOR pushdown_reader SERVER loopback;
DROP SCHEMA pushdown_test, pushdown_remote CASCADE;
DROP ROLE pushdown_reader;
