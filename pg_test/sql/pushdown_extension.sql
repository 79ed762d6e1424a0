-- requires: cube
-- Functions, operators and types of the extensions that a server lists.
SET client_min_messages = warning;
\pset format unaligned
CREATE EXTENSION cube SCHEMA public;
CREATE SCHEMA pushdown_cube;
CREATE TABLE pushdown_cube.r (id int, c public.cube);
INSERT INTO pushdown_cube.r VALUES (1, '(1,2)'), (2, '(5,6)');
CREATE FOREIGN TABLE pushdown_cube.t (id int, c public.cube) SERVER loopback OPTIONS (schema_name 'pushdown_cube', table_name 'r');
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM pushdown_cube.t WHERE c && '(0,0),(3,3)'::cube AND cube_dim(c) = 2;
SELECT id FROM pushdown_cube.t WHERE c && '(0,0),(3,3)'::cube AND cube_dim(c) = 2;
ALTER SERVER loopback OPTIONS (ADD extensions 'cube');
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM pushdown_cube.t WHERE c && '(0,0),(3,3)'::cube AND cube_dim(c) = 2;
SELECT id FROM pushdown_cube.t WHERE c && '(0,0),(3,3)'::cube AND cube_dim(c) = 2;
ALTER SERVER loopback OPTIONS (DROP extensions);
DROP SCHEMA pushdown_cube CASCADE;
DROP EXTENSION cube;
