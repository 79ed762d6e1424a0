-- What the user's code sees of settings: those that the user has, whatever is set for the conversion of values.

== what a statement computes once
CREATE SCHEMA app;
SET search_path = app, w;
CREATE TABLE setting (v text);
INSERT INTO setting VALUES ('29/02/2024');
CREATE FUNCTION app.setting() RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT v FROM setting); END $$;
CREATE FUNCTION app.settings() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT concat_ws('; ', current_setting('datestyle'), current_setting('intervalstyle'), current_setting('extra_float_digits'), current_setting('timezone'), current_setting('xmloption'), current_setting('search_path'))
$$;
SET search_path = w;
@table note ON s1
    id int, day text, hits int;
INSERT INTO note VALUES (1, '29/02/2024', 0), (2, '2024-02-29', 0), (3, 'SQL, DMY; iso_8601; 0; Asia/Tokyo; document; app, w', 0), (4, 'P1D', 0), (5, '0.3333', 0);
SET search_path = app, w;
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'iso_8601';
SET extra_float_digits = 0;
SET timezone = 'Asia/Tokyo';
SET xmloption = document;
SELECT id FROM note WHERE day = (SELECT date '2024-02-29'::text);
SELECT id FROM note WHERE day = (SELECT setting());
SELECT id FROM note WHERE day = setting();
SELECT id FROM note WHERE day = (SELECT settings());
SELECT id FROM note WHERE day = (SELECT min(x::text) FROM (VALUES (interval '1 day')) v (x));
SELECT id FROM note WHERE day = (SELECT (1.0::float8 / 3)::numeric(5, 4)::text);
SELECT id FROM note WHERE day = (SELECT settings()) AND date '2024-02-29' = (SELECT '29/02/2024'::date);
SET plan_cache_mode = force_generic_plan;
PREPARE by_day(text) AS SELECT id FROM note WHERE day = (SELECT $1::date::text);
EXECUTE by_day('29/02/2024');
PREPARE by_date(date) AS SELECT id FROM note WHERE day = $1::text;
EXECUTE by_date('29/02/2024');
PREPARE by_function(int) AS SELECT id FROM note WHERE id > $1 AND day = setting();
EXECUTE by_function(0);
UPDATE note SET hits = 1 WHERE day = (SELECT min(x::text) FROM (VALUES (date '2024-02-29')) v (x));
UPDATE note SET hits = 2, day = (SELECT setting()) WHERE day = (SELECT settings());
UPDATE note SET day = (SELECT date '2024-03-01'::text) WHERE id = 2;
DELETE FROM note WHERE day = (SELECT date '2024-02-29'::text) AND id = 1;
SELECT u.v, n.id FROM (VALUES (date '2024-02-29'), (date '2024-03-01')) u (v) LEFT JOIN note n ON n.day = u.v::text ORDER BY 1, 2;
SELECT u.v, (SELECT id FROM note n WHERE n.day = u.v::text AND n.hits = length(settings()) - length(settings()) + 2) FROM (VALUES (date '2024-02-29')) u (v);
SELECT * FROM note ORDER BY id;
DROP TABLE setting;
DROP FUNCTION app.setting(), app.settings();
DROP SCHEMA app CASCADE;

== domains whose checks depend on settings
CREATE FUNCTION style() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws('; ', current_setting('datestyle'), current_setting('intervalstyle'), current_setting('extra_float_digits'), current_setting('xmloption'), current_setting('search_path'))
$$;
CREATE TABLE expected (v text);
INSERT INTO expected VALUES ('SQL, DMY; sql_standard; 0; document; w, public');
CREATE FUNCTION is_expected() RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT style() = v FROM expected);
END $$;
CREATE DOMAIN day AS date CHECK (length(VALUE::text) = 10 AND (VALUE::text LIKE '__/__/____' OR NOT is_expected()));
CREATE DOMAIN name_of AS regclass CHECK (is_expected() OR VALUE IS NULL);
CREATE DOMAIN word AS text CHECK (is_expected());
CREATE DOMAIN words AS text[] CHECK (is_expected());
CREATE DOMAIN spell AS interval CHECK (VALUE::text = '1 2:00:00');
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'sql_standard';
SET extra_float_digits = 0;
SET xmloption = document;
SET search_path = w, public;
@on s1
CREATE TABLE stored (id int, d date, c text, w text, l text[], i interval);
@on s1
INSERT INTO stored VALUES (1, '2024-02-29', 'pg_class', 'w', '{w}', '1 day 2:00'), (2, '2024-03-01', 'pg_type', NULL, NULL, '1 day 2:00');
@local
CREATE VIEW read AS SELECT id, d::day, c::name_of, w::word, l::words, i::spell FROM stored;
@foreign
CREATE FOREIGN TABLE read (id int, d day, c name_of, w word, l words, i spell) SERVER s1 OPTIONS (schema_name 'w', table_name 'stored');
SELECT * FROM read ORDER BY id;
SELECT c FROM read WHERE id = 1;
SELECT w, d FROM read WHERE w IS NULL;
@local
DROP VIEW read;
@foreign
DROP FOREIGN TABLE read;
@on s1
DROP TABLE stored;

