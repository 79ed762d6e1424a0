-- A candidate: four foreign partitions below :parent, two on each of two servers, of tables in the schema :remote.
CREATE EXTENSION IF NOT EXISTS :"wrapper";

CREATE SCHEMA :"parent";
CREATE TABLE :"parent".rows (id bigint NOT NULL, name text, amount int, at timestamptz) PARTITION BY HASH (id);

CREATE SERVER :"server1" FOREIGN DATA WRAPPER :"wrapper" OPTIONS (host '127.0.0.1', port :'port1', dbname 'postgres');
CREATE SERVER :"server2" FOREIGN DATA WRAPPER :"wrapper" OPTIONS (host '127.0.0.1', port :'port2', dbname 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER :"server1" OPTIONS (user 'postgres', password 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER :"server2" OPTIONS (user 'postgres', password 'postgres');

CREATE FOREIGN TABLE :"parent".rows_0 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 0)
    SERVER :"server1" OPTIONS (schema_name :'remote');
CREATE FOREIGN TABLE :"parent".rows_1 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 1)
    SERVER :"server1" OPTIONS (schema_name :'remote');
CREATE FOREIGN TABLE :"parent".rows_2 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 2)
    SERVER :"server2" OPTIONS (schema_name :'remote');
CREATE FOREIGN TABLE :"parent".rows_3 PARTITION OF :"parent".rows FOR VALUES WITH (MODULUS 4, REMAINDER 3)
    SERVER :"server2" OPTIONS (schema_name :'remote');
