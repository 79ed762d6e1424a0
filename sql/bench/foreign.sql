-- A candidate: foreign partitions below :parent, evenly on servers at :ports, of tables in the schema :remote; :options
-- are the servers' own.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS :"wrapper";

CREATE SCHEMA :"parent";
CREATE TABLE :"parent".rows (:shape) PARTITION BY HASH (id);

CREATE TEMP TABLE server AS
SELECT format('%s_%s', :'parent', number) AS name, number, port FROM unnest(:'ports'::int[]) WITH ORDINALITY AS s(port, number);

SELECT format('CREATE SERVER %I FOREIGN DATA WRAPPER %I OPTIONS (host ''127.0.0.1'', port ''%s'', dbname ''postgres''%s)',
    name, :'wrapper', port, :'options')
FROM server \gexec
SELECT format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I OPTIONS (user ''postgres'', password ''postgres'')', name)
FROM server \gexec

SELECT format('CREATE FOREIGN TABLE %1$I.rows_%2$s PARTITION OF %1$I.rows FOR VALUES WITH (MODULUS %3$s, REMAINDER %2$s) '
    'SERVER %4$I OPTIONS (schema_name %5$L)', :'parent', i, :partitions, name, :'remote')
FROM generate_series(0, :partitions - 1) AS i
JOIN server ON number = 1 + i * (SELECT count(*) FROM server) / :partitions \gexec