== domains inside of other types
CREATE TABLE expected (v text);
INSERT INTO expected VALUES ('x');
CREATE FUNCTION is_expected(v text) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT expected.v = is_expected.v FROM expected);
END $$;
CREATE DOMAIN word AS text CHECK (is_expected(VALUE));
CREATE TYPE pair AS (w word, n int);
CREATE TYPE named AS (c regclass, w word);
CREATE FUNCTION larger(w word, v word) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT count(*) FROM expected); END $$;
CREATE TYPE word_range AS RANGE (subtype = word, subtype_opclass = text_ops, subtype_diff = larger);
@on s1
CREATE TABLE stored (id int, l text[], p text, n text, r text, m text[]);
@on s1
INSERT INTO stored VALUES (1, '{x,x}', '(x,1)', '(pg_class,x)', '[x,x]', '{"(x,2)"}');
@local
CREATE VIEW read AS SELECT id, l::word[], p::pair, n::named, r::word_range, m::pair[] FROM stored;
@foreign
CREATE FOREIGN TABLE read (id int, l word[], p pair, n named, r word_range, m pair[]) SERVER s1 OPTIONS (schema_name 'w', table_name 'stored');
SELECT * FROM read;
SELECT l FROM read;
SELECT p FROM read;
SELECT n FROM read;
SELECT r FROM read;
SELECT m FROM read;
@local
DROP VIEW read;
@foreign
DROP FOREIGN TABLE read;
@on s1
DROP TABLE stored;

== arrays with NULLs
@table t ON s1
    id int, l int[], w text[];
INSERT INTO t VALUES (1, ARRAY[1, NULL], ARRAY['NULL', NULL]);
SET array_nulls = off;
SELECT * FROM t;
SELECT w[1] IS NULL, w[2] IS NULL, current_setting('array_nulls') FROM t;
UPDATE t SET id = id + 1 RETURNING w[2] IS NULL;

== names of objects
@on s1
CREATE TABLE stored (id int, c text, l text[]);
@on s1
INSERT INTO stored VALUES (1, 'pg_class', '{pg_class,pg_type}');
CREATE TABLE pg_class (v int);
SET search_path = w, pg_catalog;
@local
CREATE VIEW read AS SELECT id, ('pg_catalog.' || c)::regclass AS c, ARRAY['pg_catalog.pg_class', 'pg_catalog.pg_type']::regclass[] AS l FROM stored;
@foreign
CREATE FOREIGN TABLE read (id int, c regclass, l regclass[]) SERVER s1 OPTIONS (schema_name 'w', table_name 'stored');
SELECT c::oid, l::oid[] FROM read;
@local
DROP VIEW read;
@foreign
DROP FOREIGN TABLE read;
@on s1
DROP TABLE stored;

== values beside user code
@table t ON s1
    id int, d date, i interval, f float8, w text;
CREATE FUNCTION style() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT concat_ws('; ', current_setting('datestyle'), current_setting('intervalstyle'), current_setting('extra_float_digits'), current_setting('xmloption'), current_setting('search_path'))
$$;
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'iso_8601';
SET extra_float_digits = -3;
SET xmloption = document;
ALTER TABLE t ALTER w SET DEFAULT style();
CREATE FUNCTION styled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := NEW.w || '/' || style() || NEW.d::text || NEW.i::text; RETURN NEW; END $$;
INSERT INTO t (id, d, i, f) VALUES (1, '29/02/2024', 'P1DT2H', 1.0::float8 / 3);
CREATE TRIGGER styled BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION styled();
INSERT INTO t (id, d, i, f) VALUES (2, '01/03/2024', 'P1Y', 0.1) RETURNING w, d, i, f;
UPDATE t SET d = d + 1, w = style() WHERE id = 1 RETURNING w, d, i, f;
COPY t (id, d, i, f) FROM STDIN;
3	31/12/2023	PT5M	0.25
\.
SELECT id, d, i, f, w, style() FROM t ORDER BY id;
