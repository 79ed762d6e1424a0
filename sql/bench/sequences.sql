-- A local table whose key comes from a sequence: this server's own, or that of a server at :near or at :far, which is the same.
CREATE SCHEMA ids;
CREATE TABLE ids.rows (id bigint PRIMARY KEY, name text, amount int, at timestamptz);
CREATE SEQUENCE ids.ids;

SELECT format('CREATE SERVER ids_%s FOREIGN DATA WRAPPER shard_fdw OPTIONS (host ''127.0.0.1'', port ''%s'', dbname ''postgres'')',
    name, port)
FROM (VALUES ('near', :near), ('far', :far)) AS server(name, port) \gexec
CREATE USER MAPPING FOR CURRENT_USER SERVER ids_near OPTIONS (user 'postgres', password 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER ids_far OPTIONS (user 'postgres', password 'postgres');
