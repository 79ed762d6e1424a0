-- COPY counts what the shard stores, also where PostgreSQL hands rows over one at a time.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA cc_remote;
CREATE SCHEMA cc_test;
SET search_path = cc_test;
CREATE TABLE cc_remote.t (id int, v int);
CREATE FUNCTION cc_remote.even_only() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF NEW.id % 2 = 0 THEN RETURN NEW; END IF; RETURN NULL; END';
CREATE TRIGGER even BEFORE INSERT ON cc_remote.t FOR EACH ROW EXECUTE FUNCTION cc_remote.even_only();
CREATE FOREIGN TABLE t (id int, v int) SERVER loopback OPTIONS (schema_name 'cc_remote');
CREATE FOREIGN TABLE t_default (id int, v int DEFAULT (random() * 0)::int) SERVER loopback
    OPTIONS (schema_name 'cc_remote', table_name 't');
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100) SERVER loopback
    OPTIONS (schema_name 'cc_remote', table_name 't');
\set quiet :QUIET
\set QUIET off
COPY t FROM stdin;
1	10
2	20
3	30
\.
-- A volatile default, and a volatile WHERE.
COPY t_default (id) FROM stdin;
4
5
6
\.
COPY t FROM stdin WHERE id + random() > 0;
7	70
8	80
9	90
\.
COPY p FROM stdin;
11	110
12	120
13	130
\.
COPY p FROM stdin WHERE id + random() > 0;
14	140
15	150
\.
\set QUIET :quiet
SELECT * FROM cc_remote.t ORDER BY id;
SET client_min_messages = error;
DROP SCHEMA cc_remote, cc_test CASCADE;
